"""The record of a name's home: the reservation, and the mutable key that counts since."""

from collections.abc import Callable

import pytest

from epoxy.actors import homes
from epoxy.actors.homes import Homes, KnownHome, NotReserved, Undecided, found, home_of
from epoxy.codec.home_records import encode, home_key, reservation_key
from epoxy.model.actors import ActorName, make_id
from epoxy.model.cluster import FIRST_SYSTEM_KEY
from epoxy.model.homes import HomeRecord
from epoxy.model.writes import (
    ConsensusFailed,
    Consistency,
    NothingToDelete,
    Outcome,
    Path,
    ReadAnswer,
    ReadFailed,
    ReadResult,
    Refused,
    Source,
)
from tests.actors.bench import Keys, proposal

NAME = ActorName("n", "room", "lobby")
FIRST = HomeRecord(actor_id=make_id(1, 2, 1), label=1, lease=b"a" * 16, pool="web")
SECOND = HomeRecord(actor_id=FIRST.actor_id, label=2, lease=b"b" * 16, epoch=1, pool="web")

Told = KnownHome | NotReserved | Undecided


def test_both_keys_are_among_the_keys_of_the_cluster() -> None:
    for key_of in (reservation_key, home_key):
        assert key_of(NAME).startswith(FIRST_SYSTEM_KEY)
        assert key_of(NAME) != key_of(ActorName("n", "roo", "mlobby"))


def test_the_first_reservation_decides_and_changes_compare() -> None:
    keys, told = Keys(), list[Told]()
    known = Homes(keys)
    assert known.known(NAME) is None
    known.newest(NAME, told.append)
    known.reserve(NAME, FIRST, told.append)
    known.reserve(NAME, SECOND, told.append)
    mine, lost = KnownHome(record=FIRST, mine=True), KnownHome(record=FIRST)
    assert told == [NotReserved(), mine, lost]
    told.clear()
    known.change(NAME, lost, SECOND, told.append)
    other = HomeRecord(actor_id=FIRST.actor_id, label=3, lease=b"c" * 16, epoch=1)
    known.change(NAME, lost, other, told.append)
    assert told == [KnownHome(record=SECOND, version=1, mine=True), KnownHome(record=SECOND, version=1)]
    told.clear()
    known.newest(NAME, told.append)
    known.find(NAME, told.append)
    assert told == [KnownHome(record=SECOND, version=1)] * 2
    assert known.known(NAME) == told[0]


def test_a_name_that_is_not_known_here_is_looked_for() -> None:
    keys, told = Keys(), list[Told]()
    keys.elsewhere[reservation_key(NAME)] = encode(FIRST)
    Homes(keys).find(NAME, told.append)
    Homes(keys).find(ActorName("n", "room", "other"), told.append)
    keys.answer = ReadFailed(reason="alone")
    Homes(keys).newest(NAME, told.append)
    assert told == [KnownHome(record=FIRST), NotReserved(), Undecided(reason="alone", definite=True)]


class SlowReads(Keys):
    """Reads are answered when a test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.under_way: list[tuple[Consistency, Callable[[ReadAnswer], None]]] = []

    def read(self, key: bytes, consistency: Consistency, answered: Callable[[ReadAnswer], None]) -> None:
        assert key == reservation_key(NAME)
        self.under_way.append((consistency, answered))


def test_a_majority_says_that_a_name_is_not_reserved_and_is_asked_once_for_all() -> None:
    """One replica said so, before it had learned of a name that a client was told of. Reads side by side, each of which
    finishes a write that is under way, held up each other."""
    keys, told = SlowReads(), list[Told]()
    known = Homes(keys)
    for _ in range(3):
        known.find(NAME, told.append)
    ((consistency, answered),) = keys.under_way
    assert consistency is Consistency.LINEARIZABLE
    answered(ReadResult(committed=None, source=Source.QUORUM))
    assert told == [NotReserved()] * 3
    known.find(NAME, told.append)
    assert len(keys.under_way) == 2


def test_reservations_of_earlier_versions_belong_to_the_label_in_their_id_under_no_lease() -> None:
    keys = Keys()
    keys.values[reservation_key(NAME)] = make_id(1, 2, 7)
    home = Homes(keys).known(NAME)
    assert home is not None
    assert (home.record.label, home.record.lease, home.record.epoch) == (7, b"", 0)


def test_hints_count_while_they_are_newer_and_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(homes, "MAX_HINTS", 2)
    known = Homes(Keys())
    known.note(NAME, 2, 5)
    assert (known.hint(NAME, above=4), known.hint(NAME, above=5)) == (2, None)
    known.forget(NAME)
    assert known.hint(NAME, above=0) is None
    for key in ("a", "b", "c"):
        known.note(ActorName("n", "room", key), 2, 5)
    assert [known.hint(ActorName("n", "room", key), above=0) for key in ("a", "b", "c")] == [None, 2, 2]


def test_what_cannot_be_read_is_no_home() -> None:
    keys = Keys()
    keys.values[home_key(NAME)] = b"\x07 of a later version"
    assert Homes(keys).known(NAME) is None
    assert found(Refused(reason="r")) == Undecided(reason="r", definite=True)


@pytest.mark.parametrize(("outcome", "definite"), [(Refused(reason="r"), True), (ConsensusFailed(reason="r"), False)])
def test_a_write_without_a_decision_says_whether_it_may_have_happened(outcome: Outcome, definite: bool) -> None:
    assert home_of(outcome, first=True) == Undecided(reason="r", definite=definite)


def test_an_outcome_that_no_change_has_is_a_bug() -> None:
    with pytest.raises(AssertionError, match="no answer to a change of home"):
        home_of(NothingToDelete(committed=proposal(b"x"), path=Path.LOCAL), first=True)
