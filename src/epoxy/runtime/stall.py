"""A process that stood still (SIGSTOP, a machine that was paused, a loop that was held up) and goes on.

Requests that reached its sockets meanwhile are read now. Those who sent them have given up, may have written something
else since, at another node, and would be surprised: so nothing that is read in the first moment is begun.
"""

from epoxy.ports import Clock

BEAT_MS = 1000.0
"""How often the process shows that it is running."""

SHORTEST_STALL_MS = 5000.0
"""A busy machine may not run a process for as long as some seconds, and that is no reason to refuse its clients."""

WAKING_MS = 1000.0
"""In which everything is read that waited in sockets. Who comes in it and is refused loses a moment, and knows it."""


class Stall:
    def __init__(self, clock: Clock, patience_ms: float) -> None:
        """`patience_ms`: how long clients wait for an answer."""
        self._clock = clock
        self._longest_ms = max(patience_ms, SHORTEST_STALL_MS) + BEAT_MS
        self._beat_ms: float | None = None
        self._awake_ms = 0.0

    def beat(self) -> None:
        """From the first one on they are expected."""
        self._look()
        self._beat_ms = self._clock.now_ms()

    @property
    def is_waking(self) -> bool:
        """Whether what is read now may have waited for longer than its client has. The first request may be read
        before the next beat."""
        return self._look() < self._awake_ms

    def _look(self) -> float:
        now_ms = self._clock.now_ms()
        if self._beat_ms is not None and now_ms - self._beat_ms > self._longest_ms:
            self._beat_ms, self._awake_ms = now_ms, now_ms + WAKING_MS
        return now_ms
