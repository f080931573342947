"""The real world's clock and dice."""

import asyncio
import time
from collections.abc import Callable
from random import SystemRandom

from epoxy.ports import Timer


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
    """The operating system's randomness: nonces must differ between machines that start together."""

    def __init__(self) -> None:
        self._random = SystemRandom()

    def uniform(self) -> float:
        return self._random.random()

    def nonce(self) -> int:
        return self._random.getrandbits(64)
