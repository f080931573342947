"""One round as callbacks of one object instead of a flow: what `uncontended` (writes) and `quiet_read` (reads) share.

Nearly every write and read needs one round, and callbacks cost a third less than a flow (decision 0019). Anything
unexpected is left to the flow, which goes on with what is known by then.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

from epoxy.model.ballot import fast_ballot
from epoxy.model.errors import StoreFailed
from epoxy.model.messages import Accept, AlreadyCommitted, Read, Reply, StaleEpoch
from epoxy.model.records import Proposal
from epoxy.ports import Timer
from epoxy.protocol.effects import Context
from epoxy.protocol.keys.reader import nearest_quorum, rest
from epoxy.protocol.keys.rounds import missing_before
from epoxy.runtime.flow import reason_of

if TYPE_CHECKING:
    from epoxy.node.keys.driver import Driver

T = TypeVar("T")


class RoundPlan:
    """What follows from the configuration for the rounds of one replica, computed once for many of them. A write asks
    the `others` for `need` votes in all; a linearizable read asks `asked` for `slow` answers, and after `asked_ms` the
    `spare` ones as well."""

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx
        self.config = ctx.config
        self.timing = ctx.timing
        self.epoch = ctx.config.epoch
        self.votes = ctx.votes
        self.is_joint = ctx.config.previous is not None
        self.others = ctx.others()
        self.listeners = tuple([replica for replica in ctx.config.replica_ids if replica != ctx.me])
        self.need = ctx.config.quorums.fast
        self.ballot = fast_ballot(ctx.me)
        nearest = nearest_quorum(ctx)
        self.asked = nearest if nearest is not None else ctx.config.voters
        self.spare = rest(ctx, self.asked)
        self.asked_ms = ctx.timing.read_hedge_ms if self.spare else ctx.timing.round_timeout_ms
        self.slow = ctx.config.quorums.slow


class DirectRound(Generic[T]):
    """Answers once. Replies that come after the round was closed are dropped."""

    def __init__(
        self, driver: "Driver", name: str, plan: RoundPlan, spare: int, answered: Callable[[T], None] | None
    ) -> None:
        """`spare`: how many of the replicas may refuse before a quorum is out of reach."""
        self._driver = driver
        self._name = name
        self._plan = plan
        self._spare = spare
        self._answered = answered
        # Lists, because there are a handful of replicas at most. A sender counts once.
        self._refused: list[int] = []
        self._helped: list[int] = []
        self._request: Accept | Read | None = None
        self._base: Proposal | None = None
        self._timer: Timer | None = None
        self._is_open = False

    def _counted(self, sender: int, reply: Reply) -> bool:
        """Whether the reply is of the wanted kind. If so, it was counted, and the round may be over."""
        raise NotImplementedError

    def _leave(self, news: AlreadyCommitted | StaleEpoch | None) -> None:
        """Go on with a flow. `news`: the reply that ended the round, if it was one of these."""
        raise NotImplementedError

    def _failure(self, reason: str) -> T:
        raise NotImplementedError

    def _open(self, replicas: Iterable[int], request: Accept | Read, timer_ms: float) -> None:
        self._is_open = True
        self._request = request
        self._timer = self._driver.clock.call_later(timer_ms, self._expired)
        requests = (request,)
        for replica in replicas:
            self._driver.send(replica, requests, partial(self._heard, replica))

    def _close(self) -> None:
        self._is_open = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _expired(self) -> None:
        if self._is_open:
            self._close()
            self._leave(None)

    def _heard(self, sender: int, reply: Reply) -> None:
        if not self._is_open:
            return
        try:
            if not self._counted(sender, reply) and not self._help(sender, reply):
                self._count_out(sender, reply)
        except Exception as error:
            self._broke(error)

    def _help(self, sender: int, reply: Reply) -> bool:
        """A replica that missed something is sent it, once, with the request again."""
        request = self._request
        assert request is not None
        missing = missing_before(reply, self._plan.ctx, request, self._base)
        if missing is None or sender in self._helped:
            return False
        self._helped.append(sender)
        self._driver.send(sender, (missing, request), partial(self._heard, sender))
        return True

    def _count_out(self, sender: int, reply: Reply) -> None:
        if sender not in self._refused:
            self._refused.append(sender)
        if isinstance(reply, AlreadyCommitted | StaleEpoch):
            self._close()
            self._leave(reply)
        elif len(self._refused) > self._spare:
            self._close()
            self._leave(None)

    def _broke(self, error: Exception) -> None:
        """A bug. The client is answered all the same, and the writes queued behind this one go on; but an exception
        that comes after the answer was raised by its receiver."""
        self._close()
        if self._answered is None or isinstance(error, StoreFailed):
            raise error
        self._driver.failures.ended(self._name, error, partial(self._finish, self._failure(reason_of(error))))

    def _finish(self, outcome: T) -> None:
        """At most once, also if the receiver of the answer raises."""
        answered, self._answered = self._answered, None
        if answered is not None:
            answered(outcome)
