"""Slices of a checkpoint: the rows that are written before the event loop gets its turn.

Compiled, because every row of a checkpoint comes through here. A compiled loop does not let others have the
interpreter, so a slice is short: 256 rows take 0.1 ms, and so does copying 256 KiB.
"""

from bisect import bisect_left
from typing import Final

from epoxy.store.conflicts import Values
from epoxy.store.embedded.checksums import seal

SLICE_ROWS: Final = 256
SLICE_BYTES: Final = 1 << 18


class Slice:
    """The next of some sorted keys, from `begin` to `end`. `rows`: to be put, with their checksums, only of keys below
    `long_bytes`; `long`: the keys of all others."""

    __slots__ = ("end", "long", "rows")

    def __init__(self, keys: list[bytes], begin: int, values: Values, long_bytes: int) -> None:
        self.rows: list[tuple[bytes, bytes]] = []
        self.long: list[bytes] = []
        end, last, size = begin, min(len(keys), begin + SLICE_ROWS), 0
        while end < last and size < SLICE_BYTES:
            key = keys[end]
            value = values[key]
            end += 1
            assert value is not None, "only of keys that are written"
            size += len(value)
            if len(key) < long_bytes:
                self.rows.append((key, seal(key, value)))
            else:
                self.long.append(key)
        self.end = end


def sort_out(rows: list[tuple[bytes, bytes | None]], written: list[bytes], cleared: list[bytes]) -> None:
    for key, value in rows:
        if value is None:
            cleared.append(key)
        else:
            written.append(key)


def deal(piece: list[bytes], bounds: list[bytes], ranges: list[list[bytes]]) -> None:
    """Sorted keys into the ranges between these bounds."""
    begin = 0
    for number, bound in enumerate(bounds):
        end = bisect_left(piece, bound, begin)
        if begin < end:
            ranges[number] += piece[begin:end]
            begin = end
    ranges[-1] += piece[begin:]
