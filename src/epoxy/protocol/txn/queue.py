"""Transactions that wait to be put forward, and when they may be.

Two rules, and one bound that follows from them:

1. A replica puts a command forward only when its own earlier commands that interfere with it have been executed here.
   What waits meanwhile becomes one command together.
2. It has at most MAX_IN_FLIGHT commands, and so many bytes of them, that are not executed here.

Then a chain of commands, each among the dependencies of the one before, never holds two of one replica that interfere,
nor more than MAX_IN_FLIGHT of it: the later one was put forward when the earlier one was already executed, and what has
been executed has only decided commands behind it. So a command waits for a bounded number of others, however many come
after it. (EPaxos Revisited, NSDI'21, section 4.3, cuts chains in another way, which needs sequence numbers.)
"""

from collections import deque
from collections.abc import Callable, Iterable

from epoxy.model.instances import MAX_BATCH, Command, InstanceId
from epoxy.model.transactions import MAX_TRANSACTION_BYTES, Executed, Txn, TxnOutcome, TxnRefused, TxnUnknown

MAX_IN_FLIGHT = 32
"""A round takes 100 ms on a WAN and brings up to 64 transactions: 20,000 a second."""

MAX_GROUP_BYTES = 12 << 20
"""What is executed in one piece is one transaction of the store, which takes 16 MiB. Shared by all replicas."""

MAX_QUEUED = 4096
"""Little's law: 20,000 a second, and nobody should wait longer than a fifth of a second before the journey begins."""


class QueuedTransaction:
    """A transaction, and whoever waits for it."""

    __slots__ = ("answered", "txn")

    def __init__(self, txn: Txn, answered: Callable[[TxnOutcome], None]) -> None:
        self.txn = txn
        self.answered = answered


class Flight:
    """A command on its way, and those who wait for it."""

    def __init__(self, command: Command, tickets: list[QueuedTransaction]) -> None:
        self.command = command
        self.tickets = tickets

    def executed(self, results: Iterable[Executed]) -> None:
        answer_all(zip(self.tickets, results, strict=True))

    def failed(self, outcome: TxnRefused | TxnUnknown) -> None:
        answer_all([(ticket, outcome) for ticket in self.tickets])


def answer_all(answers: Iterable[tuple[QueuedTransaction, TxnOutcome]]) -> None:
    """One that raises must not silence those after it."""
    first: Exception | None = None
    for ticket, outcome in answers:
        try:
            ticket.answered(outcome)
        except Exception as error:
            first = first if first is not None else error
    if first is not None:
        raise first


class Queue:
    def __init__(self, replicas: int) -> None:
        self.share(replicas)
        self._waiting: deque[QueuedTransaction] = deque()
        self._flights: dict[InstanceId, Command] = {}
        self._bytes = 0
        self._keys: dict[bytes, list[int]] = {}
        """Of the commands in flight: how many touch a key, and how many write it."""

    def __len__(self) -> int:
        return len(self._waiting)

    def share(self, replicas: int) -> None:
        """Among how many the room is shared."""
        self._most_bytes = max(MAX_TRANSACTION_BYTES, min(1 << 20, MAX_GROUP_BYTES // max(1, replicas)))

    @property
    def is_full(self) -> bool:
        return len(self._waiting) >= MAX_QUEUED

    @property
    def in_flight(self) -> int:
        return len(self._flights)

    def add(self, ticket: QueuedTransaction) -> None:
        self._waiting.append(ticket)

    def again(self, tickets: Iterable[QueuedTransaction]) -> None:
        """What came to nothing is first in line."""
        self._waiting.extendleft(reversed(list(tickets)))

    def withdraw(self, ticket: QueuedTransaction) -> bool:
        """Whether it was waiting. Those who give up are mostly the first in line."""
        try:
            self._waiting.remove(ticket)
        except ValueError:
            return False
        return True

    def emptied(self) -> list[QueuedTransaction]:
        """Those who wait in vain: none of them was put forward, or it came to nothing."""
        waited = list(self._waiting)
        self._waiting.clear()
        return waited

    def took_off(self, instance_id: InstanceId, command: Command) -> None:
        self._flights[instance_id] = command
        self._bytes += command.size
        for key, writes in command.footprint.items():
            counts = self._keys.setdefault(key, [0, 0])
            counts[0] += 1
            counts[1] += writes

    def landed(self, instance_id: InstanceId) -> None:
        """Executed here, or nothing any more."""
        command = self._flights.pop(instance_id, None)
        if command is None:
            return
        self._bytes -= command.size
        for key, writes in command.footprint.items():
            counts = self._keys[key]
            counts[0] -= 1
            counts[1] -= writes
            if not counts[0]:
                del self._keys[key]

    def end_flights(self) -> None:
        """Their term is over here: none of them lands any more, and none keeps back what is asked for in another."""
        self._flights.clear()
        self._keys.clear()
        self._bytes = 0

    def next(self) -> Flight | None:
        """As many as may go together now, in the order they came; one that must wait keeps back those after it that
        interfere with it."""
        if not self._waiting or len(self._flights) >= MAX_IN_FLIGHT:
            return None
        chosen: list[QueuedTransaction] = []
        kept: list[QueuedTransaction] = []
        held: dict[bytes, bool] = {}
        size = self._bytes
        while self._waiting and len(chosen) < MAX_BATCH and len(kept) < MAX_BATCH:
            ticket = self._waiting.popleft()
            fits = size + ticket.txn.size <= self._most_bytes or (not self._flights and not chosen)
            if fits and self._may_go(ticket.txn) and not interferes(ticket.txn, held):
                chosen.append(ticket)
                size += ticket.txn.size
            else:
                kept.append(ticket)
                for key, writes in ticket.txn.footprint.items():
                    held[key] = held.get(key, False) or writes
        self._waiting.extendleft(reversed(kept))
        if not chosen:
            return None
        return Flight(Command(txns=tuple([ticket.txn for ticket in chosen])), chosen)

    def _may_go(self, txn: Txn) -> bool:
        for key, writes in txn.footprint.items():
            counts = self._keys.get(key)
            if counts is not None and counts[0 if writes else 1]:
                return False
        return True


def interferes(txn: Txn, held: dict[bytes, bool]) -> bool:
    """With any of several, given as the keys they touch."""
    for key, writes in txn.footprint.items():
        other = held.get(key)
        if other is not None and (writes or other):
            return True
    return False
