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
    """The next rows of sorted keys, from `begin` to `end`. `sealed`: to be put, with their checksums; `cleared`: to be
    deleted; both only of keys below `long_bytes`. `long`: the keys of all others."""

    __slots__ = ("cleared", "end", "long", "sealed")

    def __init__(self, keys: list[bytes], begin: int, values: Values, long_bytes: int) -> None:
        self.sealed: list[tuple[bytes, bytes]] = []
        self.cleared: list[bytes] = []
        self.long: list[bytes] = []
        end, last, size = begin, min(len(keys), begin + SLICE_ROWS), 0
        while end < last and size < SLICE_BYTES:
            key = keys[end]
            value = values[key]
            end += 1
            if value is not None:
                size += len(value)
            if len(key) >= long_bytes:
                self.long.append(key)
            elif value is None:
                self.cleared.append(key)
            else:
                self.sealed.append((key, seal(key, value)))
        self.end = end


def deal(piece: list[bytes], bounds: list[bytes], ranges: list[list[bytes]]) -> None:
    """Sorted keys into the ranges between these bounds."""
    begin = 0
    for number, bound in enumerate(bounds):
        end = bisect_left(piece, bound, begin)
        if begin < end:
            ranges[number] += piece[begin:end]
            begin = end
    ranges[-1] += piece[begin:]
