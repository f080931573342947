"""Effects that all flows share.

A flow is a generator that tells a protocol of several steps from top to bottom. It yields effects and is resumed with
their results: in production by `runtime.flow`, in the simulator with virtual time, in a test by hand. Each protocol
adds effects of its own in its `effects.py`, and has there the union of all that its flows may yield.

A flow has at most one round open. `Open` starts one and closes the one before: later replies to that one are dropped,
and its timer is cancelled. So a flow never mistakes an old answer for a new one.
"""

from collections.abc import Collection, Mapping
from typing import Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from epoxy.model.cluster import ClusterConfig
from epoxy.model.instances import InstanceId
from epoxy.model.messages import Reply
from epoxy.ports import Dice

M = TypeVar("M")
M_co = TypeVar("M_co", covariant=True)
"""What a protocol sends: one request, or several in order, of which the last one is answered."""

Op_co = TypeVar("Op_co", covariant=True)

DOUBLINGS = 2
"""Of the time for a round: from half a second to two, after which links give up waiting for an answer."""


class Local(Struct, Generic[Op_co], frozen=True):
    """Run one transaction on this replica; resumed with its result once that is durable."""

    op: Op_co


class Adopt(Struct, frozen=True, kw_only=True):
    """A local operation: move to a newer configuration, never to an older one. Its result is the configuration then in
    force."""

    config: ClusterConfig


class Open(Struct, Generic[M_co], frozen=True, kw_only=True):
    """Begin a round: start its timer, and send."""

    envelopes: Mapping[int, M_co]
    timer_ms: float


class Also(Struct, Generic[M_co], frozen=True, kw_only=True):
    """Send more within the open round. With `timer_ms` its timer starts anew; with a key, too, it rings as soon as this
    replica has a commit of that key at `version` or above."""

    envelopes: Mapping[int, M_co]
    timer_ms: float | None = None
    key: bytes | None = None
    version: int = 0


class Next(Struct, frozen=True, kw_only=True):
    """Wait for the next event of the open round. `watching`: also for news of these instances."""

    watching: tuple[InstanceId, ...] = ()


class Tell(Struct, Generic[M_co], frozen=True, kw_only=True):
    """Send, and expect no answer."""

    envelopes: Mapping[int, M_co]


class Pause(Struct, frozen=True, kw_only=True):
    """Wait. With a key: at most until this replica has a commit of that key at `version` or above."""

    delay_ms: float
    key: bytes | None = None
    version: int = 0


class Answer(Struct, frozen=True):
    sender: int
    reply: Reply


class Expired(Struct, frozen=True):
    """The timer of the round rang."""


class News(Struct, frozen=True):
    """Something was learned of a watched instance."""


Event = Answer | Expired | News


class Timing(Struct, frozen=True, kw_only=True):
    """How long to wait, and which replicas to ask first. Safety never depends on it. `near` are the peers within reach,
    the nearest first, and this replica if its disk makes it one of them; if it is empty, all voters are asked at once.
    If the nearest quorum has not answered a read after `read_hedge_ms`, the other voters are asked as well.

    The back-off is 10 ms, doubled, at most 1 s, at most 10 times: about 4 s, far beyond any round trip on earth, after
    which a quorum is more likely gone than busy.

    `rank` is higher the nearer a quorum is. It is added to the first classic ballot of an instance: of rivals that
    begin together the one that can end soonest has the highest.
    """

    hedge_ms: float = 400.0
    read_hedge_ms: float = 100.0
    round_timeout_ms: float = 1000.0
    backoff_ms: float = 10.0
    backoff_cap_ms: float = 1000.0
    retries: int = 10
    near: tuple[int, ...] = ()
    rank: int = 0


class Context(Struct, frozen=True, kw_only=True):
    """Where a flow runs. `forgetful`: others may hold fast votes for proposals of this replica that it knows nothing
    of, because an earlier start sent Accepts before its own votes were durable. It takes part in fast rounds of others
    only."""

    me: int
    config: ClusterConfig
    dice: Dice
    timing: Timing
    forgetful: bool = False

    @property
    def votes(self) -> bool:
        """Learners and leavers are sent decisions; their votes are in no quorum, so they propose nothing."""
        return self.me in self.config.voters

    def others(self) -> tuple[int, ...]:
        return self.config.others(self.me)

    def to_others(self, message: M) -> dict[int, M]:
        return dict.fromkeys(self.others(), message)

    def to_rest(self, message: M, answered: Collection[int]) -> dict[int, M]:
        return {to: message for to in self.others() if to not in answered}

    def patient(self, failures: int) -> "Context":
        """With twice as much time for a round after each failure. Replies of peers that are slower than the time-out
        was made for would always come too late, and nothing would be decided."""
        longer_ms = self.timing.round_timeout_ms * 2.0 ** min(failures, DOUBLINGS)
        return replace(self, timing=replace(self.timing, round_timeout_ms=longer_ms))

    def turn_ms(self) -> float:
        """For a rival with a higher ballot to end its round. As long as a fast round may take, in which a quorum is
        asked twice by a rival that is nearer to one; jittered, so that those that waited for one rival do not begin
        together."""
        return self.timing.hedge_ms * (1 + self.dice.uniform() / 2)

    def backoff_ms(self, attempt: int) -> float:
        """Full jitter above one half: rivals that collided once should not collide again."""
        delay = min(self.timing.backoff_cap_ms, self.timing.backoff_ms * 2.0**attempt)
        return delay * (0.5 + self.dice.uniform() / 2)
