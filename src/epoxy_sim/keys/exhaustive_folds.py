"""Small worlds whose proposers fold several writes, and hand writes over to each other.

As in `exhaustive_world` every rule is production code; also what a home does at the end of a round: `proposer.settle`
and `proposer.answer_unfolded` run, and this module answers what they ask of other replicas. Written again is the order
of events at a home, in production that of `KeyQueue`: here it is any order. Which of the writes that wait are folded,
when one is handed over and when it is taken back is a step of its own. A Carry is on its way for ever: it is taken at
any time or never, copies of it reach later lives of its receiver, and so do the replies to it reach the home.

Judged in every state: one decision for each base; decisions whose versions are disjoint and follow each other; no write
in two decisions; no "done" that is not, and no "no" of a write that takes effect.
"""

from collections.abc import Callable, Iterator
from itertools import permutations

from msgspec.structs import replace

from epoxy.model.ballot import fast_ballot
from epoxy.model.messages import Accept, AcceptOk, AlreadyCommitted, Commit
from epoxy.model.records import FRESH, Proposal
from epoxy.model.writes import Committed, ConsensusFailed, Path, Refused, Write
from epoxy.model.writes import Outcome as Answered
from epoxy.protocol.effects import Answer, Context, Expired, Local, Next, Open, Pause, Timing
from epoxy.protocol.keys import carrying, folding, operations, proposer
from epoxy.protocol.keys.effects import Flow as ProposerFlow
from epoxy.protocol.keys.operations import NOT_EXPOSED, Fold, PendingWrite
from epoxy.protocol.keys.terms import Decision, OwnProposal
from epoxy_sim.keys.exhaustive_fold_records import (
    DONE,
    NO,
    UNKNOWN,
    CarryRecord,
    FoldFlow,
    FoldScope,
    FoldTalk,
    Item,
    NoDice,
    flow_of,
    found_at,
    ids_of,
    known_by,
    offering,
)
from epoxy_sim.keys.exhaustive_trace import (
    Declined,
    HandedOver,
    HeardAnswer,
    Label,
    Renewed,
    Restarted,
    TakenBack,
    TakenOver,
    proposal,
    write_id,
)
from epoxy_sim.keys.exhaustive_world import KEY, Broken, Column, Outcome, Rules, Talk, base_of, opened

Begin = Callable[[proposer.FoldIntent, Context], ProposerFlow[None]]
"""What production does at the end of a round."""


class FoldWorld(FoldScope, frozen=True, kw_only=True):
    def rules(self) -> Rules:
        return FoldRules(self)


class FoldRules(Rules):
    def __init__(self, world: FoldScope) -> None:
        super().__init__(world)
        self.folds = world

    def first(self) -> tuple[Talk, Column]:
        flows = tuple(FoldFlow(home=i, items=self.items_at(i)) for i in self.world.homes)
        return FoldTalk(flows=flows, told=(None,) * len(self.folds.writes)), Column(FRESH, (None,) * len(flows))

    def items_at(self, home: int) -> tuple[Item, ...]:
        return tuple(Item(number=number) for number, (owner, _) in enumerate(self.folds.writes) if owner == home)

    def pending_of(self, item: Item, at: int) -> PendingWrite:
        """As it waits at this replica."""
        return PendingWrite(
            write=self.folds.writes[item.number][1],
            proposal_id=self.folds.proposal_id(item.number),
            floor=item.floor,
            handed_over=item.handed_over,
            is_guest=at != self.folds.writes[item.number][0],
        )

    # Rounds

    def spontaneous(self, talk: Talk, f: int, column: Column) -> Iterator[Outcome]:
        flow = flow_of(talk, f)
        if flow.request is None:
            waiting = [item.number for item in flow.items if not item.away]
            for size in range(1, min(self.folds.fold, len(waiting)) + 1):
                for numbers in permutations(waiting, size):
                    yield from self.select(talk, f, column, numbers)
        else:
            yield from self.retry(talk, f, column, base_of(flow.request))
            yield from self.leave(talk, f, column)
        if talk.restarts < self.world.restarts:
            yield talk.after(f, FoldFlow(home=flow.home, life=flow.life + 1)), column, (flow.home, None, Restarted())

    def select(self, talk: Talk, f: int, column: Column, numbers: tuple[int, ...]) -> Iterator[Outcome]:
        """Proposer, step 1."""
        flow = flow_of(talk, f)
        writes = tuple(self.pending_of(flow.item(number), flow.home) for number in numbers)
        op = operations.Select(key=KEY, writes=writes, me=flow.home, epoch=self.epoch, insists=True)
        state, result = self.at_home(flow, column, op)
        label = (flow.home, op, result)
        begun = talk.after(f, replace(flow, under_way=numbers))
        match result:
            case operations.FastVote():
                ballot, offer = fast_ballot(flow.home), result.fold
                request = Accept(key=KEY, epoch=self.epoch, ballot=ballot, proposal=offer.proposal)
                voted = Column(state, column.oks).consenting(f, AcceptOk())
                yield opened(self.put_forward(offering(begun, f, offer), f), f, request), voted, label
            case operations.Reserved(fold=Fold() as offer):
                if len(talk.ballots) < self.world.recoveries:
                    promised = Column(state, column.oks)
                    yield self.prepare(offering(begun, f, offer), f, promised, op, result, column.state.version)
            case AlreadyCommitted():
                yield from self.settled(begun, f, column, result, label)
            case operations.Unfolded():
                unfolded = result
                yield from self.ended(
                    begun, f, column, lambda intent, ctx: proposer.answer_unfolded(intent, unfolded, ctx), label
                )
            case _:
                raise AssertionError(result)

    def leave(self, talk: Talk, f: int, column: Column) -> Iterator[Outcome]:
        """A new epoch ends the round; that requests of the old one are refused elsewhere is left out."""
        assert isinstance(talk, FoldTalk)
        if talk.epochs < self.folds.epochs:
            flow = flow_of(talk, f)
            offer, writes = self.offer_of(flow)
            intent = proposer.FoldIntent(KEY, writes)
            intent.offer = offer
            intent.leave_open()
            label: Label = (flow.home, None, Renewed(talk.epochs + 2))
            closed = replace(flow, request=None, under_way=(), offer=None, made=False, is_new=False)
            later = replace(talk, epochs=talk.epochs + 1).after(f, closed)
            yield self.answered(later, f, flow.under_way, writes, label), column, label

    def put_forward(self, talk: Talk, f: int) -> Talk:
        flow = flow_of(talk, f)
        offer, writes = self.offer_of(flow)
        assert offer is not None, "an open round has one"
        offer.put_forward()
        for number, pending in zip(flow.under_way, writes, strict=True):
            flow = flow.with_item(replace(flow.item(number), floor=pending.floor))
        return talk.after(f, replace(flow, made=True, is_new=offer.is_new))

    def own(self, talk: Talk, f: int, base: int) -> tuple[Talk, Proposal]:
        offer = flow_of(talk, f).offer
        assert offer is not None, "an open round has one"
        assert offer.proposal.base == base, "a round is about one instance"
        return self.put_forward(talk, f), offer.proposal

    def offer_of(self, flow: FoldFlow) -> tuple[OwnProposal | None, tuple[PendingWrite, ...]]:
        writes = tuple(self.pending_of(flow.item(number), flow.home) for number in flow.under_way)
        if flow.offer is None:
            return None, writes
        return OwnProposal(fold=flow.offer, writes=writes, made=flow.made, is_new=flow.is_new), writes

    # The end of a round

    def settled(
        self, talk: Talk, f: int, column: Column, decision: AlreadyCommitted, label: Label
    ) -> Iterator[Outcome]:
        decided = Decision(committed=decision.committed, lineage=decision.lineage, path=Path.SLOW)
        known = self.deciding(talk, decision.committed, label)
        yield from self.ended(known, f, column, lambda intent, ctx: proposer.settle(intent, decided, ctx), label)

    def ended(self, talk: Talk, f: int, column: Column, begin: Begin, label: Label) -> Iterator[Outcome]:
        """Production settles the round. Other replicas answer what it asks them, or are silent."""
        flow = flow_of(talk, f)
        for is_answered in (True, False):
            offer, writes = self.offer_of(flow)
            intent = proposer.FoldIntent(KEY, writes)
            intent.offer = offer
            ctx = Context(me=flow.home, config=self.config, dice=NoDice(), timing=Timing())
            after, asked = self.drive(begin(intent, ctx), talk, flow, column, is_answered)
            closed = replace(flow, request=None, under_way=(), offer=None, made=False, is_new=False)
            yield self.answered(talk.after(f, closed), f, flow.under_way, writes, label), after, label
            if not asked:
                return

    def drive(
        self, steps: ProposerFlow[None], talk: Talk, flow: FoldFlow, column: Column, is_answered: bool
    ) -> tuple[Column, bool]:
        """The column of its home afterwards, and whether other replicas were asked."""
        answers: list[Answer] = []
        asked, value = False, None
        while True:
            try:
                effect = steps.send(value)
            except StopIteration:
                return column, asked
            value = None
            match effect:
                case Local(op=Commit() as op):
                    state, value = self.at_home(flow, column, op)
                    column = Column(state, column.oks)
                case Open():
                    asked = True
                    answers = [Answer(to, known_by(talk, messages[-1])) for to, messages in effect.envelopes.items()]
                case Next():
                    value = answers.pop(0) if answers and is_answered else Expired()
                case Pause():
                    pass
                case _:
                    raise AssertionError(effect)

    def answered(
        self, talk: Talk, f: int, numbers: tuple[int, ...], writes: tuple[PendingWrite, ...], label: Label
    ) -> Talk:
        """What the writes of a round are told, their own clients or the homes that carried them here."""
        flow = flow_of(talk, f)
        for number, pending in zip(numbers, writes, strict=True):
            if pending.outcome is None:
                item = replace(flow.item(number), floor=pending.floor, handed_over=pending.handed_over)
                talk = talk.after(f, flow_of(talk, f).with_item(item))
                continue
            talk = talk.after(f, flow_of(talk, f).without(number))
            talk = (
                self.tell(talk, number, pending.outcome, label)
                if self.folds.writes[number][0] == flow.home
                else self.reply(talk, number, flow, pending, pending.outcome)
            )
        return talk

    def reply(self, talk: Talk, number: int, flow: FoldFlow, pending: PendingWrite, outcome: Answered) -> Talk:
        assert isinstance(talk, FoldTalk)
        for at, record in enumerate(talk.carries):
            if (record.number, record.receiver, record.life) == (number, flow.home, flow.life) and record.is_taken:
                talk = talk.with_carry(at, replace(record, answer=carrying.answer_to(pending, outcome)))
        return talk

    # Carrying

    def asides(self, talk: Talk, f: int, column: Column) -> Iterator[tuple[Talk, Label]]:
        assert isinstance(talk, FoldTalk)
        flow = flow_of(talk, f)
        for item in flow.items:
            if item.away:
                yield talk.after(f, flow.with_item(replace(item, away=False))), self.back(flow, item, False)
            elif flow.request is None and len(talk.carries) < self.folds.carries:
                yield from self.hand_over(talk, f, column, item)
        for at, record in enumerate(talk.carries):
            if record.receiver == flow.home:
                yield from self.arrive(talk, f, column, at, record)
            elif self.folds.writes[record.number][0] == flow.home:
                yield from self.hear(talk, f, column, record)

    def back(self, flow: FoldFlow, item: Item, is_declined: bool) -> Label:
        return flow.home, None, TakenBack(self.folds.proposal_id(item.number), is_declined)

    def hand_over(self, talk: FoldTalk, f: int, column: Column, item: Item) -> Iterator[tuple[Talk, Label]]:
        """Rule F2 (`HandOvers.send`). Not one that came by a Carry."""
        flow = flow_of(talk, f)
        pending = self.pending_of(item, flow.home)
        if pending.is_guest or not carrying.may_be_carried(pending.write):
            return
        pending.expose(column.state.version)
        spread = item.is_spread or item.handed_over
        gone = replace(item, floor=pending.floor, handed_over=True, is_spread=spread, away=True)
        for other in talk.flows:
            if other.home != flow.home:
                record = CarryRecord(
                    number=item.number,
                    floor=pending.floor,
                    receiver=other.home,
                    life=other.life,
                    is_fresh=item.floor == NOT_EXPOSED,
                )
                after = replace(talk, carries=(*talk.carries, record)).after(f, flow.with_item(gone))
                yield after, (flow.home, None, HandedOver(pending.proposal_id, other.home))

    def arrive(
        self, talk: FoldTalk, f: int, column: Column, at: int, record: CarryRecord
    ) -> Iterator[tuple[Talk, Label]]:
        """A Carry, or a copy of it, reaches its receiver (`Driver._take_over`)."""
        flow = flow_of(talk, f)
        pending = self.pending_of(Item(number=record.number, floor=record.floor, handed_over=True), flow.home)
        if record.life != flow.life:
            if carrying.was_taken_by_none(record.life) and not record.is_declined:
                declined = talk.with_carry(at, replace(record, is_declined=True))
                yield declined, (flow.home, None, Declined(pending.proposal_id))
            return
        if record.is_taken:
            return
        committed = column.state.committed
        found = carrying.place(pending, committed, column.state.lineage)
        label = (flow.home, None, TakenOver(pending.proposal_id, found))
        taken = replace(record, is_taken=True, is_declined=carrying.is_declined(found))
        if found > folding.ABSENT and committed is not None:
            outcome = folding.answer_found(pending, found, committed, Path.SLOW)
            yield talk.with_carry(at, replace(taken, answer=carrying.answer_to(pending, outcome))), label
        elif taken.is_declined or any(item.number == record.number for item in flow.items):
            yield talk.with_carry(at, taken), label
        else:
            item = Item(number=record.number, floor=pending.floor, handed_over=True)
            yield talk.with_carry(at, taken).after(f, flow.with_item(item)), label

    def hear(self, talk: FoldTalk, f: int, column: Column, record: CarryRecord) -> Iterator[tuple[Talk, Label]]:
        """Replies reach the home of a write that is away (`HandOvers`)."""
        flow = flow_of(talk, f)
        item = next((item for item in flow.items if item.number == record.number and item.away), None)
        if item is None:
            return
        if record.is_declined:
            floor = NOT_EXPOSED if record.is_fresh else item.floor
            returned = replace(item, handed_over=item.is_spread, away=False, floor=floor)
            yield talk.after(f, flow.with_item(returned)), self.back(flow, item, True)
        if record.answer is not None:
            label = (flow.home, None, HeardAnswer(self.folds.proposal_id(item.number), record.answer))
            pending = self.pending_of(item, flow.home)
            outcome = carrying.outcome_of(pending, record.answer)
            if not isinstance(outcome, Committed):
                outcome = found_at(column, pending) or outcome
            if isinstance(outcome, Refused):
                returned = replace(item, is_spread=True, away=False)
                yield talk.after(f, flow.with_item(returned)), label
            else:
                pending.handed_over = item.is_spread
                outcome = folding.tellable(pending, outcome)
                yield self.tell(talk.after(f, flow.without(item.number)), item.number, outcome, label), label

    # Judging

    def deciding(self, talk: Talk, committed: Proposal, label: Label) -> Talk:
        """One decision for each base, on top of another; each write in one of them; none that its client was told has
        failed."""
        if committed in talk.decided:
            return talk
        for other in talk.decided:
            if other.base == committed.base:
                raise Broken(f"two values decided: {proposal(other)} and {proposal(committed)}", label)
            if other.base < committed.version and committed.base < other.version:
                raise Broken(f"decisions overlap: {proposal(other)} and {proposal(committed)}", label)
            twice = set(ids_of(other)) & set(ids_of(committed))
            if twice:
                raise Broken(f"{write_id(min(twice))} took effect twice", label)
        if committed.base and all(other.version != committed.base for other in talk.decided):
            raise Broken(f"{proposal(committed)} is on top of nothing", label)
        assert isinstance(talk, FoldTalk)
        for number, told in enumerate(talk.told):
            if told == NO and self.folds.proposal_id(number) in ids_of(committed):
                raise Broken(f"{write_id(self.folds.proposal_id(number))} took effect after it was refused", label)
        decided = tuple(sorted((*talk.decided, committed), key=lambda each: each.version))
        sent = talk.sent.union({Commit(key=KEY, epoch=self.epoch, proposal=committed)})
        return replace(talk, decided=decided, sent=sent)

    def tell(self, talk: Talk, number: int, outcome: Answered, label: Label) -> Talk:
        assert isinstance(talk, FoldTalk)
        write = self.folds.proposal_id(number)
        versions = [folding.version_in(decided, write) for decided in talk.decided]
        told = UNKNOWN
        if isinstance(outcome, Committed):
            told = DONE
            if outcome.proposal.version not in versions:
                raise Broken(
                    f"{write_id(write)} was told done as version {outcome.proposal.version}, and is not", label
                )
        elif not isinstance(outcome, ConsensusFailed):
            told = NO
            if any(version != folding.ABSENT for version in versions):
                raise Broken(f"{write_id(write)} was refused after it took effect", label)
        return replace(talk, told=(*talk.told[:number], told, *talk.told[number + 1 :]))


def put(value: bytes) -> Write:
    return Write(key=KEY, value=value, mutable=True)


A_PUTS, A_DELETES, B_PUTS = (1, put(b"a")), (1, Write(key=KEY, value=None, mutable=True)), (2, put(b"b"))
RIVALS = (A_PUTS, B_PUTS)
ALL = (1, 2, 3)

FOLD_WORLDS = (
    FoldWorld(n=3, carries=1, recoveries=0, writes=RIVALS),
    FoldWorld(n=3, carries=1, recoveries=0, writes=(A_DELETES, B_PUTS)),
    FoldWorld(n=3, carries=1, recoveries=1, restarts=1, writes=RIVALS),
    FoldWorld(n=3, carries=1, recoveries=1, epochs=1, writes=(A_PUTS, A_DELETES)),
    FoldWorld(n=3, carries=1, recoveries=0, writes=(*RIVALS, (2, put(b"c")))),
    FoldWorld(n=3, recoveries=1, writes=(A_PUTS, (1, put(b"c")), B_PUTS)),
    FoldWorld(n=3, carries=1, recoveries=1, proposers=ALL, writes=RIVALS),
    FoldWorld(n=3, carries=1, recoveries=0, proposers=ALL, writes=(*RIVALS, (3, put(b"c")))),
    FoldWorld(n=3, carries=2, recoveries=1, writes=RIVALS),
    FoldWorld(n=3, carries=1, recoveries=2, writes=RIVALS),
    FoldWorld(n=5, carries=1, recoveries=1, writes=RIVALS),
)
"""Those of docs/testing.md, in its order. The larger ones take a minute."""
