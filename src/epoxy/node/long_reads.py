"""A budget for linearizable reads of long values: each brings the value from every replica that is asked, through the
links that votes take."""

from collections.abc import Callable
from functools import partial
from typing import TypeVar

T = TypeVar("T")

LONG_VALUE_BYTES = 64 << 10
MAX_LONG_READS_BYTES = 4 << 20
"""Of reads of values that long, at a time: a MiB takes a replica 20 ms."""


class LongReads:
    def __init__(self) -> None:
        self.bytes = 0
        """Of those under way."""

    def refuses(self, size: int) -> bool:
        """`size`: of the version known here. Every replica that is asked will send about as much."""
        return size >= LONG_VALUE_BYTES and self.bytes + size > MAX_LONG_READS_BYTES

    def begin(self, size: int, answered: Callable[[T], None]) -> Callable[[T], None]:
        """Where the answer goes, so that it is counted until then."""
        if size < LONG_VALUE_BYTES:
            return answered
        self.bytes += size
        return partial(self._ended, size, answered)

    def _ended(self, size: int, answered: Callable[[T], None], outcome: T) -> None:
        self.bytes -= size
        answered(outcome)
