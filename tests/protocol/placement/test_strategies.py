"""The strategies that choose by pings, and what all strategies have in common."""

from collections import Counter

from epoxy.protocol.placement import strategies
from epoxy.protocol.placement.allocator import Allocation
from epoxy.protocol.placement.config import PlacementConfig, Strategy
from epoxy.store.memory import MemoryStore
from tests.protocol.placement.bench import NOW_MS, POOL, Dice, connect, crowd, hello, set_slots


def chosen(store: MemoryStore, strategy: Strategy, now_ms: int, seeds: int) -> list[Allocation]:
    config = PlacementConfig(strategy=strategy, reserve_slots=False)

    def once(seed: int) -> Allocation:
        return store.transact(lambda tx: strategies.allocate(tx, POOL, config, now_ms, Dice(seed)))

    return [once(seed) for seed in range(seeds)]


def test_a_random_time_between_the_oldest_fresh_ping_and_now() -> None:
    store = MemoryStore()
    for key, ping_ms in (("dead", 0), ("head", 9_000), ("middle", 14_000), ("last", 15_000)):
        connect(store, hello(key), now_ms=NOW_MS + ping_ms)
    found = chosen(store, Strategy.RANDOM_PING_TIMESTAMP, NOW_MS + 19_000, 400)
    counts = Counter(each.envoy_key for each in found)
    # Of the times from 9,000 to 19,000, 5,000 fall to the middle, 1,000 to the last, and the rest to the head.
    assert set(counts) == {"head", "middle", "last"}
    assert 150 < counts["middle"] < 250
    assert 15 < counts["last"] < 75
    assert {each.stale for each in found} == {("dead",)}


def test_without_a_fresh_envoy_none_is_chosen() -> None:
    store = crowd(3)
    for strategy in Strategy:
        (found,) = chosen(store, strategy, NOW_MS + 60_000, 1)
        assert found.envoy_key is None
        assert set(found.stale) == {"envoy-0", "envoy-1", "envoy-2"}


def test_the_full_range_is_uniform_over_fresh_envoys_of_the_highest_version() -> None:
    store = MemoryStore()
    connect(store, hello("dead", version=2))
    connect(store, hello("old"), now_ms=NOW_MS + 15_000)
    for i in range(4):
        connect(store, hello(f"e{i}", version=2), now_ms=NOW_MS + 15_000 + i)
    counts = Counter(each.envoy_key for each in chosen(store, Strategy.RANDOM_FULL_RANGE, NOW_MS + 16_000, 400))
    assert set(counts) == {"e0", "e1", "e2", "e3"}
    assert min(counts.values()) > 60


def test_full_envoys_are_passed_by_every_strategy() -> None:
    for strategy in Strategy:
        store = MemoryStore()
        connect(store, hello("full", capacity=1))
        set_slots(store, "full", 1)
        connect(store, hello("free", capacity=1))
        assert {each.envoy_key for each in chosen(store, strategy, NOW_MS, 20)} == {"free"}
