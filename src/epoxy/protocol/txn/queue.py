"""Transactions that wait to be proposed, and when they may be.

Two rules, and one bound that follows from them:

1. A replica proposes a command only when its own earlier commands that interfere with it have been executed here.
   Transactions that wait meanwhile become one command together.
2. It has at most MAX_IN_FLIGHT commands, and a limited number of their bytes, that are not executed here.

Then a chain of commands, each among the dependencies of the one before, never holds two of one replica that interfere,
nor more than MAX_IN_FLIGHT of it: the later one was proposed when the earlier one was already executed, and an executed
command depends on decided commands only. So a command waits for a bounded number of others, however many come after it.
(EPaxos Revisited, NSDI'21, section 4.3, cuts chains in another way, which needs sequence numbers.)
"""

from collections import deque
from collections.abc import Callable, Iterable

from epoxy.model.instances import MAX_BATCH, Command, InstanceId
from epoxy.model.transactions import MAX_TRANSACTION_BYTES, Executed, Txn, TxnOutcome, TxnRefused, TxnUnknown

MAX_IN_FLIGHT = 32
"""A round takes 100 ms on a WAN and brings up to 64 transactions: 20,000 a second."""

MAX_GROUP_BYTES = 12 << 20
"""A group is executed in one transaction of the store, which takes 16 MiB. Shared by all replicas."""

MAX_QUEUED = 4096
"""Little's law: 20,000 a second, and a transaction should be proposed within a fifth of a second."""


class QueuedTransaction:
    """A transaction, and the callback for its outcome."""

    __slots__ = ("answered", "txn")

    def __init__(self, txn: Txn, answered: Callable[[TxnOutcome], None]) -> None:
        self.txn = txn
        self.answered = answered


class Flight:
    """A command in flight, and its transactions."""

    def __init__(self, command: Command, tickets: list[QueuedTransaction]) -> None:
        self.command = command
        self.tickets = tickets

    def executed(self, results: Iterable[Executed]) -> None:
        answer_all(zip(self.tickets, results, strict=True))

    def failed(self, outcome: TxnRefused | TxnUnknown) -> None:
        answer_all([(ticket, outcome) for ticket in self.tickets])


def answer_all(answers: Iterable[tuple[QueuedTransaction, TxnOutcome]]) -> None:
    """An exception in one callback must not stop the others."""
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
        """Divide MAX_GROUP_BYTES by the number of replicas."""
        self._most_bytes = max(MAX_TRANSACTION_BYTES, min(1 << 20, MAX_GROUP_BYTES // max(1, replicas)))

    @property
    def is_full(self) -> bool:
        return len(self._waiting) >= MAX_QUEUED

    @property
    def in_flight(self) -> int:
        return len(self._flights)

    def add(self, ticket: QueuedTransaction) -> None:
        self._waiting.append(ticket)

    def requeue(self, tickets: Iterable[QueuedTransaction]) -> None:
        """Put transactions of a Nop at the front."""
        self._waiting.extendleft(reversed(list(tickets)))

    def withdraw(self, ticket: QueuedTransaction) -> bool:
        """Whether it was waiting. Those that time out are mostly at the front."""
        try:
            self._waiting.remove(ticket)
        except ValueError:
            return False
        return True

    def drain(self) -> list[QueuedTransaction]:
        """Remove and return all that wait: none of them was proposed, or its command became a Nop."""
        waited = list(self._waiting)
        self._waiting.clear()
        return waited

    def start_command(self, instance_id: InstanceId, command: Command) -> None:
        self._flights[instance_id] = command
        self._bytes += command.size
        for key, writes in command.footprint.items():
            counts = self._keys.setdefault(key, [0, 0])
            counts[0] += 1
            counts[1] += writes

    def finish_command(self, instance_id: InstanceId) -> None:
        """It was executed here, or became a Nop."""
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
        """Their term is over here: none of them finishes, and none may hold back transactions of the next."""
        self._flights.clear()
        self._keys.clear()
        self._bytes = 0

    def next(self) -> Flight | None:
        """A command of as many transactions as may be proposed now, in their order; one that must wait holds back later
        ones that interfere with it."""
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
    """Whether it interferes with any of the commands that touch `held`: by key, whether it is written."""
    for key, writes in txn.footprint.items():
        other = held.get(key)
        if other is not None and (writes or other):
            return True
    return False
