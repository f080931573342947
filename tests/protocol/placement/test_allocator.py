from collections import Counter

import pytest

from epoxy.model.errors import Conflict
from epoxy.protocol.placement import envoys, rows
from epoxy.protocol.placement.allocator import Allocation, allocate
from epoxy.protocol.placement.config import PlacementConfig
from epoxy.store.memory import MemoryStore
from tests.protocol.placement.bench import (
    NOW_MS,
    POOL,
    Counting,
    Dice,
    Loaded,
    connect,
    crowd,
    envoy,
    hello,
    ring,
    set_slots,
    total,
)


def expire(store: MemoryStore, key: str) -> None:
    store.transact(lambda tx: envoys.expire(tx, envoy(key), NOW_MS))


ONE = PlacementConfig(samples=1, reserve_slots=False)
TWO = PlacementConfig(reserve_slots=False)


def run(
    store: MemoryStore, config: PlacementConfig, *, seed: int = 0, now_ms: int = NOW_MS, version: int | None = None
) -> Allocation:
    return store.transact(lambda tx: allocate(tx, POOL, config, now_ms, Dice(seed), version))


@pytest.mark.parametrize(
    ("samples", "version", "reads"),
    [(1, None, 3), (2, None, 7), (1, 1, 2), (2, 1, 6), (3, None, 10), (8, None, 25)],
)
def test_the_reads_of_an_allocation(samples: int, version: int | None, reads: int) -> None:
    """No wrap, no stale envoy, no two samples that meet: the common case, in a pool of some size."""
    store = crowd(200)
    for seed in range(200):
        transaction = Counting(store.begin())
        config = PlacementConfig(samples=samples)
        found = allocate(transaction, POOL, config, NOW_MS, Dice(seed), version)
        if found.wraps == 0 and found.repeated == 0:
            assert len(transaction.reads) == reads
            assert len(transaction.conflicts) == 1
            return
    raise AssertionError("no allocation was a common one")


def test_one_sample_reads_no_slots() -> None:
    store = crowd(50)
    slots = {rows.envoy_rows("prod", f"envoy-{i}") + rows.SLOTS for i in range(50)}
    for seed in range(50):
        transaction = Counting(store.begin())
        assert allocate(transaction, POOL, PlacementConfig(samples=1), NOW_MS, Dice(seed)).envoy_key is not None
        assert slots.isdisjoint(transaction.reads)


def test_the_one_conflict_is_the_chosen_envoys_row() -> None:
    store = crowd(20)
    for meanwhile, conflicts in ((1, 1), (0, 0)):
        transaction = store.begin()
        found = allocate(transaction, POOL, PlacementConfig(), NOW_MS, Dice(3))
        others = [f"envoy-{i}" for i in range(20) if f"envoy-{i}" != found.envoy_key]
        leaving = found.envoy_key if meanwhile else others[0]
        assert leaving is not None
        expire(store, leaving)
        if conflicts:
            with pytest.raises(Conflict):
                transaction.commit()
            connect(store, hello(leaving))
        else:
            transaction.commit()


def test_without_snapshot_reads_everything_that_was_read_conflicts() -> None:
    store = crowd(20)
    transaction = store.begin()
    found = allocate(transaction, POOL, PlacementConfig(use_snapshot_read=False), NOW_MS, Dice(3))
    assert found.candidates == 2
    for i in range(20):
        set_slots(store, f"envoy-{i}", 1)
    with pytest.raises(Conflict):
        transaction.commit()


def test_an_empty_pool_has_no_envoy() -> None:
    assert run(MemoryStore(), TWO) == Allocation(envoy_key=None)
    assert run(MemoryStore(), TWO, version=1).envoy_key is None


def test_only_the_highest_version_is_used() -> None:
    store = crowd(5)
    connect(store, hello("new", version=2))
    assert {run(store, TWO, seed=seed).envoy_key for seed in range(20)} == {"new"}


def test_the_fewest_slots_win_and_jitter_is_added_to_them() -> None:
    store = MemoryStore()
    for key in ("a", "b"):
        connect(store, hello(key))
    set_slots(store, "a", 3)
    calm = PlacementConfig(samples=8, slot_jitter=0, reserve_slots=False)
    found = [run(store, calm, seed=seed) for seed in range(40)]
    assert {each.envoy_key for each in found if each.candidates == 2} == {"b"}
    wild = PlacementConfig(samples=8, slot_jitter=64, reserve_slots=False)
    assert {run(store, wild, seed=seed).envoy_key for seed in range(40)} == {"a", "b"}


def test_ties_are_broken_by_chance() -> None:
    store = crowd(2)
    config = PlacementConfig(samples=8, slot_jitter=0, reserve_slots=False)
    found = [run(store, config, seed=seed) for seed in range(60)]
    both = [each for each in found if each.candidates == 2]
    assert all(each.tied for each in both)
    assert set(Counter(each.envoy_key for each in both)) == {"envoy-0", "envoy-1"}


def test_samples_that_meet_are_counted_once() -> None:
    store = crowd(1)
    found = run(store, TWO)
    assert (found.candidates, found.repeated, found.tied) == (1, 1, False)


def test_beyond_the_last_place_the_ring_begins_again() -> None:
    store = crowd(3)
    last = (1 << 64) - 1
    wrapped = store.transact(lambda tx: allocate(tx, POOL, ONE, NOW_MS, Loaded(nonces=(last, last))))
    assert wrapped.wraps == 1
    assert wrapped.envoy_key == ring(store.newest())[0][1]


def test_stale_envoys_are_passed_and_reported() -> None:
    store = crowd(10)
    connect(store, hello("alive"), now_ms=NOW_MS + 20_000)
    found = run(store, PlacementConfig(samples=1, max_scan=256), now_ms=NOW_MS + 20_000)
    assert found.envoy_key == "alive"
    assert "alive" not in found.stale
    assert set(found.stale) <= {f"envoy-{i}" for i in range(10)}


def test_the_threshold_is_exact() -> None:
    store = crowd(1)
    assert run(store, ONE, now_ms=NOW_MS + 10_000).envoy_key == "envoy-0"
    assert run(store, ONE, now_ms=NOW_MS + 10_001).stale == ("envoy-0",)


@pytest.mark.parametrize("samples", [1, 2, 8])
@pytest.mark.parametrize("max_scan", [1, 16, 256])
def test_all_samples_and_the_wrap_share_one_budget(samples: int, max_scan: int) -> None:
    store = crowd(100)
    config = PlacementConfig(samples=samples, max_scan=max_scan)
    for seed in range(10):
        transaction = Counting(store.begin())
        found = allocate(transaction, POOL, config, NOW_MS + 60_000, Dice(seed))
        assert found.envoy_key is None
        assert found.scanned == max_scan
        assert len(transaction.reads) <= 2 + 2 * max_scan


def test_a_reserved_slot_is_seen_by_the_next() -> None:
    store = crowd(50)
    for seed in range(200):
        assert run(store, PlacementConfig(slot_jitter=0), seed=seed).envoy_key is not None
    counts = [rows.slots(store.newest(), envoy(f"envoy-{i}")) for i in range(50)]
    assert sum(counts) == total(store.newest(), rows.TOTAL_SLOTS) == 200
    assert max(counts) <= 8
    for seed in range(20):
        run(store, TWO, seed=seed)
    assert total(store.newest(), rows.TOTAL_SLOTS) == 200


@pytest.mark.parametrize("samples", [1, 2])
def test_no_envoy_is_above_its_bound_when_it_is_chosen(samples: int) -> None:
    store = crowd(20)
    config = PlacementConfig(samples=samples, load_bound_percent=10, max_scan=256)
    for placed in range(1, 400):
        found = run(store, config, seed=placed)
        assert found.envoy_key is not None
        cap = -(-110 * placed // (100 * 20))
        assert rows.slots(store.newest(), envoy(found.envoy_key)) <= cap


def test_two_that_read_the_same_count_cannot_both_pass_the_bound() -> None:
    store = crowd(1)
    config = PlacementConfig(samples=1, load_bound_percent=10)
    first, second = store.begin(), store.begin()
    for transaction in (first, second):
        assert allocate(transaction, POOL, config, NOW_MS, Dice(0)).envoy_key == "envoy-0"
    first.commit()
    with pytest.raises(Conflict):
        second.commit()


def test_a_full_envoy_takes_nothing_more() -> None:
    store = MemoryStore()
    connect(store, hello("small", capacity=2))
    for samples in (1, 2):
        config = PlacementConfig(samples=samples)
        assert run(store, config).envoy_key == "small"
    assert run(store, PlacementConfig()).envoy_key is None
    assert run(store, PlacementConfig()).stale == ()


@pytest.mark.parametrize("samples", [1, 2])
def test_weights_share_the_load(samples: int) -> None:
    store = MemoryStore()
    for i in range(40):
        connect(store, hello(f"large-{i}", weight=4))
        connect(store, hello(f"small-{i}"))
    for seed in range(2000):
        run(store, PlacementConfig(samples=samples, slot_jitter=0), seed=seed)
    large = sum(rows.slots(store.newest(), envoy(f"large-{i}")) for i in range(40))
    assert 0.77 < large / 2000 < 0.83
