"""What all clients of a node together make it hold: answers that they do not read, halves of long messages, queued
commands. The limit of one connection says nothing about ten thousand of them.

While the total is reached, long answers to reads are refused as `busy`, and connections without progress for a second
are aborted, in the order of their last progress: a client that reads slowly outlasts those that do not read at all.
Aborting more of them would only make them connect again, which costs more than to hold what they do not read. But many
that send at the same time reach any total within that second: `MORE_BYTES` above the limit the oldest go at once."""

from collections.abc import Callable
from time import monotonic
from typing import Protocol

FREE_BYTES = 64 << 10
"""Of each connection, not counted: what a socket takes at once. Counting every short answer would cost more than
sending it."""

DEFAULT_BYTES = 32 << 20
"""Of all clients together: as many of the longest values as 32 slow readers are sent at a time."""

MORE_BYTES = 8 << 20
"""Than the limit: no crowd exceeds that by more than one answer or read of a socket. One connection alone may, because
each has limits of its own."""

STALL_S = 1.0
"""Without progress, before a connection is aborted: a client that reads makes some in a round trip."""


BUSY_S = 1.0
"""Without another request of a connection, after one was refused as `busy`: what it asked for had to be read to know
that it is long, so the next refusal would cost as much."""


class HoldingConnection(Protocol):
    def abort(self) -> None:
        """End the connection, without waiting for its client."""


class Holdings:
    def __init__(self, limit: int = DEFAULT_BYTES, now_s: Callable[[], float] = monotonic) -> None:
        self.limit = limit
        self.bytes = 0
        self.aborted = 0
        self._now_s = now_s
        self._held: dict[HoldingConnection, tuple[int, float]] = {}
        self._ending: dict[HoldingConnection, int] = {}
        """Aborted, and their memory not free yet."""
        self._ending_bytes = 0

    @property
    def is_full(self) -> bool:
        return self.bytes >= self.limit

    def note(self, holder: HoldingConnection, size: int) -> bool:
        """What a connection holds now. Whether it is counted; if so, `forget` is called in the end."""
        if holder in self._ending:
            return True
        before, since_s = self._held.get(holder, (0, 0.0))
        if size <= FREE_BYTES:
            if before:
                self.forget(holder)
            return False
        now_s = self._now_s()
        self._held[holder] = size, since_s if before else now_s
        self.bytes += size - before
        if self.bytes > self.limit:
            self._abort_stalled(now_s)
        return True

    def forget(self, holder: HoldingConnection) -> None:
        """The connection has ended, or its client has read or sent what was missing: it is the youngest again."""
        known = self._held.pop(holder, None)
        if known is not None:
            self.bytes -= known[0]
        elif holder in self._ending:
            size = self._ending.pop(holder)
            self.bytes -= size
            self._ending_bytes -= size

    def _abort_stalled(self, now_s: float) -> None:
        while self._held and self.bytes - self._ending_bytes > self.limit:
            oldest = next(iter(self._held))
            size, since_s = self._held[oldest]
            is_too_much = self.bytes - self._ending_bytes > self.limit + MORE_BYTES and len(self._held) > 1
            if since_s + STALL_S > now_s and not is_too_much:
                return
            del self._held[oldest]
            self._ending[oldest] = size
            self._ending_bytes += size
            self.aborted += 1
            oldest.abort()
