from epoxy.protocol.placement import envoys
from epoxy.protocol.placement.balance import Excess, excesses
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
