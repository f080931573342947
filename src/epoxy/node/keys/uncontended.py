"""A round of writes while nothing stands in its way: a local vote for their fold, those of a fast quorum, the local
commit.

The rules are those of `protocol.keys`. Anything else is left to the flow (`proposer.run_round`): another result of the
local selection, a decision made elsewhere, a new epoch, a quorum out of reach, a promise made meanwhile.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from epoxy.model.errors import RottenRow
from epoxy.model.messages import Accept, AcceptOk, AlreadyCommitted, Commit, HigherBallot, Prepare, Reply, StaleEpoch
from epoxy.model.records import KeyState, Proposal
from epoxy.model.validation import base_of
from epoxy.model.writes import Committed, ConsensusFailed, Path, Refused
from epoxy.node.keys.direct_round import DirectRound, RoundPlan
from epoxy.ports import Clock
from epoxy.protocol.effects import Context
from epoxy.protocol.keys.effects import Effect, Flow, Requests
from epoxy.protocol.keys.operations import (
    Conclude,
    Concluded,
    FastVote,
    Occupied,
    PendingWrite,
    Reserved,
    Selected,
    Unfolded,
)
from epoxy.protocol.keys.proposer import FoldIntent, catch_up, run_round, selection
from epoxy.protocol.keys.terms import OwnProposal
from epoxy.runtime.flow import Done, FlowFailures, FlowRunner

if TYPE_CHECKING:
    from epoxy.node.keys.driver import Driver


class Uncontended(DirectRound[FoldIntent]):
    """One round, and the host of its flow if it needs one. `prepares`: the Prepare rounds which that has begun. At the
    end each write has an outcome, or is to be folded again."""

    def __init__(
        self,
        driver: "Driver",
        key: bytes,
        writes: Sequence[PendingWrite],
        plan: RoundPlan,
        ended: Callable[[FoldIntent], None],
        silent: int = 0,
    ) -> None:
        super().__init__(driver, "write", plan, len(plan.others) + 1 - plan.need, ended)
        self.key = key
        self.prepares = 0
        self._intent = FoldIntent(key, writes, silent)
        self._voted = [plan.ctx.me]
        self._proposal: Proposal | None = None
        self._asked: Prepare | Accept | None = None
        """By the flow, in its last round."""
        self._on_top_of = 0
        self._tell: Callable[[Reply], None] | None = None
        """Takes replies of the open round, whose instance is on top of that version."""
        self._met: AlreadyCommitted | None = None
        """What was learned while the own vote was being synced."""

    def start(self) -> None:
        try:
            if self._driver.stale_keys.is_watching and self._reads_first():
                self._run(catch_up(self._intent, self._plan.ctx))
            elif self._plan.votes:
                self._driver.replica.perform(selection(self._intent, self._plan.ctx), self._selected)
            else:
                self._leave(None)
        except RottenRow as rot:  # before anything was proposed
            self._finish(self._nothing_done(str(rot)))
        except Exception as error:
            self._broke(error)

    def _reads_first(self) -> bool:
        """A reservation is told who has the key in any case, and what was put forward before is looked for."""
        may_be_lost = any(pending.write.mutable for pending in self._intent.writes)
        return may_be_lost and not self._intent.is_exposed and self._driver.stale_keys.is_first(self.key)

    def _selected(self, selected: object) -> None:
        try:
            if isinstance(selected, FastVote):
                self._put_forward(selected)
            elif isinstance(selected, StaleEpoch):
                self._leave(selected)
            else:
                assert isinstance(selected, Unfolded | Reserved | Occupied | AlreadyCommitted)
                self._pursue(selected, None)
        except Exception as error:
            self._broke(error)

    def _put_forward(self, selected: FastVote) -> None:
        """The local vote is durable. If its instance was decided meanwhile, nothing is put forward."""
        intent, plan, fold = self._intent, self._plan, selected.fold
        if self._met is not None and self._met.committed.version > base_of(fold.proposal):
            self._leave(self._met)
            return
        intent.offer = OwnProposal(fold=fold, writes=intent.writes)
        intent.offer.put_forward()
        self._base = fold.base
        proposal = self._proposal = fold.proposal
        if plan.need == 1:
            self._conclude(proposal)
        else:
            self._on_top_of, self._tell = base_of(proposal), self._heard_at_home
            request = Accept(key=self.key, epoch=plan.epoch, ballot=plan.ballot, proposal=proposal)
            self._open(plan.others, request, plan.timing.hedge_ms)

    def learned(self, after: KeyState) -> None:
        """A decision was learned here. If it is that of this instance or of a later one, the open round ends as if a
        replica had answered so: its client need not wait for a reply that tells the same."""
        if after.committed is None or (self._tell is None and self._proposal is not None):
            return
        news = AlreadyCommitted(committed=after.committed, lineage=after.lineage)
        if self._tell is None:
            self._met = news
        elif self._on_top_of < after.version:
            self.clock.call_later(0, partial(self._tell, news))

    def _close(self) -> None:
        super()._close()
        self._tell = None

    def _heard_at_home(self, reply: Reply) -> None:
        self._heard(self._plan.ctx.me, reply)

    def rival(self, accept: Accept) -> None:
        """A proposer has voted for itself before it asks others, so it will refuse this round: known from its request,
        half a round trip before its answer is here."""
        if self._is_open and accept.proposal.base == self._on_top_of:
            self.clock.call_later(0, partial(self._heard, accept.ballot.replica_id, HigherBallot(ballot=accept.ballot)))

    def _count_out(self, sender: int, reply: Reply) -> None:
        """A replica that voted for a rival in the fast round says that the rival has voted for itself."""
        super()._count_out(sender, reply)
        if self._is_open and isinstance(reply, HigherBallot) and reply.ballot.is_fast:
            super()._count_out(reply.ballot.replica_id, reply)

    def _counted(self, sender: int, reply: Reply) -> bool:
        if not isinstance(reply, AcceptOk):
            return False
        if sender not in self._voted:
            self._voted.append(sender)
        if len(self._voted) >= self._plan.need and self._proposal is not None:
            self._close()
            self._conclude(self._proposal)
        return True

    def _conclude(self, proposal: Proposal) -> None:
        op = Conclude(key=self.key, proposal=proposal, epoch=self._plan.epoch)
        self._driver.replica.perform(op, self._concluded)

    def _concluded(self, result: object) -> None:
        """The local commit is durable. No replica may be sent it before, and only now are the writes answered (F1)."""
        intent = self._intent
        try:
            if isinstance(result, Concluded) and self._proposal is not None and intent.offer is not None:
                self._spread(self._proposal)
                intent.decided, intent.travelled = self._proposal, Path.FAST
                for pending, outcome in zip(intent.writes, intent.offer.fold.answers, strict=True):
                    if isinstance(outcome, Committed) and not pending.lost:
                        pending.outcome = outcome
                    else:
                        intent.answer(pending, outcome)
            else:
                self._leave(result if isinstance(result, AlreadyCommitted | StaleEpoch) else None)
                return
        except Exception as error:
            self._broke(error)
            return
        self._finish(intent)

    def _spread(self, proposal: Proposal) -> None:
        """Send Commit to all replicas, learners too, and expect no answer: one that misses it is sent it when a later
        request shows that it is behind."""
        commit = (Commit(key=self.key, epoch=self._plan.epoch, proposal=proposal),)
        for replica in self._plan.listeners:
            self._driver.transport.send(replica, commit, None)

    def _failure(self, reason: str) -> FoldIntent:
        """After a bug nothing is certain."""
        for pending in self._intent.open:
            pending.outcome = ConsensusFailed(reason=reason)
        return self._intent

    def _nothing_done(self, reason: str) -> FoldIntent:
        for pending in self._intent.open:
            pending.outcome = Refused(reason=reason)
        return self._intent

    # The flow

    def _leave(self, news: AlreadyCommitted | StaleEpoch | None) -> None:
        self._pursue(None, news)

    def _pursue(self, selected: Selected | None, news: AlreadyCommitted | StaleEpoch | None) -> None:
        self._run(run_round(self._intent, self._plan.ctx, selected, news))

    def _run(self, flow: Flow[Context]) -> None:
        FlowRunner(self, self._name, flow, self._failed, lambda _: self._finish(self._intent)).start()

    def _failed(self, reason: str) -> Context:
        self._failure(reason)
        return self._plan.ctx

    @property
    def clock(self) -> Clock:
        return self._driver.clock

    @property
    def failures(self) -> FlowFailures:
        return self._driver.failures

    def perform(self, effect: Effect, done: Done) -> None:
        """At home, or a pause: the flow has no round open."""
        self._tell = None
        self._driver.perform(effect, done)

    def send(self, to: int, requests: Requests, answered: Callable[[Reply], None] | None) -> None:
        """All replicas of a round are sent the same object."""
        last = requests[-1]
        if answered is not None and isinstance(last, Prepare | Accept) and last is not self._asked:
            self._begun(last, answered)
        self._driver.send(to, requests, answered)

    def _begun(self, request: Prepare | Accept, answered: Callable[[Reply], None]) -> None:
        """The flow has begun a round. The decision may have been learned while its ballot was being made durable."""
        self._asked, self._tell = request, answered
        if isinstance(request, Prepare):
            self._on_top_of = request.base
            self.prepares += 1
        else:
            self._on_top_of = request.proposal.base
        self.learned(self._driver.replica.state(self.key))
