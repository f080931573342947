"""The real world's clock and dice."""

import asyncio
from collections.abc import Callable
from random import SystemRandom

from epoxy.ports import Timer


class LoopClock:
    """The event loop's monotonic time."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def now_ms(self) -> float:
        return self._loop.time() * 1000

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
