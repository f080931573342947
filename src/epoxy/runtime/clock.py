"""The clock and the dice of production."""

import asyncio
import os
import struct
import time
from collections.abc import Callable
from random import SystemRandom

from epoxy.ports import Timer

CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Linux has one that goes on in suspend; where there is none, leases are longer by that time, never shorter."""

DRAWN_AT_ONCE = 128
"""A kilobyte: one system call for many nonces."""


class LoopClock:
    """Timers are the event loop's. Its time is not: it is cached, and uvloop has whole milliseconds, too coarse to
    measure with, and stands still while the machine is suspended."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def now_ms(self) -> float:
        return time.clock_gettime(CLOCK) * 1000

    def call_later(self, delay_ms: float, then: Callable[[], None]) -> Timer:
        return self._loop.call_later(delay_ms / 1000, then)


class SystemDice:
    """The operating system's randomness: nonces must differ between machines that start together. Many are drawn at
    once, because each draw is a system call."""

    def __init__(self) -> None:
        self._random = SystemRandom()
        self._drawn: list[int] = []

    def uniform(self) -> float:
        return self._random.random()

    def nonce(self) -> int:
        if not self._drawn:
            self._drawn = list(struct.unpack(f"<{DRAWN_AT_ONCE}Q", os.urandom(8 * DRAWN_AT_ONCE)))
        return self._drawn.pop()
