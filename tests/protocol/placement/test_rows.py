"""The keys of placement's rows, which are part of the format, and how they are read back."""

import pytest

from epoxy.codec.tuple import pack
from epoxy.protocol.placement import rows
from epoxy.protocol.placement.records import EnvoyId
from epoxy.store.memory import MemoryStore
from tests.protocol.placement.bench import NOW_MS, POOL, connect, crowd, hello

KEYS = ["plain", "with\x00zero", "\u00fc", "\x00"]


@pytest.mark.parametrize("key", KEYS)
def test_the_short_ways_make_and_read_what_the_tuple_layer_does(key: str) -> None:
    assert rows.envoy_rows("prod", key) == pack((rows.ROOT, rows.ENVOY, "prod", key))
    row = rows.hash_row(POOL, 3, b"\x00\xff" * 8, key)
    assert rows.owner(row, rows.version_rows(rows.HASH, POOL, 3)) == key
    assert rows.last_name(row, rows.version_rows(rows.HASH, POOL, 3)) == key


def test_the_highest_version_comes_first() -> None:
    ten, nine, zero = [rows.version_rows(rows.HASH, POOL, version) for version in (10, 9, 0)]
    assert ten < nine < zero
    row = rows.ping_row(POOL, 9, NOW_MS, "a")
    assert rows.version_of(row, rows.pool_rows(rows.PINGS, POOL)) == 9
    prefix = rows.version_rows(rows.PINGS, POOL, 9)
    assert (rows.first_number(row, prefix), rows.last_name(row, prefix)) == (NOW_MS, "a")


@pytest.mark.parametrize("size", [(1, 0), (3, 0), (1, 7)])
def test_the_usual_size_takes_no_bytes(size: tuple[int, int]) -> None:
    assert rows.read_size(rows.size_value(*size)) == size
    assert (rows.size_value(*size) == b"") is (size == (1, 0))


def test_envoys_are_read_in_pages() -> None:
    view = crowd(5).newest()
    first, more = rows.active_envoys(view, None, 3)
    second, end = rows.active_envoys(view, more, 3)
    assert (len(first), len(second), end) == (3, 2, None)
    assert {each.key for each in (*first, *second)} == {f"envoy-{i}" for i in range(5)}
    assert rows.envoys_of(view, POOL, None, 9)[0] == [each.key for each in (*first, *second)]


def test_expired_envoys_are_found_by_their_time() -> None:
    store = MemoryStore()
    connect(store, hello("a"))
    store.transact(lambda tx: tx.set(rows.expired_row(EnvoyId("prod", "a"), 50), b""))
    assert rows.expired_before(store.newest(), 50, 9) == []
    assert rows.expired_before(store.newest(), 51, 9) == [EnvoyId("prod", "a")]
