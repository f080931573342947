"""Generations rise with starts and with changes of home, and the keys of records are the cluster's own."""

from epoxy.model.cluster import FIRST_SYSTEM_KEY
from epoxy.model.homes import datacenter_key, epoch_of, generation_of, state_key


def test_a_generation_rises_with_starts_and_more_with_epochs() -> None:
    rising = [generation_of(0, 1), generation_of(0, 2), generation_of(1, 0), generation_of(1, 1), generation_of(7, 0)]
    assert rising == sorted(set(rising))
    assert [epoch_of(each) for each in rising] == [0, 0, 1, 1, 7]
    assert generation_of(0, 5) == 5


def test_keys_are_the_clusters_own_and_differ() -> None:
    keys = [datacenter_key(1), datacenter_key(258), state_key(b"a" * 19), state_key(b"b" * 19)]
    assert len(set(keys)) == len(keys)
    assert all(key.startswith(FIRST_SYSTEM_KEY) for key in keys)
