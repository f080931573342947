"""Which start of a store is heard."""

import pytest

from epoxy.model.cluster import ClusterConfig, ReplicaInfo, first_epoch
from epoxy.model.incarnation import Greeting, Incarnation, Sighting
from epoxy.protocol.members.incarnation import StoreRefusal, is_cleared, refusal_of, sighting

KNOWN = Sighting(store=7, counter=3, nonce=30, position=100)


def greeting(*, store: int = 7, counter: int = 3, nonce: int = 30, base: int = 50, position: int = 100) -> Greeting:
    return Greeting(incarnation=Incarnation(store=store, counter=counter, nonce=nonce, base=base), position=position)


@pytest.mark.parametrize(
    ("given", "verdict"),
    [
        (greeting(), None),
        (greeting(position=101), None),
        (greeting(position=99), StoreRefusal.SHORTENED),
        (greeting(nonce=31), StoreRefusal.CLONE),
        (greeting(counter=2, nonce=20, base=200, position=300), StoreRefusal.OLD_COPY),
        (greeting(counter=4, nonce=40, base=100, position=101), None),
        (greeting(counter=4, nonce=40, base=99, position=300), StoreRefusal.SHORTENED),
        (greeting(counter=9, nonce=40, base=99, position=300), StoreRefusal.SHORTENED),
        (greeting(store=8, counter=1, nonce=1, base=0, position=1), None),
    ],
)
def test_a_start_is_compared_with_what_is_on_record(given: Greeting, verdict: StoreRefusal | None) -> None:
    assert refusal_of(KNOWN, given) is verdict
    assert refusal_of(None, given) is None


def test_the_position_on_record_never_falls() -> None:
    start = greeting().incarnation
    assert sighting(KNOWN, start, 90) == KNOWN
    assert sighting(KNOWN, start, 110).position == 110


def test_a_new_start_is_on_record_with_all_that_it_found() -> None:
    start = greeting(counter=4, nonce=40, base=120).incarnation
    seen = sighting(KNOWN, start, 0)
    assert seen == Sighting(store=7, counter=4, nonce=40, position=120)


@pytest.mark.parametrize(("members", "needed", "strictly"), [(1, 0, 0), (2, 1, 1), (3, 1, 2), (4, 2, 2), (5, 2, 3)])
def test_a_start_votes_with_a_slow_quorum_of_records(members: int, needed: int, strictly: int) -> None:
    config = first_epoch(tuple(range(1, members + 1)))
    others = list(range(2, members + 1))
    for count in range(len(others) + 1):
        assert is_cleared(config, 1, set(others[:count])) is (count >= needed)
        assert is_cleared(config, 1, set(others[:count]), strict=True) is (count >= strictly)


def test_a_joint_epoch_needs_records_on_both_sides() -> None:
    config = ClusterConfig(
        epoch=3, coordinator_id=1, replicas=tuple(ReplicaInfo(id=i) for i in (1, 4, 5)), previous=(1, 2, 3)
    )
    assert not is_cleared(config, 1, {2})
    assert not is_cleared(config, 1, {4})
    assert is_cleared(config, 1, {2, 4})


def test_a_learner_needs_a_slow_quorum_of_the_others() -> None:
    config = first_epoch((1, 2, 3))
    assert not is_cleared(config, 4, {1})
    assert is_cleared(config, 4, {1, 2})
    assert is_cleared(config, 4, {1, 2}, strict=True)


def test_replicas_that_do_not_vote_do_not_count() -> None:
    assert not is_cleared(first_epoch((1, 2, 3)), 1, {4, 5})
