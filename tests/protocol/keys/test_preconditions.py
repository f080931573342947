"""What a committed value means to a write: every kind of write against every kind of state."""

import pytest

from epoxy.model.records import Proposal, ProposalId, Settled
from epoxy.model.writes import (
    Committed,
    ExpectedValueDoesNotMatch,
    ImmutableKey,
    NothingToDelete,
    Path,
    VersionMismatch,
    Write,
)
from epoxy.protocol.keys.operations import Answered, Unconfirmed, Verdict
from epoxy.protocol.keys.preconditions import check_preconditions, winner
from tests.protocol.keys.harness import KEY, prop

LOCAL, SLOW = Path.LOCAL, Path.SLOW
LEGACY = prop(b"x", 0, by=0, nonce=0)
SAME, OTHER = prop(b"x"), prop(b"y")
LIVE_SAME, LIVE_OTHER = prop(b"x", 3, mutable=True), prop(b"y", 3, mutable=True)
DELETED = prop(None, 3, mutable=True)

RESERVE = Write(key=KEY, value=b"x")
PUT = Write(key=KEY, value=b"x", mutable=True)
DELETE = Write(key=KEY, value=None, mutable=True)
CREATE, PUT_AT_2, PUT_AT_3, PUT_AT_4 = (Write(key=KEY, value=b"x", mutable=True, if_version=v) for v in (0, 2, 3, 4))
DELETE_AT_0, DELETE_AT_3, DELETE_AT_4 = (Write(key=KEY, value=None, mutable=True, if_version=v) for v in (0, 3, 4))

GO = None
ASK = Unconfirmed()


def taken(committed: Proposal, path: Path) -> Answered:
    return Answered(ExpectedValueDoesNotMatch(committed=committed, path=path))


def equal(committed: Proposal, path: Path) -> Answered:
    return Answered(Committed(proposal=committed, mine=False, path=path))


def immutable(committed: Proposal, path: Path) -> Answered:
    return Answered(ImmutableKey(committed=committed, path=path))


def mismatch(committed: Proposal | None, path: Path) -> Answered:
    return Answered(VersionMismatch(committed=committed, path=path))


def nothing(committed: Proposal | None) -> Answered:
    return Answered(NothingToDelete(committed=committed, path=SLOW))


TABLE: list[tuple[Write, Proposal | None, Verdict, Verdict]] = [
    # write, committed here, what is said at home, what is said when a quorum confirms it
    (RESERVE, None, GO, GO),
    (RESERVE, LEGACY, equal(LEGACY, LOCAL), equal(LEGACY, SLOW)),
    (RESERVE, SAME, equal(SAME, LOCAL), equal(SAME, SLOW)),
    (RESERVE, OTHER, taken(OTHER, LOCAL), taken(OTHER, SLOW)),
    (RESERVE, LIVE_SAME, ASK, equal(LIVE_SAME, SLOW)),
    (RESERVE, LIVE_OTHER, ASK, taken(LIVE_OTHER, SLOW)),
    (RESERVE, DELETED, GO, GO),
    (PUT, None, GO, GO),
    (PUT, LEGACY, immutable(LEGACY, LOCAL), immutable(LEGACY, SLOW)),
    (PUT, SAME, immutable(SAME, LOCAL), immutable(SAME, SLOW)),
    (PUT, LIVE_SAME, GO, GO),
    (PUT, LIVE_OTHER, GO, GO),
    (PUT, DELETED, GO, GO),
    (DELETE, None, ASK, nothing(None)),
    (DELETE, SAME, immutable(SAME, LOCAL), immutable(SAME, SLOW)),
    (DELETE, LIVE_SAME, GO, GO),
    (DELETE, DELETED, ASK, nothing(DELETED)),
    (CREATE, None, GO, GO),
    (CREATE, SAME, immutable(SAME, LOCAL), immutable(SAME, SLOW)),
    (CREATE, LIVE_SAME, mismatch(LIVE_SAME, LOCAL), mismatch(LIVE_SAME, SLOW)),
    (CREATE, DELETED, mismatch(DELETED, LOCAL), mismatch(DELETED, SLOW)),
    (PUT_AT_2, None, ASK, mismatch(None, SLOW)),
    (PUT_AT_2, LIVE_SAME, mismatch(LIVE_SAME, LOCAL), mismatch(LIVE_SAME, SLOW)),
    (PUT_AT_3, None, ASK, mismatch(None, SLOW)),
    (PUT_AT_3, SAME, immutable(SAME, LOCAL), immutable(SAME, SLOW)),
    (PUT_AT_3, LIVE_OTHER, GO, GO),
    (PUT_AT_3, DELETED, GO, GO),
    (PUT_AT_4, LIVE_OTHER, ASK, mismatch(LIVE_OTHER, SLOW)),
    (DELETE_AT_0, None, ASK, nothing(None)),
    (DELETE_AT_0, LIVE_SAME, mismatch(LIVE_SAME, LOCAL), mismatch(LIVE_SAME, SLOW)),
    (DELETE_AT_3, LIVE_SAME, GO, GO),
    (DELETE_AT_3, DELETED, ASK, nothing(DELETED)),
    (DELETE_AT_4, DELETED, ASK, mismatch(DELETED, SLOW)),
]


@pytest.mark.parametrize(("write", "committed", "at_home", "confirmed"), TABLE)
def test_the_verdict(write: Write, committed: Proposal | None, at_home: Verdict, confirmed: Verdict) -> None:
    assert check_preconditions(write, committed, confirmed=False) == at_home
    assert check_preconditions(write, committed, confirmed=True) == confirmed


def test_a_quorum_leaves_nothing_unconfirmed() -> None:
    assert all(confirmed != ASK for _, _, _, confirmed in TABLE)


def test_the_winner_of_a_version() -> None:
    committed = prop(b"z", 9, by=3, nonce=9, mutable=True)
    lineage = (Settled(8, ProposalId(2, 8)), Settled(6, ProposalId(1, 6)))
    assert [winner(v, committed, lineage) for v in (9, 8, 7, 6, 5)] == [
        ProposalId(3, 9),
        ProposalId(2, 8),
        None,
        ProposalId(1, 6),
        None,
    ]
