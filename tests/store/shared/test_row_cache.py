"""The bounded cache of durable rows."""

from epoxy.store.shared.row_cache import MISSING, ROW_BYTES, RowCache

SHARD = 3


def cache_of(rows: int) -> RowCache:
    """With room for so many rows without a value and with a key of two bytes, in each generation."""
    return RowCache(2 * rows * (ROW_BYTES + 2), lambda _: SHARD)


def name(index: int) -> bytes:
    return b"%02d" % index


def test_absent_rows_are_known_and_others_are_missing() -> None:
    cache = cache_of(4)
    cache.put(b"k1", b"v", SHARD)
    cache.put(b"k2", None, SHARD)
    assert (cache.get(b"k1"), cache.get(b"k2")) == (b"v", None)
    assert cache.get(b"k3") is MISSING
    cache.put(b"k3", b"missing", SHARD)
    assert cache.get(b"k3") == b"missing"


def test_rows_that_are_not_used_are_dropped_and_used_ones_stay() -> None:
    cache = cache_of(4)
    for index in range(40):
        cache.put(name(index), None, SHARD)
        assert cache.get(name(0)) is None, "used all the time"
        assert len(cache) <= 2 * (4 + 1)
    assert cache.get(name(39)) is None
    assert all(cache.get(name(index)) is MISSING for index in range(1, 30))


def test_long_values_take_the_room_of_many_rows() -> None:
    cache = cache_of(100)
    for index in range(30):
        cache.put(name(index), bytes(10 * ROW_BYTES), SHARD)
    assert len(cache) < 25


def test_a_row_that_grows_is_counted_with_its_length() -> None:
    cache = cache_of(4)
    cache.put(b"k1", b"", SHARD)
    for _ in range(100):
        cache.put(b"k1", b"12", SHARD)
    cache.put(b"k2", b"", SHARD)
    assert len(cache) == 2
    cache.put(b"k1", bytes(5 * ROW_BYTES), SHARD)
    cache.put(b"k3", b"", SHARD)
    cache.put(b"k3", bytes(5 * ROW_BYTES), SHARD)
    assert len(cache) == 1, "both generations were left"


def test_the_newest_value_counts_when_both_generations_have_one() -> None:
    cache = cache_of(2)
    for value in (b"old", b"new"):
        cache.put(b"k1", value, SHARD)
        for index in range(2):
            cache.put(name(index), None, SHARD)
    cache.put(b"k1", b"newest", SHARD)
    assert cache.get(b"k1") == b"newest"


def test_the_rows_of_a_shard_are_dropped_from_both_generations() -> None:
    cache = RowCache(2 * 4 * (ROW_BYTES + 2), lambda key: int(key) % 2)
    for index in range(7):
        cache.put(name(index), b"", index % 2)
    cache.get(name(0))
    cache.drop((1,))
    assert [cache.get(name(index)) for index in (0, 2, 4, 6)] == [b"", b"", b"", b""]
    assert all(cache.get(name(index)) is MISSING for index in (1, 3, 5))
    for index in range(7):
        cache.put(name(index), b"", index % 2)
    cache.drop((0, 1))
    assert len(cache) == 0
