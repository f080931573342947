"""A write while nothing stands in its way: a local vote, those of a fast quorum, the local commit.

The rules are those of `protocol.keys`. Anything else is left to the flow (`proposer.run_write`): another result of the
local selection, a decision made elsewhere, a new epoch, a quorum out of reach, a promise made meanwhile.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from epoxy.model.errors import RottenRow
from epoxy.model.messages import Accept, AcceptOk, AlreadyCommitted, Commit, Prepare, Reply, StaleEpoch
from epoxy.model.records import Proposal
from epoxy.model.writes import Committed, ConsensusFailed, Outcome, Path, Refused, Write
from epoxy.node.keys.direct_round import DirectRound, RoundPlan
from epoxy.ports import Clock
from epoxy.protocol.keys.effects import Effect, Requests
from epoxy.protocol.keys.operations import Answered, Conclude, Concluded, FastVote, Reserved, Selected, Unconfirmed
from epoxy.protocol.keys.proposer import WriteIntent, new_proposal_id, run_write, selection
from epoxy.protocol.keys.terms import OwnProposal
from epoxy.runtime.flow import Done, FlowFailures, FlowRunner

if TYPE_CHECKING:
    from epoxy.node.keys.driver import Driver


class Uncontended(DirectRound[Outcome]):
    """One write, and the host of its flow if it needs one. `prepares`: the Prepare rounds which that has begun."""

    def __init__(
        self, driver: "Driver", write: Write, plan: RoundPlan, begun_ms: float, answered: Callable[[Outcome], None]
    ) -> None:
        super().__init__(driver, "write", plan, len(plan.others) + 1 - plan.need, answered)
        self.key = write.key
        self.begun_ms = begun_ms
        self.prepares = 0
        self._intent = WriteIntent(write, new_proposal_id(write, plan.ctx))
        self._voted = [plan.ctx.me]
        self._proposal: Proposal | None = None
        self._prepare: Prepare | None = None

    def start(self) -> None:
        try:
            if self._plan.votes:
                self._driver.replica.perform(selection(self._intent, self._plan.ctx), self._selected)
            else:
                self._leave(None)
        except RottenRow as rot:  # before anything was proposed
            self._finish(Refused(reason=str(rot)))
        except Exception as error:
            self._broke(error)

    def _selected(self, selected: object) -> None:
        try:
            if isinstance(selected, FastVote):
                self._put_forward(selected)
            elif isinstance(selected, StaleEpoch):
                self._leave(selected)
            else:
                assert isinstance(selected, Answered | Unconfirmed | Reserved | AlreadyCommitted)
                self._pursue(selected, None)
        except Exception as error:
            self._broke(error)

    def _put_forward(self, selected: FastVote) -> None:
        """The local vote is durable."""
        intent, plan, proposal = self._intent, self._plan, selected.proposal
        intent.offer = OwnProposal(proposal=proposal, made=True)
        intent.previous = self._base = selected.base
        self._proposal = proposal
        if plan.need == 1:
            self._conclude(proposal)
        else:
            request = Accept(key=self.key, epoch=plan.epoch, ballot=plan.ballot, proposal=proposal)
            self._open(plan.others, request, plan.timing.hedge_ms)

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
        """The local commit is durable. No replica may be sent it before."""
        try:
            if isinstance(result, Concluded) and self._proposal is not None:
                self._spread(self._proposal)
            else:
                self._leave(result if isinstance(result, AlreadyCommitted | StaleEpoch) else None)
                return
        except Exception as error:
            self._broke(error)
            return
        self._finish(Committed(proposal=self._proposal, mine=True, path=Path.FAST, previous=self._intent.previous))

    def _spread(self, proposal: Proposal) -> None:
        """Send Commit to all replicas, learners too, and expect no answer: one that misses it is sent it when a later
        request shows that it is behind."""
        commit = (Commit(key=self.key, epoch=self._plan.epoch, proposal=proposal),)
        for replica in self._plan.listeners:
            self._driver.transport.send(replica, commit, None)

    def _finish(self, outcome: Outcome) -> None:
        answered, self._answered = self._answered, None
        if answered is not None:
            self._driver.finished(self, outcome)
            answered(outcome)

    def _failure(self, reason: str) -> Outcome:
        return ConsensusFailed(reason=reason)

    # The flow

    def _leave(self, news: AlreadyCommitted | StaleEpoch | None) -> None:
        self._pursue(None, news)

    def _pursue(self, selected: Selected | None, news: AlreadyCommitted | StaleEpoch | None) -> None:
        flow = run_write(self._intent, self._plan.ctx, selected, news)
        FlowRunner(self, self._name, flow, self._failure, self._finish).start()

    @property
    def clock(self) -> Clock:
        return self._driver.clock

    @property
    def failures(self) -> FlowFailures:
        return self._driver.failures

    def perform(self, effect: Effect, done: Done) -> None:
        self._driver.perform(effect, done)

    def send(self, to: int, requests: Requests, answered: Callable[[Reply], None] | None) -> None:
        """Counts Prepare rounds: all replicas of a round are sent the same object."""
        last = requests[-1]
        if isinstance(last, Prepare) and last is not self._prepare:
            self._prepare = last
            self.prepares += 1
        self._driver.send(to, requests, answered)
