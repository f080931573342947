"""The real world's clock and dice."""

import asyncio
import os
import struct
import time
from collections.abc import Callable
from random import SystemRandom

from epoxy.ports import Timer

DRAWN_AT_ONCE = 128
"""A kilobyte; the kernel gives up to 256 bytes without looking aside, and a little more costs hardly more."""


class LoopClock:
    """The event loop's timers. Its own time is cached and, with uvloop, in whole milliseconds: too coarse to measure
    with."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def now_ms(self) -> float:
        return time.monotonic() * 1000

    def call_later(self, delay_ms: float, then: Callable[[], None]) -> Timer:
        return self._loop.call_later(delay_ms / 1000, then)


class SystemDice:
    """The operating system's randomness: nonces must differ between machines that start together. It is asked for many
    at once, because every question is a system call."""

    def __init__(self) -> None:
        self._random = SystemRandom()
        self._drawn: list[int] = []

    def uniform(self) -> float:
        return self._random.random()

    def nonce(self) -> int:
        if not self._drawn:
            self._drawn = list(struct.unpack(f"<{DRAWN_AT_ONCE}Q", os.urandom(8 * DRAWN_AT_ONCE)))
        return self._drawn.pop()
