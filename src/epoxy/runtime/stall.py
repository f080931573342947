"""Detects that the process was stopped for a while (SIGSTOP, a paused machine, a blocked event loop).

Requests that reached its sockets meanwhile are read when it goes on. Their clients have given up, and may have written
something else at another node since. So requests that are read in the first moment are refused.
"""

from epoxy.ports import Clock

BEAT_MS = 1000.0
"""Between two signs that the process runs."""

SHORTEST_STALL_MS = 5000.0
"""A busy machine may not run a process for some seconds, which is no reason to refuse clients."""

WAKING_MS = 1000.0
"""In this time all that waited in sockets is read. A new request that is refused in it can be repeated."""


class Stall:
    def __init__(self, clock: Clock, patience_ms: float) -> None:
        """`patience_ms`: the time limit of clients."""
        self._clock = clock
        self._longest_ms = max(patience_ms, SHORTEST_STALL_MS) + BEAT_MS
        self._beat_ms: float | None = None
        self._awake_ms = 0.0

    def beat(self) -> None:
        """To be called every BEAT_MS from now on."""
        self._look()
        self._beat_ms = self._clock.now_ms()

    @property
    def is_waking(self) -> bool:
        """Whether a request that is read now may have waited for longer than its client did. Checks too, because the
        first request may be read before the next beat."""
        return self._look() < self._awake_ms

    def _look(self) -> float:
        now_ms = self._clock.now_ms()
        if self._beat_ms is not None and now_ms - self._beat_ms > self._longest_ms:
            self._beat_ms, self._awake_ms = now_ms, now_ms + WAKING_MS
        return now_ms
