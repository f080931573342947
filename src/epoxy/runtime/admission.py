"""Operations under way, and the clients who wait for them.

How many there may be follows Little's law: as many as ended lately in the time that a client may be kept waiting. More
would only wait longer, and late enough that rounds are given up and begun again, which costs more than it settles.

A client is told within a time that nothing is known yet. The operation itself goes on: what it put forward may still be
decided, and until it ends it takes the room that admission bounds. All of one kind have the same time, so one timer
serves them: it rings for whoever has waited longest.
"""

import math
from collections.abc import Callable
from typing import Generic, TypeVar

from epoxy.ports import Clock, Timer

T = TypeVar("T")

GRAIN_MS = 100.0
"""How late a client may be told that its time is over: a hundredth of the time it has had."""


QUEUE_S = 0.5
"""How long the last one in may have to wait for those before it, the ways between continents included: they are 0.2 s,
and what a person takes for an answer at once is little more."""

BURST = 512
"""May come at once whatever was before. A node that shares two cores with everything else decided 1,000 a second, so
this is half a second there, too."""


class Pending(Generic[T]):
    """Operations of one kind. `count` are those under way, whether their clients still wait or not; `limit` is for
    whoever lets them in, never above `most`, and `refused` how many it turned away."""

    def __init__(self, clock: Clock, most: int, timeout_ms: float, late: T, unbegun: T | None = None) -> None:
        """What a client is told when its time is over: `late`, or `unbegun` if the operation has not even begun, and so
        never will."""
        self.most = most
        self.limit = min(most, BURST)
        self.count = 0
        self.refused = 0
        self._ended = 0
        self._rate = 0.0
        self.late = late
        self._unbegun = late if unbegun is None else unbegun
        self._clock = clock
        self._timeout_ms = timeout_ms
        self._waiting: dict[Ticket[T], float] = {}
        self._timer: Timer | None = None

    def begin(self, answered: Callable[[T], None]) -> "Ticket[T]":
        """What is to be called when the operation ends."""
        self.count += 1
        ticket = Ticket(self, answered)
        self._waiting[ticket] = self._clock.now_ms() + self._timeout_ms
        if self._timer is None:
            self._timer = self._clock.call_later(self._timeout_ms, self._ring)
        return ticket

    def end(self, ticket: "Ticket[T]") -> bool:
        """Whether its client still waits."""
        self.count -= 1
        self._ended += 1
        return self._waiting.pop(ticket, None) is not None

    def is_due(self, ticket: "Ticket[T]") -> bool:
        """Whether its client has been told that its time is over, or is about to be."""
        return self._waiting.get(ticket, -math.inf) <= self._clock.now_ms()

    def adapt(self, seconds: float) -> None:
        """Follow what was done in the last `seconds`, and half as much what was before."""
        self._rate = (self._rate + self._ended / seconds) / 2
        self._ended = 0
        self.limit = min(self.most, max(BURST, int(self._rate * QUEUE_S)))

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _ring(self) -> None:
        """They are in the order of their deadlines. One that raises must not silence the others."""
        now_ms = self._clock.now_ms()
        try:
            while (ticket := self._first_due(now_ms)) is not None:
                del self._waiting[ticket]
                ticket.answered(self.late if ticket.begun else self._unbegun)
        finally:
            self._timer = None
            if self._waiting:
                first_ms = next(iter(self._waiting.values()))
                self._timer = self._clock.call_later(max(first_ms - now_ms, GRAIN_MS), self._ring)

    def _first_due(self, now_ms: float) -> "Ticket[T] | None":
        ticket = next(iter(self._waiting), None)
        return ticket if ticket is not None and self._waiting[ticket] <= now_ms else None


class Ticket(Generic[T]):
    """One operation on its way. Called with its outcome when it ends. One that waits for others says so, and asks
    before it begins: what its client no longer waits for, because this took too long or the process stood still, is
    dropped while nothing of it has been put forward."""

    __slots__ = ("_pending", "answered", "begun")

    def __init__(self, pending: Pending[T], answered: Callable[[T], None]) -> None:
        self.answered = answered
        self.begun = True
        self._pending = pending

    def wait(self) -> None:
        self.begun = False

    def begin(self) -> bool:
        """False: it must not."""
        self.begun = not self._pending.is_due(self)
        return self.begun

    def __call__(self, outcome: T) -> None:
        if self._pending.end(self):
            self.answered(outcome)
