"""A write while nothing stands in its way: a vote at home, those of a fast quorum, the commit at home.

That is nearly every write, so it is told here once more, as callbacks that pass one object along, with the rules of
`protocol.keys`. Whatever else happens is left to the flow (`proposer.run_write`), which takes over with what is known
by then: another selection at home, somebody's decision, a new epoch, a quorum out of reach, a promise made meanwhile.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from epoxy.model.ballot import fast_ballot
from epoxy.model.errors import StoreFailed
from epoxy.model.messages import Accept, AcceptOk, AlreadyCommitted, Commit, Reply, Request, StaleEpoch
from epoxy.model.records import Proposal
from epoxy.model.writes import Committed, ConsensusFailed, Outcome, Path, Write
from epoxy.ports import Timer
from epoxy.protocol.keys.effects import Answer, Context
from epoxy.protocol.keys.operations import Answered, Conclude, Concluded, FastVote, Reserved, Selected, Unconfirmed
from epoxy.protocol.keys.proposer import WriteIntent, new_proposal_id, run_write, selection
from epoxy.protocol.keys.reader import nearest_quorum
from epoxy.protocol.keys.rounds import missing_before
from epoxy.protocol.keys.terms import OwnProposal
from epoxy.runtime.flow_failures import reason_of

if TYPE_CHECKING:
    from epoxy.node.keys.driver import Driver, Run

EARLIER_ROUND: Final = -1
"""A flow counts its rounds from 0 on: to it, whatever is heard here belongs to one that is over."""


class RoundPlan:
    """What follows from the configuration for the writes and reads of one replica; worked out once for many of them.
    `asked` are those of whom a linearizable read asks `slow` answers, `asked_ms` how long it waits for them."""

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx
        self.config = ctx.config
        self.timing = ctx.timing
        self.epoch = ctx.config.epoch
        self.votes = ctx.votes
        self.others = ctx.others()
        self.listeners = tuple([replica for replica in ctx.config.replica_ids if replica != ctx.me])
        self.need = ctx.config.quorums.fast
        self.ballot = fast_ballot(ctx.me)
        nearest = nearest_quorum(ctx)
        self.asked = nearest if nearest is not None else ctx.config.voters
        self.asked_ms = ctx.timing.hedge_ms if nearest is not None else ctx.timing.round_timeout_ms
        self.slow = ctx.config.quorums.slow


def goes_straight(standing: RoundPlan) -> bool:
    """Who does not vote proposes nothing, and the flow says so."""
    return standing.votes


class Uncontended:
    """One write. `run` is the flow that has taken over, if any has."""

    def __init__(
        self, driver: "Driver", write: Write, standing: RoundPlan, begun_ms: float, answered: Callable[[Outcome], None]
    ) -> None:
        self.key = write.key
        self.begun_ms = begun_ms
        self._driver = driver
        self._wish = WriteIntent(write, new_proposal_id(write, standing.ctx))
        self._standing = standing
        self._answered: Callable[[Outcome], None] | None = answered
        # Who has done what: a handful at most, and one sender counts once.
        self._voted = [standing.ctx.me]
        self._refused: list[int] = []
        self._helped: list[int] = []
        self._proposal: Proposal | None = None
        self._request: Accept | None = None
        self._timer: Timer | None = None
        self._is_open = False
        self.run: Run[Outcome] | None = None

    def start(self) -> None:
        try:
            if goes_straight(self._standing):
                self._driver.replica.perform(selection(self._wish, self._standing.ctx), self._selected)
            else:
                self._leave_it(None, None)
        except Exception as error:
            self._broke(error)

    def _selected(self, selected: object) -> None:
        try:
            if isinstance(selected, FastVote):
                self._put_forward(selected)
            elif isinstance(selected, StaleEpoch):
                self._leave_it(None, selected)
            else:
                assert isinstance(selected, Answered | Unconfirmed | Reserved | AlreadyCommitted)
                self._leave_it(selected, None)
        except Exception as error:
            self._broke(error)

    def _put_forward(self, selected: FastVote) -> None:
        """My own vote stands, and is durable."""
        wish, standing = self._wish, self._standing
        wish.offer = OwnProposal(proposal=selected.proposal, made=True)
        wish.previous = selected.base
        self._proposal = selected.proposal
        if standing.need == 1:
            self._conclude(selected.proposal)
            return
        self._is_open = True
        request = Accept(key=self.key, epoch=standing.epoch, ballot=standing.ballot, proposal=selected.proposal)
        self._request = request
        self._timer = self._driver.clock.call_later(standing.timing.hedge_ms, self._expired)
        requests = (request,)
        transport = self._driver.transport
        for replica in standing.others:
            transport.send(replica, requests, partial(self._heard, replica))

    def _heard(self, sender: int, reply: Reply) -> None:
        if not self._is_open:
            if self.run is not None:
                self.run._happened(EARLIER_ROUND, Answer(sender, reply))
            return
        try:
            if isinstance(reply, AcceptOk):
                self._count(sender)
            elif not self._help(sender, reply):
                self._count_out(sender, reply)
        except Exception as error:
            self._broke(error)

    def _count(self, sender: int) -> None:
        if sender not in self._voted:
            self._voted.append(sender)
        if len(self._voted) >= self._standing.need and self._proposal is not None:
            self._close()
            self._conclude(self._proposal)

    def _help(self, sender: int, reply: Reply) -> bool:
        """A replica that missed something is sent it, once, with the request again."""
        assert self._request is not None
        missing = missing_before(reply, self._standing.ctx, self._request, self._wish.previous)
        if missing is None or sender in self._helped:
            return False
        self._helped.append(sender)
        requests: tuple[Request, ...] = (missing, self._request)
        self._driver.transport.send(sender, requests, partial(self._heard, sender))
        return True

    def _count_out(self, sender: int, reply: Reply) -> None:
        if sender not in self._refused:
            self._refused.append(sender)
        if isinstance(reply, AlreadyCommitted | StaleEpoch):
            self._leave_it(None, reply)
        elif len(self._standing.others) + 1 - len(self._refused) < self._standing.need:
            self._leave_it(None, None)

    def _expired(self) -> None:
        if self._is_open:
            self._leave_it(None, None)

    def _close(self) -> None:
        self._is_open = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _conclude(self, proposal: Proposal) -> None:
        op = Conclude(key=self.key, proposal=proposal, epoch=self._standing.epoch)
        self._driver.replica.perform(op, self._concluded)

    def _concluded(self, result: object) -> None:
        """Committed at home, and durable: then, and only then, anybody hears of it."""
        try:
            if isinstance(result, Concluded) and self._proposal is not None:
                self._spread(self._proposal)
            else:
                self._leave_it(None, result if isinstance(result, AlreadyCommitted | StaleEpoch) else None)
                return
        except Exception as error:
            self._broke(error)
            return
        self._finished(Committed(proposal=self._proposal, mine=True, path=Path.FAST, previous=self._wish.previous))

    def _spread(self, proposal: Proposal) -> None:
        """Commit to everybody, learners too. Fire and forget: whoever misses it will be told when it matters."""
        commit = (Commit(key=self.key, epoch=self._standing.epoch, proposal=proposal),)
        transport = self._driver.transport
        for replica in self._standing.listeners:
            transport.send(replica, commit, None)

    def _broke(self, error: Exception) -> None:
        """A bug; but the writes queued behind this one must not wait for ever. What raises after the answer is not the
        write's."""
        self._close()
        if self._answered is None or isinstance(error, StoreFailed):
            raise error
        failed = ConsensusFailed(reason=reason_of(error))
        self._driver.failures.ended("write", error, partial(self._finished, failed))

    def _leave_it(self, selected: Selected | None, news: AlreadyCommitted | StaleEpoch | None) -> None:
        """To the flow, which knows what to do next."""
        self._close()
        self.run = self._driver.flow(run_write(self._wish, self._standing.ctx, selected, news), self._finished)
        self.run.start()

    def _finished(self, outcome: Outcome) -> None:
        """Once: whoever waits may fail at its answer."""
        answered, self._answered = self._answered, None
        if answered is not None:
            self._driver.finished(self, outcome)
            answered(outcome)
