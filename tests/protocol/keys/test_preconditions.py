"""What a committed value means to a write: every kind of write against every kind of state."""

import pytest

from epoxy.model.integers import LEAST_INTEGER, MOST_INTEGER
from epoxy.model.records import Proposal
from epoxy.model.writes import (
    Committed,
    ExpectedValueDoesNotMatch,
    ImmutableKey,
    NotAnInteger,
    NothingToDelete,
    Outcome,
    Path,
    Refused,
    VersionMismatch,
    Write,
)
from epoxy.protocol.keys.operations import Answered, Unconfirmed, Verdict
from epoxy.protocol.keys.preconditions import check_preconditions, is_lasting, result_of
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


def adding(amount: int, if_version: int | None = None) -> Write:
    return Write(key=KEY, value=None, mutable=True, amount=amount, if_version=if_version)


def number(value: int) -> Proposal:
    return prop(b"%d" % value, 3, mutable=True)


ADD, ADD_AT_0, ADD_AT_2, ADD_AT_3 = adding(1), adding(1, 0), adding(1, 2), adding(1, 3)
MOST, LEAST = number(MOST_INTEGER), number(LEAST_INTEGER)
NO_INTEGER, OVERFLOW = "value is not an integer or out of range", "increment or decrement would overflow"

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


def not_a_number(committed: Proposal, reason: str = NO_INTEGER) -> Answered:
    return Answered(NotAnInteger(committed=committed, path=SLOW, reason=reason))


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
    (ADD, None, GO, GO),
    (ADD, DELETED, GO, GO),
    (ADD, number(41), GO, GO),
    (ADD, LIVE_SAME, ASK, not_a_number(LIVE_SAME)),
    (ADD, MOST, ASK, not_a_number(MOST, OVERFLOW)),
    (adding(-1), LEAST, ASK, not_a_number(LEAST, OVERFLOW)),
    (adding(-1), MOST, GO, GO),
    (ADD, SAME, immutable(SAME, LOCAL), immutable(SAME, SLOW)),
    (ADD_AT_0, None, GO, GO),
    (ADD_AT_2, LIVE_SAME, mismatch(LIVE_SAME, LOCAL), mismatch(LIVE_SAME, SLOW)),
    (ADD_AT_3, LIVE_SAME, ASK, not_a_number(LIVE_SAME)),
]


@pytest.mark.parametrize(("write", "committed", "at_home", "confirmed"), TABLE)
def test_the_verdict(write: Write, committed: Proposal | None, at_home: Verdict, confirmed: Verdict) -> None:
    assert check_preconditions(write, committed, confirmed=False) == at_home
    assert check_preconditions(write, committed, confirmed=True) == confirmed


def test_a_quorum_leaves_nothing_unconfirmed() -> None:
    assert all(confirmed != ASK for _, _, _, confirmed in TABLE)


@pytest.mark.parametrize(
    ("write", "outcome", "lasts"),
    [
        (PUT, ImmutableKey(committed=SAME, path=LOCAL), True),
        (PUT_AT_2, VersionMismatch(committed=LIVE_SAME, path=LOCAL), True),
        (PUT_AT_3, VersionMismatch(committed=LIVE_SAME, path=LOCAL), False),
        (PUT_AT_4, VersionMismatch(committed=LIVE_SAME, path=LOCAL), False),
        (PUT_AT_4, VersionMismatch(committed=None, path=LOCAL), False),
        (DELETE, NothingToDelete(committed=DELETED, path=SLOW), False),
        (ADD, NotAnInteger(committed=LIVE_SAME, path=SLOW, reason=NO_INTEGER), False),
        (RESERVE, ExpectedValueDoesNotMatch(committed=LIVE_OTHER, path=SLOW), False),
        (PUT, Refused(reason="busy"), False),
    ],
)
def test_which_refusals_last(write: Write, outcome: Outcome, lasts: bool) -> None:
    """A mutable key that holds a value may be deleted or hold a number later; its version and an immutable value
    remain."""
    assert is_lasting(write, outcome) is lasts


@pytest.mark.parametrize(
    ("before", "amount", "after"),
    [
        (None, 5, b"5"),
        (DELETED, -5, b"-5"),
        (number(41), 1, b"42"),
        (number(MOST_INTEGER - 1), 1, b"9223372036854775807"),
        (number(-1), LEAST_INTEGER + 1, b"-9223372036854775808"),
        (number(7), 0, b"7"),
    ],
)
def test_what_an_addition_makes(before: Proposal | None, amount: int, after: bytes) -> None:
    write = adding(amount)
    assert check_preconditions(write, before, confirmed=False) is GO
    assert result_of(write, before) == after


def test_other_writes_make_their_own_value() -> None:
    assert (result_of(PUT, LIVE_OTHER), result_of(DELETE, LIVE_OTHER)) == (b"x", None)
