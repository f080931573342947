"""A simulated process of a worker: an asyncio event loop in virtual time, with the clocks and the threads beside it.

The production code of workers runs on it as it is, tasks and all. It may be stopped (SIGSTOP), blocked (code that does
not give the loop a turn; threads go on) or suspended with its machine (the monotonic clock and timers stand still, the
one that counts suspend goes on).
"""

import asyncio
import enum
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import Context
from functools import partial
from math import ceil
from random import Random
from typing import Any

from epoxy_sim.world import Action, Event, World

WAKE_US = 2_000
"""After a stop, threads get their turn within this time; the event loop goes on meanwhile."""


class Waits(enum.Enum):
    """What a step of the event loop waits for."""

    TURN = 0
    MESSAGE = 1
    TIMER = 2


class Standstill(enum.Enum):
    STOP = "stop"
    BLOCK = "block"
    SUSPEND = "suspend"


class VirtualLoop(asyncio.AbstractEventLoop):
    """Of an event loop what code without IO uses."""

    def __init__(self, process: "SimProcess") -> None:
        self._process = process
        self._code: list[Coroutine[Any, Any, Any]] = []

    def within(self, action: Action) -> None:
        before = asyncio._get_running_loop()
        asyncio._set_running_loop(self)
        try:
            action()
        finally:
            asyncio._set_running_loop(before)

    def time(self) -> float:
        return self._process.monotonic_ms() / 1000

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._process.soon(lambda: self._run(handle))
        return handle

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(self.time() + delay, callback, args, self, context)
        self._process.call_later(1000 * delay, lambda: self._run(handle))
        return handle

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_later(when - self.time(), callback, *args, context=context)

    def _run(self, handle: asyncio.Handle) -> None:
        if not handle.cancelled():
            handle._run()
            self._process.raise_error()

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """It is found out when it is due."""

    def create_future(self) -> "asyncio.Future[Any]":
        return asyncio.Future(loop=self)

    def create_task(  # type: ignore[override]
        self, coro: Coroutine[Any, Any, Any], *, name: str | None = None, context: Context | None = None
    ) -> "asyncio.Task[Any]":
        self._code.append(coro)
        return asyncio.Task(coro, loop=self, name=name, context=context)

    def abandon(self) -> None:
        """With its process. What clean-up then does has no effect; left to the garbage collector, it would be run at
        any time."""
        for each in self._code:
            # One that ends the process is running.
            with suppress(ValueError, RuntimeError):
                each.close()
        self._code.clear()

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def get_debug(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, Exception):
            self._process.error = error


class SimProcess:
    """`rate`: how fast its clocks run."""

    def __init__(self, world: World, rate: float, dice: Random) -> None:
        self.alive = True
        self.error: Exception | None = None
        """Of a callback of the event loop, which no code caught."""
        self.loop = VirtualLoop(self)  # type: ignore[abstract]
        self.still: Standstill | None = None
        self._world = world
        self._rate = rate
        self._dice = dice
        self._still_until_us = self._still_since_us = 0
        self._slept_us = 0
        self._woke_us: int | None = None
        self._late: list[tuple[Waits, Action]] = []
        """Steps of the event loop that were due while it stood still."""
        self._late_threads: list[Action] = []

    def end(self) -> None:
        """As by SIGKILL."""
        if self.alive:
            self.alive = False
            self.loop.within(self.loop.abandon)

    # Standing still

    def stand_still(self, kind: Standstill, for_us: int) -> None:
        if self.alive and self.still is None:
            self.still = kind
            self._still_since_us, self._still_until_us = self._world.now_us, self._world.now_us + for_us
            self._world.after(for_us, self._go_on)

    def wake(self) -> None:
        if self.still is not None:
            self._still_until_us = self._world.now_us
            self._go_on()

    @property
    def is_stopped(self) -> bool:
        """So that no thread of it could act, from the beginning of a standstill until its threads have had a turn."""
        if self.still in (Standstill.STOP, Standstill.SUSPEND):
            return True
        return self._woke_us is not None and self._world.now_us <= self._woke_us + WAKE_US

    def _go_on(self) -> None:
        """Messages and timers are due all at once, each in their order. In half of the cases the timers come first."""
        if self.still is None or self._world.now_us < self._still_until_us:
            return
        if self.still is Standstill.SUSPEND:
            self._slept_us += self._world.now_us - self._still_since_us
        self._woke_us = None if self.still is Standstill.BLOCK else self._world.now_us
        self.still = None
        late, self._late = self._late, []
        threads, self._late_threads = self._late_threads, []
        first = self._dice.choice((Waits.MESSAGE, Waits.TIMER))
        order = {Waits.TURN: 0, first: 1}
        for waits, action in sorted(late, key=lambda each: order.get(each[0], 2)):
            self._world.after(0, partial(self.run, action, waits))
        for action in threads:
            self._world.after(self._dice.randrange(WAKE_US), partial(self._in_thread, action))

    # The event loop

    def run(self, action: Action, waits: Waits = Waits.MESSAGE) -> None:
        """Every step of the event loop runs through here."""
        if not self.alive:
            return
        if self.still is not None:
            self._late.append((waits, action))
            return
        self.loop.within(action)
        self.raise_error()

    def raise_error(self) -> None:
        if self.error is not None and self.alive:
            error, self.error = self.error, None
            raise error

    def soon(self, then: Action) -> Event:
        return self._world.after(0, lambda: self.run(then, Waits.TURN))

    # Clocks

    def monotonic_ms(self) -> float:
        """Stands still in suspend."""
        return (self._world.now_us - self._asleep_us) * self._rate / 1000

    def boottime_ms(self) -> float:
        return self._world.now_us * self._rate / 1000

    @property
    def _asleep_us(self) -> int:
        now_us = self._world.now_us
        return self._slept_us + (now_us - self._still_since_us if self.still is Standstill.SUSPEND else 0)

    def _us_of(self, delay_ms: float) -> int:
        """Not before it is due by its own clock: code that looks at that would wait again, for nothing."""
        return max(0, ceil(1000 * delay_ms / self._rate))

    def call_later(self, delay_ms: float, then: Action) -> "MonotonicTimer":
        return MonotonicTimer(self, self._us_of(delay_ms), lambda: self.run(then, Waits.TIMER))

    # Threads

    def in_thread_later(self, delay_ms: float, then: Action) -> "MonotonicTimer":
        return MonotonicTimer(self, self._us_of(delay_ms), lambda: self._in_thread(then))

    def _in_thread(self, action: Action) -> None:
        if not self.alive:
            return
        if self.still in (Standstill.STOP, Standstill.SUSPEND):
            self._late_threads.append(action)
        else:
            action()


class MonotonicTimer:
    """Rings when the machine has been awake for so long."""

    def __init__(self, process: SimProcess, delay_us: int, then: Action) -> None:
        self._process = process
        self._then = then
        self._begin(delay_us)

    def _begin(self, delay_us: int) -> None:
        self._asleep_us = self._process._asleep_us
        self._event = self._process._world.after(delay_us, self._over)

    def _over(self) -> None:
        missed_us = self._process._asleep_us - self._asleep_us
        if missed_us:
            self._begin(missed_us)
        else:
            self._then()

    def cancel(self) -> None:
        self._event.cancel()
