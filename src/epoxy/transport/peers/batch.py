"""Messages that travel to a peer together."""

import math
from collections.abc import Callable

from epoxy.model.messages import Failed, Reply
from epoxy.transport.peers.dial import Dial, report

RTT_MEMORY_MS = 5000.0
"""The shortest round trip of this window and the one before is the distance; longer ones have waited in a queue."""

LAG_HALVES_MS = 2000.0
"""Between two requests that show how slow a peer is: probes come every second."""

Answered = Callable[[Reply], None]


Envelope = tuple[bytes, int, Answered | None, float]
"""Encoded requests, in order; their number; the callback for the reply to the last; and when it was queued. A tuple
because there is one for every message: nothing is cheaper to make."""


def deliver(answered: Answered, reply: Reply) -> None:
    """An exception in one callback must not stop the others."""
    try:
        answered(reply)
    except Exception as error:
        report(error)


def fail(envelope: Envelope, reason: str) -> None:
    answered = envelope[2]
    if answered is not None:
        deliver(answered, Failed(reason=reason))


class Batch:
    """One without envelopes is a probe."""

    __slots__ = ("dial", "done", "envelopes", "left_ms", "size", "there_ms")

    def __init__(self, envelopes: list[Envelope], size: int, left_ms: float) -> None:
        self.envelopes = envelopes
        self.size = size
        self.left_ms = left_ms
        self.there_ms = 0.0
        self.done = False
        self.dial: Dial | None = None

    def fail(self, reason: str) -> None:
        envelopes, self.envelopes = self.envelopes, []
        for envelope in envelopes:
            fail(envelope, reason)


class RecentLag:
    """How much longer than the round trip answers took of late: the peer's disk, its queue and ours. It rises at once,
    and falls by half every `LAG_HALVES_MS`: a slow disk is not slow for every request, and one pause is soon over."""

    def __init__(self) -> None:
        self._lag_ms = 0.0
        self._at_ms = 0.0

    def add(self, sample_ms: float, now_ms: float) -> None:
        self._lag_ms = max(sample_ms, self.value(now_ms))
        self._at_ms = now_ms

    def value(self, now_ms: float) -> float:
        halvings: float = (now_ms - self._at_ms) / LAG_HALVES_MS
        return self._lag_ms * math.exp2(-halvings) if self._lag_ms else 0.0


class WindowedMinimum:
    """The shortest sample of one to two windows."""

    def __init__(self) -> None:
        self._before = self._current = math.inf
        self._since_ms = 0.0

    def add(self, sample_ms: float, now_ms: float) -> None:
        if now_ms - self._since_ms > RTT_MEMORY_MS:
            self._before, self._current, self._since_ms = self._current, math.inf, now_ms
        self._current = min(self._current, sample_ms)

    @property
    def shortest(self) -> float:
        """Infinite without a sample."""
        return min(self._before, self._current)

    @property
    def value(self) -> float | None:
        shortest = self.shortest
        return shortest if shortest < math.inf else None
