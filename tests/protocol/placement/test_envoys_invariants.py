"""Whatever happens to envoys, in whatever order: what the rows say of each other stays true."""

from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from epoxy.protocol.placement import envoys, rows
from epoxy.protocol.placement.allocator import allocate
from epoxy.protocol.placement.config import PlacementConfig
from epoxy.protocol.placement.records import Envoy, EnvoyPool
from epoxy.store.memory import MemoryStore
from tests.protocol.placement.bench import NOW_MS, Dice, connect, envoy, hello, pings, ring, set_slots, total

KEYS = st.sampled_from(["a", "b", "c", "d"])
POOLS = ("web", "api")


class Envoys(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.store = MemoryStore()
        self.now_ms = NOW_MS
        self.model_slots: Counter[str] = Counter()
        self.expired: dict[str, int] = {}

    @rule(
        key=KEYS, pool=st.sampled_from(POOLS), version=st.integers(0, 3), v=st.integers(1, 9), weight=st.integers(1, 3)
    )
    def connect(self, key: str, pool: str, version: int, v: int, weight: int) -> None:
        connect(self.store, hello(key, pool=pool, version=version, weight=weight), now_ms=self.now_ms, v=v)
        self.expired.pop(key, None)

    @rule(key=KEYS, rtt=st.integers(0, 500))
    def ping(self, key: str, rtt: int) -> None:
        known = rows.load(self.store.newest(), "prod", key)
        accepted = self.store.transact(lambda tx: envoys.ping(tx, envoy(key), self.now_ms, rtt))
        assert accepted == (known is not None and key not in self.expired)

    @rule(key=KEYS, fresh_ms=st.one_of(st.none(), st.integers(0, 100)))
    def expire(self, key: str, fresh_ms: int | None) -> None:
        known = rows.load(self.store.newest(), "prod", key)
        did = self.store.transact(lambda tx: envoys.expire(tx, envoy(key), self.now_ms, unless_fresh_for_ms=fresh_ms))
        stale = known is not None and (fresh_ms is None or known.last_ping_ts < self.now_ms - fresh_ms)
        assert did == (stale and key not in self.expired)
        if did:
            self.expired[key] = self.now_ms

    @rule(key=KEYS)
    def drain(self, key: str) -> None:
        self.store.transact(lambda tx: envoys.drain(tx, envoy(key), self.now_ms))

    @rule(key=KEYS, v=st.integers(1, 9))
    def resume(self, key: str, v: int) -> None:
        self.store.transact(lambda tx: envoys.resume(tx, envoy(key), v))

    @rule(key=KEYS, delta=st.integers(-2, 4))
    def count(self, key: str, delta: int) -> None:
        set_slots(self.store, key, delta)
        self.model_slots[key] += delta

    @rule(pool=st.sampled_from(POOLS), seed=st.integers(0, 1000), samples=st.integers(1, 3))
    def allocate(self, pool: str, seed: int, samples: int) -> None:
        config = PlacementConfig(samples=samples, eligible_threshold_ms=100)
        where = EnvoyPool("prod", pool)
        found = self.store.transact(lambda tx: allocate(tx, where, config, self.now_ms, Dice(seed)))
        if found.envoy_key is not None:
            chosen = self.all()[found.envoy_key]
            assert chosen.is_fresh(self.now_ms, 100)
            assert chosen.pool == pool
            assert chosen.expired_ts is None
            assert chosen.draining_ts is None
            self.model_slots[found.envoy_key] += 1

    @rule(ms=st.integers(1, 80))
    def wait(self, ms: int) -> None:
        self.now_ms += ms

    def all(self) -> dict[str, Envoy]:
        view = self.store.newest()
        return {key: found for key in "abcd" if (found := rows.load(view, "prod", key)) is not None}

    @invariant()
    def never_expired_with_rows_left(self) -> None:
        view = self.store.newest()
        on_ring = {key for pool in POOLS for _, key in ring(view, EnvoyPool("prod", pool))}
        for each in self.all().values():
            assert (each.expired_ts is not None) == (each.key in self.expired)
            assert (each.key in on_ring) == (each.expired_ts is None and each.draining_ts is None)

    @invariant()
    def the_ring_is_exactly_those_placed(self) -> None:
        view = self.store.newest()
        for name in POOLS:
            placed = [each for each in self.all().values() if each.pool == name and each.places]
            pool = EnvoyPool("prod", name)
            assert Counter(ring(view, pool)) == {(each.version, each.key): each.places for each in placed}
            assert sorted(pings(view, pool)) == sorted(each.key for each in placed)
            assert envoys.highest_version(view, pool) == max((each.version for each in placed), default=None)

    @invariant()
    def totals_are_sums(self) -> None:
        view = self.store.newest()
        for name in POOLS:
            for version in range(4):
                placed = [
                    each for each in self.all().values() if each.places and (each.pool, each.version) == (name, version)
                ]
                pool = EnvoyPool("prod", name)
                assert total(view, rows.TOTAL_WEIGHT, version, pool) == sum(each.weight for each in placed)
                slots = sum(rows.slots(view, each.id) for each in placed)
                assert total(view, rows.TOTAL_SLOTS, version, pool) == slots

    @invariant()
    def slots_are_what_was_counted(self) -> None:
        view = self.store.newest()
        assert {key: rows.slots(view, envoy(key)) for key in "abcd"} == {key: self.model_slots[key] for key in "abcd"}

    @invariant()
    def the_active_are_those_not_expired(self) -> None:
        view = self.store.newest()
        alive = sorted(each.id for each in self.all().values() if each.expired_ts is None)
        assert sorted(rows.active_envoys(view, None, 100)[0]) == alive
        by_pool = [key for name in POOLS for key in rows.envoys_of(view, EnvoyPool("prod", name), None, 100)[0]]
        assert sorted(by_pool) == [each.key for each in alive]


TestEnvoys = Envoys.TestCase
TestEnvoys.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
