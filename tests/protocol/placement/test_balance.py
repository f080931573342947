import pytest

from epoxy.protocol.placement import envoys
from epoxy.protocol.placement.balance import Excess, excesses, outdated
from epoxy.store.memory import MemoryStore
from tests.protocol.placement.bench import NOW_MS, POOL, connect, crowd, envoy, hello, set_slots


def drain(store: MemoryStore, key: str) -> None:
    store.transact(lambda tx: envoys.drain(tx, envoy(key), NOW_MS))


def test_what_is_beyond_its_share_is_too_much_and_the_most_comes_first() -> None:
    store = crowd(4)
    for i, slots in enumerate((10, 10, 40, 20)):
        set_slots(store, f"envoy-{i}", slots)
    # The mean is 20, and a quarter more is 25.
    assert excesses(store.newest(), POOL, 0, 100) == [Excess(15, "envoy-2")]
    assert excesses(store.newest(), POOL, 100, 100) == []
    assert excesses(store.newest(), POOL, 0, 4) == [Excess(4, "envoy-2")]


def test_a_draining_envoy_holds_all_its_actors_too_many_unless_it_is_alone() -> None:
    store = crowd(3)
    for i in range(3):
        set_slots(store, f"envoy-{i}", 10)
    drain(store, "envoy-1")
    assert excesses(store.newest(), POOL, 0, 100) == [Excess(10, "envoy-1")]
    for i in (0, 2):
        drain(store, f"envoy-{i}")
    assert excesses(store.newest(), POOL, 0, 100) == []


def test_shares_are_by_weight() -> None:
    store = MemoryStore()
    connect(store, hello("large", weight=4))
    connect(store, hello("small"))
    set_slots(store, "large", 80)
    set_slots(store, "small", 20)
    assert excesses(store.newest(), POOL, 1, 100) == []
    set_slots(store, "small", 30)
    assert [each.envoy_key for each in excesses(store.newest(), POOL, 1, 100)] == ["small"]


@pytest.mark.parametrize(
    ("new", "newer", "limit", "found"),
    [
        (6, 1, 100, [Excess(9, "old")]),
        (0, 0, 100, [Excess(10, "old"), Excess(3, "older")]),
        (0, 0, 4, [Excess(4, "old"), Excess(3, "older")]),
        (8, 8, 100, []),
    ],
)
def test_actors_of_lower_versions_may_move_as_far_as_the_highest_has_room(
    new: int, newer: int, limit: int, found: list[Excess]
) -> None:
    store = MemoryStore()
    rows = (("old", 1, 0, 10), ("older", 0, 0, 3), ("new", 2, 8, new), ("newer", 2, 8, newer))
    for key, version, capacity, slots in rows:
        connect(store, hello(key, version=version, capacity=capacity))
        set_slots(store, key, slots)
    assert outdated(store.newest(), POOL, NOW_MS, limit) == found


def test_envoys_that_are_silent_or_draining_count_for_nothing_in_an_upgrade() -> None:
    store = MemoryStore()
    connect(store, hello("old", version=1))
    connect(store, hello("new", version=2))
    set_slots(store, "old", 5)
    assert outdated(store.newest(), POOL, NOW_MS, 100) == [Excess(5, "old")]
    assert outdated(store.newest(), POOL, NOW_MS + 1, 100) == [], "its last ping is too old"
    drain(store, "old")
    assert outdated(store.newest(), POOL, NOW_MS, 100) == [], "it is being emptied already"
