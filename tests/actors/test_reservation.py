"""Which datacenter owns a name: one write decides it, and requests for the same name share it."""

import pytest

from epoxy.actors.reservation import (
    NameReservation,
    Reservation,
    Reservations,
    Undecided,
    key_of,
    reserved_by,
    verdict_of,
)
from epoxy.model.actors import ActorName, label_of
from epoxy.model.cluster import FIRST_SYSTEM_KEY
from epoxy.model.writes import ConsensusFailed, NothingToDelete, Outcome, Path, Refused
from epoxy.runtime.clock import SystemDice
from tests.actors.bench import Keys

NAME = ActorName("n", "room", "lobby")


def test_a_name_is_among_the_keys_of_the_cluster() -> None:
    assert key_of(NAME).startswith(FIRST_SYSTEM_KEY)
    assert key_of(NAME) != key_of(ActorName("n", "roo", "mlobby"))


def test_the_first_take_decides_and_the_label_is_that_of_its_datacenter() -> None:
    keys, found = Keys(), list[Reservation]()
    first, second = (Reservations(keys, SystemDice(), label) for label in (1, 2))
    assert first.known(NAME) is None
    first.take(NAME, found.append)
    second.take(NAME, found.append)
    second.find(NAME, found.append)
    (owner,) = set(found)
    assert isinstance(owner, NameReservation)
    assert label_of(owner.actor_id) == 1
    assert first.known(NAME) == owner


def test_a_value_that_is_no_id_reserves_nothing() -> None:
    assert reserved_by(None) is None
    assert reserved_by(b"short") is None


@pytest.mark.parametrize(("outcome", "definite"), [(Refused(reason="r"), True), (ConsensusFailed(reason="r"), False)])
def test_a_write_without_a_decision_says_whether_it_may_have_happened(outcome: Outcome, definite: bool) -> None:
    assert verdict_of(outcome) == Undecided(reason="r", definite=definite)


def test_an_outcome_that_no_reservation_has_is_a_bug() -> None:
    with pytest.raises(AssertionError, match="no answer to a reservation"):
        verdict_of(NothingToDelete(committed=None, path=Path.LOCAL))
