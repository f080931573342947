"""Time limits that share timers, because nearly none of them rings.

Every write starts a few and cancels them a moment later. A timer of the event loop costs as much as a transaction, so
deadlines within the same few milliseconds share one, and to cancel a deadline is to drop its callback.
"""

from collections.abc import Callable
from functools import partial

from epoxy.ports import Clock, Timer

GRAIN_MS = 5.0
"""How late a deadline may ring."""

SHORTEST_MS = 20.0
"""A shorter delay is a pause, which does ring, and gets a timer of its own. The shortest time limit is 25 ms: a hedge
between near replicas."""


class Deadline:
    __slots__ = ("_then",)

    def __init__(self, then: Callable[[], None]) -> None:
        self._then: Callable[[], None] | None = then

    def cancel(self) -> None:
        self._then = None

    def ring(self) -> None:
        if self._then is not None:
            self._then()


class CoarseClock:
    """Deadlines never ring early. Cancelled ones are removed at their time, so there are as many as were started within
    the longest delay in use."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._due: dict[int, list[Deadline]] = {}

    def now_ms(self) -> float:
        return self._clock.now_ms()

    def call_later(self, delay_ms: float, then: Callable[[], None]) -> Timer:
        if delay_ms < SHORTEST_MS:
            return self._clock.call_later(delay_ms, then)
        now_ms = self._clock.now_ms()
        grain = int((now_ms + delay_ms) / GRAIN_MS) + 1
        deadline = Deadline(then)
        due = self._due.get(grain)
        if due is None:
            self._due[grain] = [deadline]
            self._clock.call_later(grain * GRAIN_MS - now_ms, partial(self._ring, grain))
        else:
            due.append(deadline)
        return deadline

    def _ring(self, grain: int) -> None:
        due = self._due.pop(grain)
        try:
            while due:
                due.pop().ring()
        finally:
            # An exception in one callback must not stop the others.
            if due:
                self._due[grain] = due
                self._clock.call_later(0, partial(self._ring, grain))
