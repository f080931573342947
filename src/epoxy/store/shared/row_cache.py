"""Durable rows in memory, bounded by their bytes: two generations, of which the older one is dropped as a whole.

A row that is used moves to the young generation. When that is full it becomes the old one, so that whatever was used
since the last change of generations is kept. Cheaper than a strict order of use, which every read would change.
"""

from collections.abc import Callable, Iterable
from typing import Final

MISSING: Final = bytes(bytearray(b"missing"))
"""Neither a value nor its absence: not in memory. Known by its identity; equal bytes are a value."""

ROW_BYTES = 200
"""What a row takes in CPython beside the bytes of its key and value: two objects and their places in a dict."""


class RowCache:
    """Rows that exist, and rows that are known to be absent (None). `shard_of` is asked for rows that are new."""

    def __init__(self, limit: int, shard_of: Callable[[bytes], int]) -> None:
        self._limit = limit // 2
        self._shard_of = shard_of
        self._young = Generation()
        self._old = Generation()

    def __len__(self) -> int:
        return len(self._young.rows.keys() | self._old.rows.keys())

    def get(self, key: bytes) -> bytes | None:
        """MISSING: it is not here."""
        value = self._young.rows.get(key, MISSING)
        if value is MISSING:
            value = self._old.rows.get(key, MISSING)
            if value is not MISSING:
                self.put(key, value, self._shard_of(key))
        return value

    def put(self, key: bytes, value: bytes | None, shard: int) -> None:
        young = self._young
        before = young.rows.get(key, MISSING)
        young.rows[key] = value
        if before is MISSING:
            young.size += ROW_BYTES + len(key) + len(value or b"")
            young.of_shard.setdefault(shard, []).append(key)
        else:
            young.size += len(value or b"") - len(before or b"")
        if young.size > self._limit:
            self._old, self._young = young, Generation()

    def drop(self, shards: Iterable[int]) -> None:
        """All rows of these shards."""
        for shard in shards:
            self._young.drop(shard)
            self._old.drop(shard)


class Generation:
    """`of_shard` lists the rows of a shard, each once, so that a hand-over need not look at all others."""

    __slots__ = ("of_shard", "rows", "size")

    def __init__(self) -> None:
        self.rows: dict[bytes, bytes | None] = {}
        self.of_shard: dict[int, list[bytes]] = {}
        self.size = 0

    def drop(self, shard: int) -> None:
        for key in self.of_shard.pop(shard, ()):
            self.size -= ROW_BYTES + len(key) + len(self.rows.pop(key) or b"")
