import pytest

from epoxy.codec.tuple import strinc
from epoxy.model.errors import Conflict
from epoxy.protocol.placement import envoys, rows
from epoxy.protocol.placement.records import Envoy, EnvoyPool
from epoxy.protocol.placement.ring import position
from epoxy.store.memory import MemoryStore
from tests.protocol.placement.bench import (
    NOW_MS,
    POOL,
    Counting,
    connect,
    crowd,
    envoy,
    hello,
    pings,
    ring,
    set_slots,
    total,
)


def held(store: MemoryStore, key: str = "a") -> Envoy:
    found = rows.load(store.newest(), "prod", key)
    assert found is not None
    return found


def everything(store: MemoryStore) -> dict[bytes, bytes]:
    return dict(store.newest().range(b"\x00", b"\xff", limit=100_000))


def clear(store: MemoryStore, row: bytes) -> None:
    assert store.newest().get(row) is not None
    store.transact(lambda tx: tx.clear(row))


def expire(store: MemoryStore, key: str = "a", *, now_ms: int = NOW_MS, fresh_ms: int | None = None) -> bool:
    return store.transact(lambda tx: envoys.expire(tx, envoy(key), now_ms, unless_fresh_for_ms=fresh_ms))


def test_connecting_writes_every_index() -> None:
    store = MemoryStore()
    connected = connect(store, hello("a", version=3))
    assert (connected.created, connected.was, connected.highest_version) == (True, None, 3)
    view = store.newest()
    assert ring(view) == [(3, "a")] * 8
    assert all(view.get(rows.hash_row(POOL, 3, position("a", i), "a")) == b"" for i in range(8))
    assert pings(view) == ["a"]
    assert rows.active_envoys(view, None, 10) == ([envoy("a")], None)
    assert rows.envoys_of(view, POOL, None, 10) == (["a"], None)
    found = held(store)
    assert (found.places, found.create_ts, found.last_ping_ts) == (8, NOW_MS, NOW_MS)
    assert (found.version, found.pool, found.protocol_version) == (3, "web", 1)


def test_connecting_again_changes_nothing_but_the_ping() -> None:
    store = MemoryStore()
    connect(store, hello("a"))
    before = everything(store)
    assert connect(store, hello("a")).created is False
    assert everything(store) == before
    connect(store, hello("a"), now_ms=NOW_MS + 5)
    assert (held(store).create_ts, held(store).last_ping_ts) == (NOW_MS, NOW_MS + 5)
    assert pings(store.newest()) == ["a"]


def test_connecting_again_heals_rows_that_went_missing() -> None:
    store = MemoryStore()
    connect(store, hello("a"))
    before = everything(store)
    for row in (
        rows.hash_row(POOL, 1, position("a", 3), "a"),
        rows.ping_row(POOL, 1, NOW_MS, "a"),
        rows.active_row(envoy("a"), NOW_MS),
        rows.meta_row(POOL),
    ):
        clear(store, row)
    connect(store, hello("a"))
    assert everything(store) == before


@pytest.mark.parametrize(("first", "second"), [(8, 4), (4, 8), (64, 1)])
def test_fewer_places_leave_none_behind(first: int, second: int) -> None:
    store = MemoryStore()
    connect(store, hello("a"), v=first)
    connect(store, hello("a"), v=second)
    assert ring(store.newest()) == [(1, "a")] * second
    assert held(store).places == second
    assert expire(store)
    assert ring(store.newest()) == []


def test_another_version_or_pool_is_told_and_leaves_nothing_behind() -> None:
    store = MemoryStore()
    connect(store, hello("a", version=2))
    changed = connect(store, hello("a", version=1, pool="api"))
    assert changed.was is not None
    assert (changed.was.version, changed.was.pool) == (2, "web")
    assert ring(store.newest()) == []
    assert rows.envoys_of(store.newest(), POOL, None, 9) == ([], None)
    assert ring(store.newest(), EnvoyPool("prod", "api")) == [(1, "a")] * 8


def test_a_ping_touches_no_row_of_the_ring() -> None:
    store = MemoryStore()
    connect(store, hello("a"))
    before = everything(store)
    assert store.transact(lambda tx: envoys.ping(tx, envoy("a"), NOW_MS + 7, 12))
    changed = everything(store).items() ^ before.items()
    prefix = rows.pool_rows(rows.HASH, POOL)
    assert changed
    assert not [row for row, _ in changed if prefix <= row < strinc(prefix)]
    assert (held(store).last_ping_ts, held(store).last_rtt_ms) == (NOW_MS + 7, 12)
    assert pings(store.newest()) == ["a"]


def test_a_ping_of_a_stranger_or_of_an_expired_envoy_is_refused() -> None:
    store = MemoryStore()
    assert not store.transact(lambda tx: envoys.ping(tx, envoy("a"), NOW_MS, 1))
    connect(store, hello("a"))
    expire(store)
    assert not store.transact(lambda tx: envoys.ping(tx, envoy("a"), NOW_MS, 1))
    assert pings(store.newest()) == []


def test_a_ping_from_the_past_does_not_make_an_envoy_older() -> None:
    store = MemoryStore()
    connect(store, hello("a"))
    assert store.transact(lambda tx: envoys.ping(tx, envoy("a"), NOW_MS - 50, 3))
    assert held(store).last_ping_ts == NOW_MS
    assert pings(store.newest()) == ["a"]


def test_expiring_leaves_only_what_tells_of_it() -> None:
    store = MemoryStore()
    connect(store, hello("a"))
    assert expire(store, now_ms=NOW_MS + 1)
    view = store.newest()
    assert (ring(view), pings(view), rows.active_envoys(view, None, 9)[0]) == ([], [], [])
    assert (held(store).expired_ts, held(store).places) == (NOW_MS + 1, 0)
    assert not expire(store), "the first one wins"
    assert total(view, rows.TOTAL_WEIGHT) == 0


def test_one_that_pinged_meanwhile_is_not_expired() -> None:
    store = MemoryStore()
    connect(store, hello("a"))
    assert not expire(store, now_ms=NOW_MS + 100, fresh_ms=100)
    assert expire(store, now_ms=NOW_MS + 101, fresh_ms=100)


def test_a_ping_that_commits_first_is_a_conflict_for_an_expiry() -> None:
    store = MemoryStore()
    connect(store, hello("a"))
    losing = store.begin()
    assert envoys.expire(losing, envoy("a"), NOW_MS + 101, unless_fresh_for_ms=100)
    store.transact(lambda tx: envoys.ping(tx, envoy("a"), NOW_MS + 100, 1))
    with pytest.raises(Conflict):
        losing.commit()
    assert held(store).expired_ts is None


def test_counting_slots_is_no_conflict_for_a_ping() -> None:
    store = MemoryStore()
    connect(store, hello("a"))
    pinging = store.begin()
    assert envoys.ping(pinging, envoy("a"), NOW_MS + 5, 1)
    set_slots(store, "a", 3)
    pinging.commit()
    assert held(store).last_ping_ts == NOW_MS + 5


def test_one_that_comes_back_after_its_expiry_is_new() -> None:
    store = MemoryStore()
    connect(store, hello("a"))
    expire(store, now_ms=NOW_MS + 1)
    assert connect(store, hello("a"), now_ms=NOW_MS + 2).created
    assert (held(store).create_ts, held(store).expired_ts) == (NOW_MS + 2, None)
    assert list(rows.expired_before(store.newest(), NOW_MS + 9, 9)) == []


def test_one_that_drains_keeps_its_slots_and_its_connection_but_no_place() -> None:
    store = MemoryStore()
    connect(store, hello("a"))
    set_slots(store, "a", 3)
    assert store.transact(lambda tx: envoys.drain(tx, envoy("a"), NOW_MS))
    view = store.newest()
    assert (ring(view), pings(view), rows.slots(view, envoy("a"))) == ([], [], 3)
    assert (total(view, rows.TOTAL_SLOTS), total(view, rows.TOTAL_WEIGHT)) == (0, 0)
    assert rows.envoys_of(view, POOL, None, 9)[0] == ["a"]
    store.transact(lambda tx: envoys.ping(tx, envoy("a"), NOW_MS + 1, 1))
    connect(store, hello("a"), now_ms=NOW_MS + 2)
    assert (ring(store.newest()), pings(store.newest())) == ([], []), "neither a ping nor a reconnect brings it back"
    assert store.transact(lambda tx: envoys.resume(tx, envoy("a"), 8))
    assert ring(store.newest()) == [(1, "a")] * 8
    assert total(store.newest(), rows.TOTAL_SLOTS) == 3


def test_what_is_left_of_an_expired_envoy_goes_when_its_slots_are_returned() -> None:
    store = MemoryStore()
    connect(store, hello("a"))
    set_slots(store, "a", 2)
    expire(store)
    assert not store.transact(lambda tx: envoys.forget(tx, envoy("a")))
    set_slots(store, "a", -2)
    assert store.transact(lambda tx: envoys.forget(tx, envoy("a")))
    prefix = rows.envoy_rows("prod", "a")
    assert store.newest().range(prefix, strinc(prefix), limit=1) == []
    assert list(rows.expired_before(store.newest(), NOW_MS + 1, 9)) == []


def test_the_highest_version_rises_and_falls_with_those_on_the_ring() -> None:
    store = MemoryStore()
    seen: list[int | None] = []
    for step in (
        lambda: connect(store, hello("a", version=1)),
        lambda: connect(store, hello("b", version=5)),
        lambda: connect(store, hello("c", version=5)),
        lambda: expire(store, "b"),
        lambda: store.transact(lambda tx: envoys.drain(tx, envoy("c"), NOW_MS)),
        lambda: expire(store, "a"),
    ):
        step()
        seen.append(envoys.highest_version(store.newest(), POOL))
    assert seen == [1, 5, 5, 5, 1, None]


def test_a_connect_is_one_transaction_with_few_reads() -> None:
    store = crowd(3)
    transaction = Counting(store.begin())
    envoys.connect(transaction, hello("new"), NOW_MS, 8)
    assert len(transaction.reads) <= 6
