"""Folds and Carries around the table of one key.

Production decides by time and traffic what is folded, handed over and taken back (`node.keys.key_queue`,
`node.keys.hand_overs`); here a command does. The rules are those of `protocol.keys`.
"""

from collections.abc import Callable, Sequence

import msgspec
from msgspec import Struct

from epoxy.model.cluster import ClusterConfig
from epoxy.model.messages import Carry, CarryAnswers, CarryOk
from epoxy.model.records import FRESH, ProposalId
from epoxy.model.writes import Outcome, Path, ReadOutcome, Write
from epoxy.protocol.effects import Context
from epoxy.protocol.keys import carrying, folding
from epoxy.protocol.keys.effects import Flow
from epoxy.protocol.keys.operations import NOT_EXPOSED, PendingWrite
from epoxy.protocol.keys.proposer import FoldIntent, run_round
from tests.scenarios import prose
from tests.scenarios.flow_table import Running
from tests.scenarios.table import ScenarioError
from tests.scenarios.world import KEY, World


class CarryPacket(Struct, frozen=True):
    message: Carry | CarryAnswers | CarryOk

    def __str__(self) -> str:
        return prose.carry(self.message)


class Waiting(Struct, kw_only=True):
    """At one replica: writes for its next fold, its own and those taken over, and what it has handed over."""

    here: list[PendingWrite] = msgspec.field(default_factory=list)
    away: dict[ProposalId, PendingWrite] = msgspec.field(default_factory=dict)


def one_round(intent: FoldIntent, ctx: Context) -> Flow[FoldIntent]:
    yield from run_round(intent, ctx)
    return intent


class CarryWorld(World):
    def __init__(self, config: ClusterConfig, say: Callable[[str], None]) -> None:
        super().__init__(config, say)
        self._waiting = {i: Waiting() for i in config.replica_ids}
        self._carries = 0

    def fold(self, owner: int, writes: Sequence[Write]) -> None:
        """A round with what waits, and these."""
        waiting = self._waiting[owner]
        intent = FoldIntent(KEY, [*waiting.here, *self._new(owner, writes)])
        if not intent.writes:
            raise ScenarioError(f"nothing waits at {prose.name(owner)}")
        waiting.here = []
        self.start(owner, lambda ctx: one_round(intent, ctx))

    def _new(self, owner: int, writes: Sequence[Write]) -> list[PendingWrite]:
        replica = self.replicas[owner]
        return [PendingWrite(write=write, proposal_id=ProposalId(owner, replica.nonce())) for write in writes]

    def finish(self, running: Running, outcome: Outcome | ReadOutcome | FoldIntent) -> None:
        if not isinstance(outcome, FoldIntent):
            super().finish(running, outcome)
            return
        owner = running.owner
        self.replicas[owner].running.remove(running)
        guests: dict[int, list[PendingWrite]] = {}
        for pending in outcome.writes:
            who = prose.write_id(pending.proposal_id)
            if pending.outcome is None:
                self.say(f"{prose.name(owner)} keeps {who} for its next fold")
                self._waiting[owner].here.append(pending)
            elif pending.is_guest:
                guests.setdefault(pending.proposal_id.replica_id, []).append(pending)
            else:
                self._answer(owner, pending, pending.outcome)
        for home, theirs in guests.items():
            answers = [carrying.answer_to(each, each.outcome) for each in theirs if each.outcome is not None]
            self._post(owner, home, CarryAnswers(key=KEY, owner=owner, answers=tuple(answers)))

    def _answer(self, owner: int, pending: PendingWrite, outcome: Outcome) -> None:
        who = prose.write_id(pending.proposal_id)
        self.say(f"{prose.name(owner)} answers the client of {who}: {prose.outcome(outcome)}")

    # Carrying

    def carry(self, home: int, owner: int, writes: Sequence[Write]) -> None:
        """Hand over what waits here, and these."""
        waiting, config = self._waiting[home], self.replicas[home].config
        leaving = [*waiting.here, *self._new(home, writes)]
        if not leaving:
            raise ScenarioError(f"nothing waits at {prose.name(home)}")
        waiting.here = []
        for pending in leaving:
            pending.expose(self.replicas[home].keys.get(KEY, FRESH).version)
            pending.handed_over = True
            waiting.away[pending.proposal_id] = pending
        self._carries += 1
        carried = tuple(carrying.packed(pending) for pending in leaving)
        message = Carry(key=KEY, epoch=config.epoch, sender=1, receiver=1, number=self._carries, writes=carried)
        self._post(home, owner, message)

    def take_back(self, home: int) -> None:
        """The hedge."""
        waiting = self._waiting[home]
        if not waiting.away:
            raise ScenarioError(f"{prose.name(home)} has handed nothing over")
        ids = " ".join(map(prose.write_id, waiting.away))
        self.say(f"{prose.name(home)} waits no longer, and takes {ids} back")
        waiting.here += waiting.away.values()
        waiting.away = {}

    def _post(self, sender: int, to: int, message: Carry | CarryAnswers | CarryOk) -> None:
        self.say(f"{prose.name(sender)} tells {prose.name(to)}: {prose.carry(message)}")
        self.links.setdefault((sender, to), []).append(CarryPacket(message))

    def deliver(self, sender: int, to: int, nth: int) -> None:
        on_the_way = self.links.get((sender, to), [])
        packet = on_the_way[nth - 1] if 1 <= nth <= len(on_the_way) else None
        if not isinstance(packet, CarryPacket) or not self.replicas[to].up:
            super().deliver(sender, to, nth)
            return
        message = self.take(sender, to, nth).message
        self.say(f"{prose.name(to)} gets {prose.carry(message)}")
        match message:
            case Carry():
                self._take_over(to, sender, message)
            case CarryOk():
                self._declined(to, message)
            case _:
                self._answered(to, message)

    def _take_over(self, owner: int, home: int, message: Carry) -> None:
        state = self.replicas[owner].keys.get(KEY, FRESH)
        declined: list[ProposalId] = []
        for carried in message.writes:
            pending = carrying.unpacked(KEY, carried)
            found = carrying.place(pending, state.committed, state.lineage)
            if found > folding.ABSENT and state.committed is not None:
                outcome = folding.answer_found(pending, found, state.committed, Path.SLOW)
                answers = (carrying.answer_to(pending, outcome),)
                self._post(owner, home, CarryAnswers(key=KEY, owner=owner, answers=answers))
            elif carrying.is_declined(found):
                declined.append(pending.proposal_id)
            else:
                self._waiting[owner].here.append(pending)
        self._post(owner, home, CarryOk(declined=tuple(declined), life=1))

    def _declined(self, home: int, message: CarryOk) -> None:
        """As if it had not been handed over."""
        waiting = self._waiting[home]
        for write in message.declined:
            pending = waiting.away.pop(write, None)
            if pending is not None:
                pending.handed_over, pending.floor = False, NOT_EXPOSED
                waiting.here.append(pending)

    def _answered(self, home: int, message: CarryAnswers) -> None:
        for answer in message.answers:
            pending = self._waiting[home].away.pop(answer.proposal_id, None)
            if pending is not None:
                self._answer(home, pending, carrying.outcome_of(pending, answer))

    def crash(self, owner: int) -> None:
        super().crash(owner)
        self._waiting[owner] = Waiting()
