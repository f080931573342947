"""What a flow asks of whoever drives it.

A flow is a generator that tells a protocol of several steps from top to bottom. It yields effects and is resumed with
their results; production drives it from the event loop, the simulator from virtual time, a test by hand.

A flow has at most one round open. `Open` starts one and forgets the one before: answers to it are dropped, its timer
too. So a flow never mistakes an old answer for a new one.
"""

from collections.abc import Generator, Mapping
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from epoxy.model.cluster import ClusterConfig
from epoxy.model.messages import Reply, Request
from epoxy.ports import Dice
from epoxy.protocol.keys.operations import HomeOp

T = TypeVar("T")

Envelopes = Mapping[int, tuple[Request, ...]]
"""Requests for each replica, in order. The reply of the last one is the answer."""

DOUBLINGS = 2
"""Of the time for a round: from half a second to two, after which links give up waiting for an answer."""


class Home(Struct, frozen=True):
    """Run one transaction on this replica; resumed with its result once that is durable."""

    op: HomeOp


class Open(Struct, frozen=True, kw_only=True):
    """Begin a round: send, and start its timer."""

    envelopes: Envelopes
    timer_ms: float


class Also(Struct, frozen=True, kw_only=True):
    """Send more within the open round."""

    envelopes: Envelopes


class Next(Struct, frozen=True):
    """Wait for the next event of the open round; resumed with an Answer or Expired."""


class Tell(Struct, frozen=True, kw_only=True):
    """Send and forget."""

    envelopes: Envelopes


class Pause(Struct, frozen=True, kw_only=True):
    """Wait; cut short when this replica learns a commit of this key at `version` or above."""

    delay_ms: float
    key: bytes
    version: int


Effect = Home | Open | Also | Next | Tell | Pause


class Answer(Struct, frozen=True):
    sender: int
    reply: Reply


class Expired(Struct, frozen=True):
    """The round's timer rang."""


Event = Answer | Expired

Flow = Generator[Effect, Any, T]
"""What an effect resumes with depends on the effect, which Python's generator types cannot say: hence Any."""


class Timing(Struct, frozen=True, kw_only=True):
    """How long to wait, and for whom first. Never a matter of safety. `near` are the peers that seem to be there, the
    nearest first; without it, everybody is asked at once.

    The back-off is 10 ms, doubled, at most 1 s, at most 10 times: about 4 s, far beyond any round trip on earth, after
    which a quorum is more likely gone than busy.
    """

    hedge_ms: float = 400.0
    round_timeout_ms: float = 1000.0
    backoff_ms: float = 10.0
    backoff_cap_ms: float = 1000.0
    retries: int = 10
    near: tuple[int, ...] = ()


class Context(Struct, frozen=True, kw_only=True):
    """Where a flow runs."""

    me: int
    config: ClusterConfig
    dice: Dice
    timing: Timing

    @property
    def votes(self) -> bool:
        """Learners and leavers hear of decisions; their votes are in no quorum, so they propose nothing."""
        return self.me in self.config.voters

    def others(self) -> tuple[int, ...]:
        return self.config.others(self.me)

    def patient(self, silent: int) -> "Context":
        """With twice as much time for a round after each that failed though nobody stood in its way. Peers that are
        slower than the time-out was made for would never be heard, whatever they say."""
        longer_ms = self.timing.round_timeout_ms * 2.0 ** min(silent, DOUBLINGS)
        return replace(self, timing=replace(self.timing, round_timeout_ms=longer_ms))

    def backoff_ms(self, attempt: int) -> float:
        """Full jitter above one half: rivals that collided once should not collide again."""
        delay = min(self.timing.backoff_cap_ms, self.timing.backoff_ms * 2.0**attempt)
        return delay * (0.5 + self.dice.uniform() / 2)


class EpochChanged(Exception):
    """The configuration this flow runs under is over. Not an error: flows catch it, adopt, and look again."""

    def __init__(self, config: ClusterConfig) -> None:
        self.config = config
