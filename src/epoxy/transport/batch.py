"""What travels to a peer together, and how it is weighed."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import assert_never

from msgspec import Struct

from epoxy.model.messages import Accept, Commit, Failed, Inspect, Prepare, Read, Reply, Request, UpdateConfig
from epoxy.transport.dial import Dial, guarded

MESSAGE_OVERHEAD = 96
"""Bytes of a message besides key and value, at most: ids and numbers."""

CONFIG_BYTES = 1 << 14
"""64 replicas with addresses of 250 bytes."""

RTT_MEMORY_MS = 5000.0
"""The shortest round trip of this long and of the stretch before is the distance; longer ones have waited in line."""

Answered = Callable[[Reply], None]


def weight(request: Request) -> int:
    """About as many bytes as it takes."""
    match request:
        case Accept() | Commit():
            return MESSAGE_OVERHEAD + len(request.key) + len(request.proposal.value or b"")
        case Prepare() | Read() | Inspect():
            return MESSAGE_OVERHEAD + len(request.key)
        case UpdateConfig():
            return CONFIG_BYTES
        case _:
            assert_never(request)


class Envelope(Struct, frozen=True):
    """Requests in order; the reply of the last is the answer."""

    requests: Sequence[Request]
    answered: Answered | None
    size: int
    since_ms: float

    def fail(self, reason: str) -> None:
        if self.answered is not None:
            guarded(partial(self.answered, Failed(reason=reason)))


class Batch:
    """What leaves together. No envelopes: a probe."""

    __slots__ = ("dial", "envelopes", "left_ms", "mac", "over", "size", "there_ms")

    def __init__(self, envelopes: list[Envelope], size: int, left_ms: float) -> None:
        self.envelopes = envelopes
        self.size = size
        self.left_ms = left_ms
        self.there_ms = 0.0
        self.mac = b""
        self.over = False
        self.dial: Dial | None = None

    def fail(self, reason: str) -> None:
        envelopes, self.envelopes = self.envelopes, []
        for envelope in envelopes:
            envelope.fail(reason)


class Shortest:
    """The shortest sample of the last while."""

    def __init__(self) -> None:
        self._before = self._current = math.inf
        self._since_ms = 0.0

    def add(self, sample_ms: float, now_ms: float) -> None:
        if now_ms - self._since_ms > RTT_MEMORY_MS:
            self._before, self._current, self._since_ms = self._current, math.inf, now_ms
        self._current = min(self._current, sample_ms)

    @property
    def value(self) -> float | None:
        shortest = min(self._before, self._current)
        return shortest if shortest < math.inf else None
