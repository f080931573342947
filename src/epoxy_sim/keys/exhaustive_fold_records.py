"""Records of small worlds with folds, and what is read from them."""

from msgspec import Struct
from msgspec.structs import replace

from epoxy.model.ballot import NO_BALLOT
from epoxy.model.messages import CarryAnswer, Inspected, Read, ReadOk
from epoxy.model.records import LINEAGE_LENGTH, Proposal, ProposalId, Settled
from epoxy.model.writes import Outcome, Path, Write
from epoxy.protocol.keys import folding
from epoxy.protocol.keys.operations import NOT_EXPOSED, Fold, PendingWrite
from epoxy_sim.keys.exhaustive_world import Column, Flow, SmallWorld, Talk

DONE, NO, UNKNOWN = "done", "no", "unknown"


class FoldScope(SmallWorld, frozen=True, kw_only=True):
    """`writes`: each with its home. `fold`: the most that are proposed together. `carries`: how often one is handed
    over, `epochs`: how often a new one ends a round, in all."""

    writes: tuple[tuple[int, Write], ...]
    fold: int = 2
    carries: int = 0
    epochs: int = 0
    versions: int = 2
    commits: bool = True

    def __post_init__(self) -> None:
        assert {home for home, _ in self.writes} <= set(self.proposers), self
        assert not self.readers, self

    def proposal_id(self, number: int) -> ProposalId:
        return ProposalId(self.writes[number][0], number + 1)


class Item(Struct, frozen=True, kw_only=True):
    """A write that waits at a replica, or was carried from there (`away`). `is_spread`: another replica than the one it
    was handed to last may fold it. The rest as in PendingWrite."""

    number: int
    floor: int = NOT_EXPOSED
    handed_over: bool = False
    is_spread: bool = False
    away: bool = False


class FoldFlow(Flow, frozen=True, kw_only=True):
    """`under_way`: the writes of its open round. `offer` is their fold, and is put forward once it is `made`. `is_new`
    as in `OwnProposal`."""

    items: tuple[Item, ...] = ()
    under_way: tuple[int, ...] = ()
    offer: Fold | None = None
    made: bool = False
    is_new: bool = False

    def item(self, number: int) -> Item:
        return next(item for item in self.items if item.number == number)

    def with_item(self, item: Item) -> "FoldFlow":
        others = self.without(item.number).items
        return replace(self, items=tuple(sorted([*others, item], key=lambda each: each.number)))

    def without(self, number: int) -> "FoldFlow":
        return replace(self, items=tuple(item for item in self.items if item.number != number))


class CarryRecord(Struct, frozen=True, kw_only=True):
    """A Carry of one write to one life of a replica, and what came of it. `is_fresh`: it was never put forward."""

    number: int
    floor: int
    receiver: int
    life: int
    is_fresh: bool
    is_taken: bool = False
    is_declined: bool = False
    answer: CarryAnswer | None = None


class FoldTalk(Talk, frozen=True, kw_only=True):
    """`told`: what the client of each write was told."""

    told: tuple[str | None, ...] = ()
    carries: tuple[CarryRecord, ...] = ()
    epochs: int = 0

    def with_carry(self, at: int, record: CarryRecord) -> "FoldTalk":
        return replace(self, carries=(*self.carries[:at], record, *self.carries[at + 1 :]))


class NoDice:
    """Nothing at the end of a round is by chance but how long it pauses."""

    def nonce(self) -> int:
        raise AssertionError

    def uniform(self) -> float:
        return 0.0


def flow_of(talk: Talk, f: int) -> FoldFlow:
    flow = talk.flows[f]
    assert isinstance(flow, FoldFlow)
    return flow


def offering(talk: Talk, f: int, offer: Fold) -> Talk:
    return talk.after(f, replace(flow_of(talk, f), offer=offer, made=False))


def found_at(column: Column, pending: PendingWrite) -> Outcome | None:
    """Its answer by the decisions that were learned here (`KeyQueue.learned`)."""
    committed = column.state.committed
    if committed is None:
        return None
    known = folding.decisions(committed, column.state.lineage)
    found = max(folding.version_in(each, pending.proposal_id) for each in known)
    return folding.answer_found(pending, found, committed, Path.SLOW) if found != folding.ABSENT else None


def ids_of(decided: Proposal) -> tuple[ProposalId, ...]:
    return (*decided.folded, decided.proposal_id)


def known_by(talk: Talk, request: object) -> ReadOk | Inspected:
    """What a replica says that knows all decisions."""
    newest = talk.decided[-1] if talk.decided else None
    if isinstance(request, Read):
        return ReadOk(committed=newest, vote=None)
    earlier = [Settled(each.version, each.proposal_id, each.folded) for each in talk.decided[-2::-1]]
    return Inspected(
        epoch=1,
        committed=newest,
        lineage=tuple(earlier[:LINEAGE_LENGTH]),
        promised=NO_BALLOT,
        vote=None,
        cached=None,
        changelog=(),
    )
