"""What a flow of the ordered engine asks of whoever drives it. Like those of the per-key engine: a flow is a generator
that yields these and is resumed with their results, and has at most one round open.
"""

from collections.abc import Collection, Generator, Mapping
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from epoxy.model.ballot import Ballot
from epoxy.model.cluster import ClusterConfig
from epoxy.model.instances import (
    Command,
    Instance,
    InstanceId,
    OrderedAccept,
    OrderedCommit,
    OrderedRequest,
    Seal,
    Validate,
)
from epoxy.model.messages import Reply
from epoxy.ports import Dice

T = TypeVar("T")

DOUBLINGS = 2
"""Of the time for a round: from half a second to two, after which links give up waiting for an answer."""

# At this replica. Each is one transaction, and resumed when that is durable.


class Begin(Struct, frozen=True, kw_only=True):
    """Pre-accept a command of my own; resumed with the PreAccept for the others."""

    id: InstanceId
    command: Command


class Conclude(Struct, frozen=True, kw_only=True):
    """Commit what a fast quorum took as it was sent, unless I joined a ballot since."""

    id: InstanceId


class Join(Struct, frozen=True, kw_only=True):
    """Take a ballot of my own for an instance; resumed with what was held before, and the Recover to send."""

    id: InstanceId
    above: Ballot


class Look(Struct, frozen=True, kw_only=True):
    """What do I hold of these, and what was said about waiting for them?"""

    ids: tuple[InstanceId, ...]


HomeOp = Begin | Conclude | Join | Look | OrderedAccept | OrderedCommit | Validate | Seal


class Seen(Struct, frozen=True, kw_only=True):
    """What a look found."""

    instances: tuple[Instance, ...]
    waiting: tuple[int, ...]


class Home(Struct, frozen=True):
    op: HomeOp


# With the others.


class Open(Struct, frozen=True, kw_only=True):
    """Begin a round: send, and start its timer. Answers to the one before are dropped."""

    envelopes: Mapping[int, OrderedRequest]
    timer_ms: float


class Also(Struct, frozen=True, kw_only=True):
    """Send more within the open round, and start its timer anew."""

    envelopes: Mapping[int, OrderedRequest]
    timer_ms: float


class Next(Struct, frozen=True, kw_only=True):
    """Wait for the next event of the open round. `watching`: also for news of these instances."""

    watching: tuple[InstanceId, ...] = ()


class Tell(Struct, frozen=True, kw_only=True):
    """Send and forget."""

    envelopes: Mapping[int, OrderedRequest]


class Pause(Struct, frozen=True, kw_only=True):
    delay_ms: float


class Rescue(Struct, frozen=True, kw_only=True):
    """Somebody should recover these."""

    ids: tuple[InstanceId, ...]


Effect = Home | Open | Also | Next | Tell | Pause | Rescue


class Answer(Struct, frozen=True):
    sender: int
    reply: Reply


class News(Struct, frozen=True):
    """Something was learned of a watched instance."""


class Expired(Struct, frozen=True):
    """The round's timer rang."""


Event = Answer | News | Expired

Flow = Generator[Effect, Any, T]


class Timing(Struct, frozen=True, kw_only=True):
    """How long to wait. Never a matter of safety. A dependency that is not decided after `recover_ms` is recovered by
    whoever waits for it: later than its own coordinator would have needed for two rounds. Every `catchup_ms` another
    replica is asked for what was missed, and told what may be forgotten."""

    hedge_ms: float = 400.0
    round_timeout_ms: float = 1000.0
    recover_ms: float = 1000.0
    catchup_ms: float = 1000.0
    backoff_ms: float = 20.0
    backoff_cap_ms: float = 1000.0
    retries: int = 10


class Context(Struct, frozen=True, kw_only=True):
    me: int
    config: ClusterConfig
    dice: Dice
    timing: Timing

    def to_others(self, request: OrderedRequest) -> dict[int, OrderedRequest]:
        return dict.fromkeys(self.config.others(self.me), request)

    def to_rest(self, request: OrderedRequest, answered: Collection[int]) -> dict[int, OrderedRequest]:
        return {to: request for to in self.config.others(self.me) if to not in answered}

    def patient(self, attempt: int) -> "Context":
        """With twice as much time for a round at each attempt. Peers that are slower than the time-out was made for
        would never be heard, whatever they say, and nothing would be decided."""
        longer_ms = self.timing.round_timeout_ms * 2.0 ** min(attempt, DOUBLINGS)
        return replace(self, timing=replace(self.timing, round_timeout_ms=longer_ms))

    def backoff_ms(self, attempt: int) -> float:
        """Full jitter above one half: rivals that collided once should not collide again."""
        delay = min(self.timing.backoff_cap_ms, self.timing.backoff_ms * 2.0**attempt)
        return delay * (0.5 + self.dice.uniform() / 2)
