"""A write in the queue of its key."""

from collections.abc import Callable
from typing import Protocol

from epoxy.model.writes import Outcome
from epoxy.protocol.keys.carrying import may_be_carried
from epoxy.protocol.keys.operations import PendingWrite

STARVED = 2
"""Rounds that a write may lose after it was handed over and taken back."""


class Turn(Protocol):
    """Of a write in the queue of its key. A Ticket of `runtime.admission` is one."""

    def wait(self, withdraw: Callable[[], None]) -> None:
        """The write was queued. `withdraw` takes it from the queue, if it has not begun."""

    def begin(self) -> bool:
        """The write could begin now. False: its client was answered that it was dropped, so it must not."""


class AnyTime:
    """For writes without a time limit."""

    def wait(self, withdraw: Callable[[], None]) -> None:
        pass

    def begin(self) -> bool:
        return True


AT_ANY_TIME = AnyTime()


class QueuedWrite:
    """A write, and where its answer goes: to a client, or to the replica `home` that carried it here. `begun`: its turn
    came, and it is folded until it is answered. `found`: its answer as far as a decision tells it, while the owner's
    answer is awaited. `hand_over`: the Carry it is in. `is_spread`: it was in another one whose end is not known.
    `is_refused`: here it would be, if the owner did not still have it."""

    __slots__ = (
        "answered",
        "begun",
        "begun_ms",
        "found",
        "hand_over",
        "home",
        "is_refused",
        "is_spread",
        "pending",
        "turn",
    )

    def __init__(
        self,
        pending: PendingWrite,
        begun_ms: float,
        answered: Callable[[Outcome], None] | None,
        turn: Turn = AT_ANY_TIME,
        home: int = 0,
    ) -> None:
        self.pending = pending
        self.answered = answered
        self.turn = turn
        self.begun_ms = begun_ms
        self.home = home
        self.begun = False
        self.found: Outcome | None = None
        self.hand_over: object = None
        self.is_spread = False
        self.is_refused = False

    def may_begin(self) -> bool:
        if not self.begun:
            self.begun = self.turn.begin()
        return self.begun

    @property
    def may_be_carried(self) -> bool:
        """Not one that was carried here: it would travel in circles. One that another replica may still fold is handed
        over again only if it goes on losing: from then on a refusal of it is not told."""
        pending = self.pending
        if self.home or not may_be_carried(pending.write):
            return False
        return not pending.handed_over or pending.lost >= STARVED
