"""Folds: rules F1 to F6, and that folding writes is applying them one by one."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from epoxy.model.records import MAX_FOLD_WRITES, Proposal, ProposalId, Settled
from epoxy.model.writes import (
    Committed,
    ExpectedValueDoesNotMatch,
    ImmutableKey,
    NotAnInteger,
    NothingToDelete,
    Outcome,
    Path,
    VersionMismatch,
    Write,
)
from epoxy.protocol.keys.folding import (
    ABSENT,
    MAX_FOLD_BYTES,
    STILL_HANDED_OVER,
    UNANSWERED,
    UNKNOWN,
    answer_found,
    find,
    fold,
    is_decided,
    room,
    tellable,
)
from epoxy.protocol.keys.operations import Fold, PendingWrite, Unfolded
from tests.protocol.keys.harness import KEY, A, B, C, prop, waiting

LIVE = prop(b"5", 7, by=B, nonce=70, mutable=True)


def put(value: bytes, if_version: int | None = None) -> Write:
    return Write(key=KEY, value=value, mutable=True, if_version=if_version)


def add(amount: int) -> Write:
    return Write(key=KEY, value=None, mutable=True, amount=amount)


DELETE = Write(key=KEY, value=None, mutable=True)
RESERVE = Write(key=KEY, value=b"mine")


def queue(*writes: Write, by: int = A) -> list[PendingWrite]:
    return [waiting(write, by=by, nonce=number) for number, write in enumerate(writes, start=1)]


def folded(writes: Sequence[PendingWrite], base: Proposal | None = LIVE, me: int = A) -> Fold:
    result = fold(writes, base, me)
    assert isinstance(result, Fold)
    return result


def kinds(outcomes: Sequence[Outcome | None]) -> list[str]:
    return [type(outcome).__name__ for outcome in outcomes]


# What a fold is


def test_each_write_sees_what_the_one_before_made() -> None:
    """A compare-and-set with the version that the write before it makes holds; one with that of the base does not."""
    done = folded(queue(add(1), put(b"9", if_version=8), put(b"x", if_version=7), add(-2), DELETE, DELETE))
    assert kinds(done.answers) == [*["Committed"] * 2, "VersionMismatch", *["Committed"] * 2, "NothingToDelete"]
    won = [answer for answer in done.answers if isinstance(answer, Committed)]
    assert [(answer.proposal.value, answer.proposal.version) for answer in won] == [
        (b"6", 8),
        (b"9", 9),
        (b"7", 10),
        (None, 11),
    ]
    assert [answer.previous.version for answer in won if answer.previous is not None] == [7, 8, 9, 10]
    proposal = done.proposal
    assert (proposal.value, proposal.version, proposal.base) == (None, 11, 7)
    assert (proposal.folded, proposal.proposal_id) == (tuple(ProposalId(A, n) for n in (1, 2, 4)), ProposalId(A, 5))


def test_a_reservation_after_a_tombstone_ends_the_key_for_all_behind_it() -> None:
    done = folded(queue(DELETE, RESERVE, put(b"late"), add(1), RESERVE, DELETE))
    assert kinds(done.answers) == [
        "Committed",
        "Committed",
        "ImmutableKey",
        "ImmutableKey",
        "Committed",
        "ImmutableKey",
    ]
    same = done.answers[4]
    assert isinstance(same, Committed)
    assert not same.mine, "the same value, taken by the write before"
    assert (done.proposal.mutable, done.proposal.version, len(done.proposal.folded)) == (False, 9, 1)


def test_a_refused_write_takes_no_version_and_its_refusal_names_what_stood_in_its_way() -> None:
    done = folded(queue(put(b"text"), add(1), RESERVE))
    refused = done.answers[1]
    assert isinstance(refused, NotAnInteger)
    assert (refused.committed.value, refused.committed.version) == (b"text", 8)
    assert isinstance(done.answers[2], ExpectedValueDoesNotMatch)
    assert (done.proposal.version, done.proposal.folded) == (8, ())


def test_nothing_that_takes_effect_is_no_fold() -> None:
    """What may be newer elsewhere is confirmed by a quorum first."""
    refused = [put(b"x", if_version=3), put(b"x", if_version=9), RESERVE]
    at_home = fold(queue(*refused), LIVE, A)
    assert isinstance(at_home, Unfolded)
    assert kinds(at_home.answers) == ["VersionMismatch", "NoneType", "NoneType"]
    sure = fold(queue(*refused), LIVE, A, confirmed=True)
    assert isinstance(sure, Unfolded)
    assert kinds(sure.answers) == ["VersionMismatch", "VersionMismatch", "ExpectedValueDoesNotMatch"]


@pytest.mark.parametrize(("homes", "proposer"), [((A,), 0), ((B,), A), ((B, A), 0), ((A, B), A), ((B, C), A)], ids=str)
def test_a_fold_names_its_proposer_unless_the_last_write_does(homes: tuple[int, ...], proposer: int) -> None:
    writes = [waiting(put(b"x"), by=home, nonce=number) for number, home in enumerate(homes)]
    proposal = folded(writes).proposal
    assert (proposal.proposer, proposal.home) == (proposer, A)


amounts = st.integers(-3, 3)
writes = st.one_of(
    st.builds(put, st.sampled_from([b"1", b"x"]), st.none() | st.integers(0, 6)),
    st.builds(add, amounts),
    st.just(DELETE),
    st.just(RESERVE),
)
bases = st.sampled_from([None, prop(b"1", 2, mutable=True), prop(None, 3, mutable=True), prop(b"x", 1, mutable=False)])


@given(st.lists(writes, min_size=1, max_size=8), bases)
def test_folding_writes_is_applying_them_one_by_one(ordered: list[Write], base: Proposal | None) -> None:
    """The same answers and the same last value; ids and versions line up."""
    result = fold(queue(*ordered), base, A, confirmed=True)
    current, alone = base, list[Outcome | None]()
    for pending in queue(*ordered):
        one = fold([pending], current, A, confirmed=True)
        alone += one.answers
        current = one.proposal if isinstance(one, Fold) else current
    assert list(result.answers) == alone
    if isinstance(result, Fold):
        assert current is not None
        assert (result.proposal.value, result.proposal.version) == (current.value, current.version)
        ids = (*result.proposal.folded, result.proposal.proposal_id)
        won = [each.proposal for each in result.answers if isinstance(each, Committed) and each.mine]
        assert ids == tuple(each.proposal_id for each in won)
        first = result.proposal.base + 1
        assert [each.version for each in won] == list(range(first, first + len(ids)))
        assert result.proposal.base == (base.version if base is not None else 0)


# F5


def test_a_fold_has_room_for_so_many_writes() -> None:
    assert room(queue(*[add(1)] * (MAX_FOLD_WRITES + 5))) == MAX_FOLD_WRITES
    assert room(queue(*[add(1)] * 3)) == 3
    assert room([]) == 0


def test_a_fold_has_room_for_so_many_bytes() -> None:
    half = put(bytes(MAX_FOLD_BYTES // 2))
    assert room(queue(half, half, put(b"x"))) == 2
    assert room(queue(put(bytes(MAX_FOLD_BYTES + 1)), put(b"x"))) == 1, "a large one goes alone"
    assert room(queue(put(b"x"), put(bytes(MAX_FOLD_BYTES)))) == 1


# F3: looking for a write among the decisions

MINE = ProposalId(A, 1)


def settled(version: int, *before: ProposalId, last: ProposalId | None = None) -> Settled:
    return Settled(version, last or ProposalId(C, version), before)


def pending(floor: int, *, handed_over: bool = False, write: Write | None = None) -> PendingWrite:
    found = waiting(write or put(b"x"), floor=floor)
    found.handed_over = handed_over
    return found


COMMITTED = replace(prop(b"z", 12, by=C, nonce=12, mutable=True), folded=(ProposalId(C, 10), ProposalId(B, 11)))
"""On top of 9."""


@pytest.mark.parametrize("handed_over", [False, True])
def test_a_write_is_found_with_the_version_it_has_in_its_fold(handed_over: bool) -> None:
    looked_for = pending(5, handed_over=handed_over)
    assert find(looked_for, replace(COMMITTED, proposal_id=MINE), ()) == 12
    assert find(looked_for, replace(COMMITTED, folded=(MINE, ProposalId(B, 1))), ()) == 10
    assert find(looked_for, replace(COMMITTED, folded=(ProposalId(B, 1), MINE)), ()) == 11
    assert find(looked_for, COMMITTED, (settled(9, MINE, ProposalId(B, 2)),)) == 7
    assert find(looked_for, COMMITTED, (settled(4, last=MINE),)) == 4, "also beyond a gap"


@pytest.mark.parametrize(
    ("floor", "lineage", "alone", "handed_over"),
    [
        (12, (settled(9),), ABSENT, ABSENT),
        (13, (), ABSENT, ABSENT),
        (9, (), ABSENT, ABSENT),
        (8, (settled(9),), ABSENT, ABSENT),
        (6, (settled(9, ProposalId(B, 1), ProposalId(B, 2)),), ABSENT, ABSENT),
        (7, (settled(9, ProposalId(B, 1), ProposalId(B, 2)),), UNKNOWN, UNKNOWN),
        (10, (), UNKNOWN, UNKNOWN),
        (5, (), UNKNOWN, UNKNOWN),
        (5, (settled(9), settled(7)), UNKNOWN, UNKNOWN),
        (5, (settled(9), settled(6)), ABSENT, UNKNOWN),
        (5, (settled(6),), ABSENT, UNKNOWN),
    ],
    ids=[
        "the newest is the floor: nothing is decided above it",
        "the floor was seen at another replica",
        "the newest is on top of the floor",
        "one more",
        "a fold before it",
        "its floor is within a fold",
        "its floor is within the newest fold",
        "nothing remembered",
        "not so far back",
        "a gap above the decision on its floor",
        "a gap below the newest",
    ],
)
def test_a_write_is_absent_only_if_the_decisions_tell(
    floor: int, lineage: tuple[Settled, ...], alone: int, handed_over: int
) -> None:
    """One that only its home puts forward is in the instance on top of its floor or in none; one that was handed over
    may be in any later one, so no gap may be above its floor."""
    assert find(pending(floor), COMMITTED, lineage) == alone
    assert find(pending(floor, handed_over=True), COMMITTED, lineage) == handed_over


def test_a_fold_is_decided_if_all_its_ids_are() -> None:
    earlier = replace(COMMITTED, version=9, proposal_id=ProposalId(B, 9), folded=(MINE,))
    assert is_decided(COMMITTED, COMMITTED, ())
    assert is_decided(earlier, COMMITTED, (settled(9, MINE, last=ProposalId(B, 9)),))
    assert not is_decided(earlier, COMMITTED, (settled(9, last=ProposalId(B, 9)),)), "F4: the same last write alone"
    assert not is_decided(earlier, COMMITTED, (settled(8, MINE, last=ProposalId(B, 9)),)), "on another base"
    assert not is_decided(earlier, COMMITTED, ())


# F4b


def test_the_answer_of_a_write_that_was_found() -> None:
    found = answer_found(pending(5), 10, COMMITTED, Path.SLOW)
    assert found == Committed(proposal=prop(b"x", 10, mutable=True), mine=True, path=Path.SLOW)
    assert answer_found(pending(5, write=add(3)), 10, COMMITTED, Path.SLOW) == UNANSWERED, "what it made is not known"
    last = answer_found(pending(5, write=add(3)), 12, COMMITTED, Path.SLOW)
    assert isinstance(last, Committed)
    assert last.proposal.value == b"z", "the value after it is that of the fold"
    returning = Write(key=KEY, value=b"x", mutable=True, returning=True)
    assert answer_found(pending(5, write=returning), 12, COMMITTED, Path.SLOW) == UNANSWERED


# F6

REFUSALS: list[tuple[Write, Outcome, bool]] = [
    (put(b"x"), ImmutableKey(committed=prop(b"y"), path=Path.SLOW), True),
    (put(b"x", if_version=3), VersionMismatch(committed=LIVE, path=Path.SLOW), True),
    (put(b"x", if_version=8), VersionMismatch(committed=LIVE, path=Path.SLOW), False),
    (DELETE, NothingToDelete(committed=None, path=Path.SLOW), False),
    (add(1), NotAnInteger(committed=LIVE, path=Path.SLOW, reason="no"), False),
    (RESERVE, ExpectedValueDoesNotMatch(committed=LIVE, path=Path.SLOW), False),
]


@pytest.mark.parametrize(("write", "outcome", "lasts"), REFUSALS)
def test_a_refusal_is_told_if_no_other_replica_may_fold_the_write_or_must_refuse_it_too(
    write: Write, outcome: Outcome, lasts: bool
) -> None:
    mine, away = pending(5, write=write), pending(5, handed_over=True, write=write)
    assert tellable(mine, outcome) == outcome
    assert tellable(away, outcome) == (outcome if lasts else STILL_HANDED_OVER)
    away.is_guest = True
    assert tellable(away, outcome) == outcome, "to its home"


def test_what_took_effect_or_is_not_known_is_told_as_it_is() -> None:
    away = pending(5, handed_over=True)
    for outcome in (Committed(proposal=LIVE, mine=True, path=Path.FAST), UNANSWERED):
        assert tellable(away, outcome) == outcome
