import pytest

from epoxy.ports import Transaction
from epoxy.protocol.placement import envoys, rows
from epoxy.protocol.placement.allocator import Allocation
from epoxy.protocol.placement.config import PlacementConfig
from epoxy.protocol.placement.records import EnvoyId, EnvoyPool
from epoxy.protocol.placement.service import Placement
from epoxy.store.memory import MemoryStore
from tests.protocol.placement.bench import NOW_MS, POOL, Clock, Counting, Dice, connect, crowd, envoy, hello, ring


class Watching:
    def __init__(self) -> None:
        self.seen: list[Allocation] = []

    def allocated(self, pool: EnvoyPool, config: PlacementConfig, allocation: Allocation, seconds: float) -> None:
        assert pool == POOL
        assert config.samples == 2
        assert seconds >= 0
        self.seen.append(allocation)


def made(store: MemoryStore | None = None, config: PlacementConfig | None = None) -> tuple[Placement, Clock, Watching]:
    clock, watching = Clock(), Watching()
    placement = Placement(store or MemoryStore(), config or PlacementConfig(), clock, Dice(), NOW_MS, watching)
    return placement, clock, watching


def test_time_goes_on_from_the_wall_clocks() -> None:
    placement, clock, _ = made()
    assert placement.now_ms() == NOW_MS
    clock.advance(250)
    assert placement.now_ms() == NOW_MS + 250


def test_who_is_walked_past_is_expired_afterwards() -> None:
    store = MemoryStore()
    placement, clock, watching = made(store)
    for i in range(5):
        connect(store, hello(f"e{i}"))
    clock.advance(30_000)
    assert placement.allocate(POOL).envoy_key is None
    assert len(ring(placement.store.newest())) == 40, "the allocation itself changes nothing"
    clock.advance(1)
    gone = set(watching.seen[0].stale)
    assert gone
    assert {key for _, key in ring(placement.store.newest())} == {f"e{i}" for i in range(5)} - gone
    assert placement.scheduler.pending == 0


def test_after_a_start_envoys_have_time_to_come_back() -> None:
    store = MemoryStore()
    connect(store, hello("a"), now_ms=NOW_MS - 3_600_000)
    placement, clock, _ = made(store)
    placement.allocate(POOL)
    clock.advance(9_000)
    assert ring(store.newest())
    clock.advance(2_000)
    placement.allocate(POOL)
    clock.advance(1)
    assert not ring(store.newest())


def test_an_envoy_that_falls_silent_is_expired_at_its_deadline_and_by_no_sweep() -> None:
    placement, clock, _ = made()
    placement.connect(hello("silent"))
    placement.connect(hello("busy"))
    clock.advance(6_000)
    assert placement.ping(envoy("busy"), 1)
    clock.advance(4_000)
    assert {key for _, key in ring(placement.store.newest())} == {"silent", "busy"}
    clock.advance(5)
    assert {key for _, key in ring(placement.store.newest())} == {"busy"}


def test_envoys_that_did_not_come_back_after_a_start_are_expired_one_threshold_later() -> None:
    store = MemoryStore()
    before, clock, _ = made(store)
    before.start()
    before.connect(hello("gone"))
    clock.advance(9_000)
    assert before.ping(envoy("gone"), 1)
    clock.advance(2_000)
    after, clock, _ = made(store)
    after.start()
    clock.advance(10_000)
    assert ring(store.newest())
    clock.advance(10)
    assert not ring(store.newest()), "the lease of the process before is no obstacle"


@pytest.mark.parametrize("step_ms", [-3_600_000, -5_000, 3_600_000])
def test_no_rule_rests_on_the_wall_clock(step_ms: int) -> None:
    store = MemoryStore()
    before, _, _ = made(store)
    before.connect(hello("gone"))
    clock = Clock()
    after = Placement(store, PlacementConfig(), clock, Dice(), NOW_MS + step_ms)
    after.start()
    assert after.now_ms() >= before.now_ms()
    after.connect(hello("here"))
    for _ in range(5):
        clock.advance(2_100)
        assert after.ping(envoy("here"), 1)
    assert {key for _, key in ring(store.newest())} == {"here"}


def test_the_time_that_is_noted_is_never_behind_a_timestamp() -> None:
    placement, clock, _ = made()
    for _ in range(50):
        placement.connect(hello("a"))
        known = rows.load(placement.store.newest(), "prod", "a")
        assert known is not None
        assert known.last_ping_ts + 60_000 <= rows.latest_time(placement.store.newest())
        clock.advance(9_000)


def test_a_key_belongs_to_one_process_until_it_is_expired() -> None:
    placement, clock, _ = made()
    first, second = hello("w", incarnation="host/1"), hello("w", incarnation="host/2")
    assert isinstance(placement.connect(first), envoys.Connected)
    clock.advance(1_000)
    refused = placement.connect(second)
    assert refused == envoys.InUse(holder="host/1", last_ping_ts=NOW_MS)
    assert isinstance(placement.connect(first), envoys.Connected), "it may connect again"
    clock.advance(11_000)
    assert isinstance(placement.connect(second), envoys.Connected)
    assert isinstance(placement.connect(first), envoys.InUse)
    assert isinstance(placement.connect(hello("w")), envoys.InUse)
    placement.connect(hello("old"))
    assert isinstance(placement.connect(hello("old", incarnation="host/3")), envoys.Connected), "it claimed nothing"


def test_a_process_that_drained_leaves_its_key_to_one_that_does_not() -> None:
    placement, _, _ = made()
    placement.connect(hello("w", incarnation="host/1"))
    placement.drain(envoy("w"))
    placement.expire(envoy("w"))
    placement.connect(hello("w", incarnation="host/1"))
    assert not ring(placement.store.newest()), "the same process drains on"
    placement.expire(envoy("w"))
    placement.connect(hello("w", incarnation="host/2"))
    assert ring(placement.store.newest())


def test_pools_may_have_settings_of_their_own() -> None:
    own = PlacementConfig(virtual_nodes=2, samples=1)
    placement, _, _ = made(config=PlacementConfig(pools={"web": own, "prod/web": PlacementConfig(virtual_nodes=3)}))
    assert placement.config.of(POOL).virtual_nodes == 3, "the namespace's own"
    assert placement.config.of(EnvoyPool("test", "web")) is own
    assert placement.config.of(EnvoyPool("test", "other")) is placement.config
    placement.connect(hello("a"))
    placement.connect(hello("b", pool="other"))
    assert len(ring(placement.store.newest())) == 3
    assert len(ring(placement.store.newest(), EnvoyPool("prod", "other"))) == 8


def test_a_version_is_remembered_and_forgotten_when_it_may_have_changed() -> None:
    store = MemoryStore()
    placement, clock, _ = made(store)
    placement.connect(hello("a"))
    assert placement.allocate(POOL).version == 1
    placement.connect(hello("b", version=2))
    assert placement.allocate(POOL).envoy_key == "b"
    placement.expire(envoy("b"))
    assert placement.allocate(POOL).envoy_key == "a"
    # Another process, on the same store.
    connect(store, hello("c", version=3))
    assert placement.allocate(POOL).version == 1
    clock.advance(1000)
    assert placement.allocate(POOL).version == 3


def test_what_belongs_to_an_expiry_is_in_its_transaction() -> None:
    placement, _, _ = made()
    placement.connect(hello("a"))
    left: list[bool] = []
    told: list[EnvoyId] = []

    def leave(tx: Transaction, leaving: EnvoyId) -> None:
        found = rows.load(tx, leaving.namespace, leaving.key)
        left.append(found is not None and found.expired_ts is not None)

    placement.leaving.append(leave)
    placement.expired.append(told.append)
    assert placement.expire(envoy("a"))
    assert not placement.expire(envoy("a"))
    assert (left, told) == ([True], [envoy("a")])


def test_the_sweep_expires_envoys_that_no_allocation_passed_and_one_process_sweeps() -> None:
    store = MemoryStore()
    first, clock, _ = made(store)
    second = Placement(store, PlacementConfig(), clock, Dice(1), NOW_MS, owner=1)
    for i in range(3):
        connect(store, hello(f"e{i}"))
    first.start()
    second.start()
    suspected: list[EnvoyId] = []
    second.suspect = suspected.append  # type: ignore[method-assign, assignment]
    clock.advance(61_000)
    assert ring(store.newest()) == []
    assert suspected == [], "the other one holds the lease"
    first.stop()
    connect(store, hello("late"), now_ms=first.now_ms())
    clock.advance(400_000)
    assert suspected[:1] == [envoy("late")], "it has run out"
    second.stop()


@pytest.mark.parametrize(("samples", "reads"), [(1, 2), (2, 6)])
def test_a_remembered_version_saves_a_read(samples: int, reads: int) -> None:
    placement, _, _ = made(crowd(200), PlacementConfig(samples=samples))
    seen = set()
    for _ in range(50):
        transaction = Counting(placement.store.begin())
        found = placement.choose(transaction, POOL)
        if found.wraps == found.repeated == 0:
            seen.add(len(transaction.reads))
    assert seen == {reads, reads + 1}, "the first one looks, and the others know"


def test_a_reconnect_with_another_version_warns() -> None:
    placement, _, _ = made()
    told: list[str] = []
    placement.warn = told.append
    placement.connect(hello("a"))
    placement.connect(hello("a"))
    assert told == []
    placement.connect(hello("a", version=2))
    assert "prod/a was version 1 in pool web, and came back as version 2" in told[0]


def test_loads_and_draining() -> None:
    placement, _, _ = made()
    for key in ("a", "b"):
        placement.connect(hello(key))
    placement.store.transact(lambda tx: envoys.add_slots(tx, envoy("a"), 4))
    assert [(load.envoy.key, load.slots) for load in placement.loads(POOL)] == [("a", 4), ("b", 0)]
    assert placement.drain(envoy("a"))
    assert {placement.allocate(POOL).envoy_key for _ in range(10)} == {"b"}
    assert placement.resume(envoy("a"))
    assert not placement.drain(envoy("unknown"))
