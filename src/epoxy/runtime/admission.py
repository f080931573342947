"""Admission control: how many operations may be under way, and the time limits of their clients.

The limit follows Little's law: as many as ended lately in the time that a client may have to wait. More would only wait
longer, until rounds time out and are repeated, which costs more than it gains.

A client is answered within its time limit, if need be that the outcome is not known. The operation goes on: what it
proposed may still be decided, and until it ends it counts. One that waits for its turn has proposed nothing: it is
dropped at its time limit, and as soon as its client is gone.

There are few different time limits, one for each API. The operations with the same one are in the order of their
deadlines, so one timer serves all: it is set for the oldest.
"""

import math
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from epoxy.model.errors import StoreFailed
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


class Caller:
    """A client of the node, for as long as it is connected: its time limit (None: that of the kind of operation), and
    its operations under way."""

    __slots__ = ("_tickets", "timeout_ms")

    def __init__(self, timeout_ms: float | None = None) -> None:
        self.timeout_ms = timeout_ms
        self._tickets: dict[Ticket[Any], None] = {}

    def began(self, ticket: "Ticket[Any]") -> None:
        self._tickets[ticket] = None

    def ended(self, ticket: "Ticket[Any]") -> None:
        self._tickets.pop(ticket, None)

    def leave(self) -> None:
        """The client is gone, or sends nothing more: drop what waits for its turn. An exception in one callback must
        not stop the others."""
        errors: list[Exception] = []
        for ticket in list(self._tickets):
            try:
                ticket.abandon()
            except StoreFailed:
                raise
            except Exception as error:
                errors.append(error)
        if errors:
            raise errors[0]


class Admission(Generic[T]):
    """Operations of one kind. `count`: those under way, whether their clients still wait or not. Callers compare it
    with `limit`, which is never above `most`, and count in `refused` those they turned away. `abandoned`: those that
    were dropped because their client was gone before they began."""

    def __init__(self, clock: Clock, most: int, timeout_ms: float, late: T, unbegun: T | None = None) -> None:
        """The answer at the time limit: `late`, or `unbegun` if the operation has not begun, and so never will."""
        self.most = most
        self.limit = min(most, BURST)
        self.count = 0
        self.refused = self.abandoned = 0
        self._ended = 0
        self._rate = 0.0
        self.late = late
        self._unbegun = late if unbegun is None else unbegun
        self._clock = clock
        self._timeout_ms = timeout_ms
        self._lanes: dict[float, dict[Ticket[T], float]] = {timeout_ms: {}}
        """By time limit, the operations whose clients wait, with their deadlines."""
        self._timer: Timer | None = None
        self._rings_ms = math.inf

    def begin(self, answered: Callable[[T], None], caller: Caller | None = None) -> "Ticket[T]":
        """The ticket is called when the operation ends."""
        self.count += 1
        timeout_ms = self._timeout_ms
        if caller is not None and caller.timeout_ms is not None and caller.timeout_ms < timeout_ms:
            timeout_ms = caller.timeout_ms
        lane = self._lanes.get(timeout_ms)
        if lane is None:
            lane = self._lanes[timeout_ms] = {}
        ticket = Ticket(self, answered, lane, caller)
        now_ms = self._clock.now_ms()
        lane[ticket] = now_ms + timeout_ms
        if caller is not None:
            caller.began(ticket)
        if now_ms + timeout_ms < self._rings_ms:
            self._ring_at(now_ms + timeout_ms, timeout_ms)
        return ticket

    def end(self, ticket: "Ticket[T]") -> bool:
        """Whether its client still waits."""
        self.count -= 1
        self._ended += 1
        if ticket.caller is not None:
            ticket.caller.ended(ticket)
        return ticket.lane.pop(ticket, None) is not None

    def is_due(self, ticket: "Ticket[T]") -> bool:
        """Whether its time limit has passed, so that its client was or will be answered `late` or `unbegun`."""
        return ticket.lane.get(ticket, -math.inf) <= self._clock.now_ms()

    def give_up(self, older_than_ms: float) -> None:
        """Answer those that began longer ago than this as if their time limit had passed."""
        now_ms = self._clock.now_ms()
        for timeout_ms, lane in list(self._lanes.items()):
            self._answer_due(lane, now_ms + timeout_ms - older_than_ms)

    def adapt(self, seconds: float) -> None:
        """Follow the rate of the last `seconds`; all before counts as much as that."""
        self._rate = (self._rate + self._ended / seconds) / 2
        self._ended = 0
        self.limit = min(self.most, max(BURST, int(self._rate * QUEUE_S)))

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer, self._rings_ms = None, math.inf

    def _ring_at(self, at_ms: float, delay_ms: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._rings_ms = at_ms
        self._timer = self._clock.call_later(delay_ms, self._ring)

    def _ring(self) -> None:
        """An exception in one callback must not stop the others."""
        now_ms = self._clock.now_ms()
        self._timer, self._rings_ms = None, math.inf
        try:
            for lane in list(self._lanes.values()):
                self._answer_due(lane, now_ms)
        finally:
            firsts = [next(iter(lane.values())) for lane in self._lanes.values() if lane]
            if firsts:
                delay_ms = max(min(firsts) - now_ms, GRAIN_MS)
                self._ring_at(now_ms + delay_ms, delay_ms)

    def _answer_due(self, lane: "dict[Ticket[T], float]", now_ms: float) -> None:
        while (ticket := first_due(lane, now_ms)) is not None:
            del lane[ticket]
            if ticket.begun:
                ticket.answered(self.late)
            else:
                ticket.answered(self._unbegun)
                ticket.withdraw()


def first_due(lane: "dict[Ticket[T], float]", now_ms: float) -> "Ticket[T] | None":
    ticket = next(iter(lane), None)
    return ticket if ticket is not None and lane[ticket] <= now_ms else None


def nothing() -> None:
    pass


class Ticket(Generic[T]):
    """One operation under way. Called with its outcome when it ends. An operation that is queued calls `wait`, and
    `begin` when its turn comes: it is dropped if its time limit has passed, because nothing of it was proposed yet.
    `withdraw` takes it from the queue."""

    __slots__ = ("_admission", "answered", "begun", "caller", "lane", "withdraw")

    def __init__(
        self,
        admission: Admission[T],
        answered: Callable[[T], None],
        lane: "dict[Ticket[T], float]",
        caller: Caller | None,
    ) -> None:
        self.answered = answered
        self.begun = True
        self.lane = lane
        self.caller = caller
        self.withdraw: Callable[[], None] = nothing
        self._admission = admission

    def wait(self, withdraw: Callable[[], None] = nothing) -> None:
        self.begun = False
        self.withdraw = withdraw

    def begin(self) -> bool:
        """False: it must not begin."""
        self.begun = not self._admission.is_due(self)
        self.withdraw = nothing
        return self.begun

    def abandon(self) -> None:
        """Its client is gone. What has begun goes on."""
        if not self.begun:
            self._admission.abandoned += 1
            self.withdraw()

    def __call__(self, outcome: T) -> None:
        if self._admission.end(self):
            self.answered(outcome)
