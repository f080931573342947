"""Admission control: how many operations may be under way, and the time limits of their clients.

The limit follows Little's law: as many as ended lately in the time that a client may have to wait. More would only wait
longer, until rounds time out and are repeated, which costs more than it gains.

A client is answered within its time limit, if need be that the outcome is not known. The operation goes on: what it
proposed may still be decided, and until it ends it counts. All operations of one kind have the same time limit, so one
timer serves them: it is set for the oldest.
"""

import math
from collections.abc import Callable
from typing import Generic, TypeVar

from epoxy.ports import Clock, Timer

T = TypeVar("T")

GRAIN_MS = 100.0
"""How late the answer at the time limit may be: a hundredth of that limit."""


QUEUE_S = 0.5
"""How long the last admitted operation may take, round trips between continents included: those are 0.2 s, and up to
half a second feels immediate."""

BURST = 512
"""The least limit, whatever the rate was. A node that shares two cores with other programs decided 1,000 a second, so
this is half a second there too."""


class Admission(Generic[T]):
    """Operations of one kind. `count`: those under way, whether their clients still wait or not. Callers compare it
    with `limit`, which is never above `most`, and count in `refused` those they turned away."""

    def __init__(self, clock: Clock, most: int, timeout_ms: float, late: T, unbegun: T | None = None) -> None:
        """The answer at the time limit: `late`, or `unbegun` if the operation has not begun, and so never will."""
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
        """The ticket is called when the operation ends."""
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
        """Whether its time limit has passed, so that its client was or will be answered `late` or `unbegun`."""
        return self._waiting.get(ticket, -math.inf) <= self._clock.now_ms()

    def give_up(self, older_than_ms: float) -> None:
        """Answer those that began longer ago than this as if their time limit had passed."""
        self._answer_due(self._clock.now_ms() + self._timeout_ms - older_than_ms)

    def adapt(self, seconds: float) -> None:
        """Follow the rate of the last `seconds`; all before counts as much as that."""
        self._rate = (self._rate + self._ended / seconds) / 2
        self._ended = 0
        self.limit = min(self.most, max(BURST, int(self._rate * QUEUE_S)))

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _ring(self) -> None:
        """Tickets are in the order of their deadlines. An exception in one callback must not stop the others."""
        now_ms = self._clock.now_ms()
        try:
            self._answer_due(now_ms)
        finally:
            self._timer = None
            if self._waiting:
                first_ms = next(iter(self._waiting.values()))
                self._timer = self._clock.call_later(max(first_ms - now_ms, GRAIN_MS), self._ring)

    def _answer_due(self, now_ms: float) -> None:
        while (ticket := self._first_due(now_ms)) is not None:
            del self._waiting[ticket]
            ticket.answered(self.late if ticket.begun else self._unbegun)

    def _first_due(self, now_ms: float) -> "Ticket[T] | None":
        ticket = next(iter(self._waiting), None)
        return ticket if ticket is not None and self._waiting[ticket] <= now_ms else None


class Ticket(Generic[T]):
    """One operation under way. Called with its outcome when it ends. An operation that is queued calls `wait`, and
    `begin` when its turn comes: it is dropped if its time limit has passed, because nothing of it was proposed yet."""

    __slots__ = ("_admission", "answered", "begun")

    def __init__(self, admission: Admission[T], answered: Callable[[T], None]) -> None:
        self.answered = answered
        self.begun = True
        self._admission = admission

    def wait(self) -> None:
        self.begun = False

    def begin(self) -> bool:
        """False: it must not begin."""
        self.begun = not self._admission.is_due(self)
        return self.begun

    def __call__(self, outcome: T) -> None:
        if self._admission.end(self):
            self.answered(outcome)
