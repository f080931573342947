"""Transactions that wait to be proposed, and when they may be.

Two rules, and one bound that follows from them:

1. A replica proposes a command only when its own earlier commands that interfere with it have been executed here.
   Transactions that wait meanwhile become one command together; `gathering` says how long more may join them.
2. It has at most MAX_IN_FLIGHT commands, and a limited number of their bytes, that are not executed here.

Then a chain of commands, each among the dependencies of the one before, never holds two of one replica that interfere,
nor more than MAX_IN_FLIGHT of it: the later one was proposed when the earlier one was already executed, and an executed
command depends on decided commands only. So a command waits for a bounded number of others, however many come after it.
(EPaxos Revisited, NSDI'21, section 4.3, cuts chains in another way, which needs sequence numbers.)
"""

from collections import deque
from collections.abc import Callable, Iterable
from itertools import chain, islice

from epoxy.model.instances import MAX_BATCH, Command, Instance, InstanceId
from epoxy.model.transactions import MAX_TRANSACTION_BYTES, Executed, Txn, TxnOutcome, TxnRefused, TxnUnknown
from epoxy.model.writes import Path
from epoxy.protocol.txn.gathering import KeyGathering, contended_keys, expected_count, touches_apart

MAX_IN_FLIGHT = 32
"""A round takes 100 ms on a WAN and brings up to 64 transactions: 20,000 a second."""

MAX_GROUP_BYTES = 12 << 20
"""A group is executed in one transaction of the store, which takes 16 MiB. Shared by all replicas."""

MAX_QUEUED = 4096
"""Little's law: 20,000 a second, and a transaction should be proposed within a fifth of a second."""


class QueuedTransaction:
    """A transaction, and the callback for its outcome. `decided`, if it is watched: told the path of the command that
    decided it, and when that began."""

    __slots__ = ("answered", "decided", "txn")

    def __init__(self, txn: Txn, answered: Callable[[TxnOutcome], None]) -> None:
        self.txn = txn
        self.answered = answered
        self.decided: Callable[[Path, float], None] | None = None


class Flight:
    """A command in flight, and its transactions."""

    def __init__(self, command: Command, tickets: list[QueuedTransaction]) -> None:
        self.command = command
        self.tickets = tickets
        self.begun_ms = 0.0

    def decided(self, path: Path) -> None:
        for ticket in self.tickets:
            if ticket.decided is not None:
                ticket.decided(path, self.begun_ms)

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
    """`_waiting` are to be looked at; `_parked` cannot go before some key of theirs is free. They are in their order,
    and one that is parked holds back later ones that interfere with it. Many may wait for one key without being looked
    at again whenever another one comes."""

    def __init__(self, replicas: int) -> None:
        self.share(replicas)
        self._waiting: deque[QueuedTransaction] = deque()
        self._parked: list[QueuedTransaction] = []
        self._parked_keys: dict[bytes, bool] = {}
        """Whether any of them writes it."""
        self._lacks_room = False
        """Whether one is parked because there are too many bytes in flight."""
        self._flights: dict[InstanceId, Command] = {}
        self._bytes = 0
        self._keys: dict[bytes, list[int]] = {}
        """Of the commands in flight: how many touch a key, and how many write it."""
        self._gatherings: list[KeyGathering] = []

    def __len__(self) -> int:
        return len(self._waiting) + len(self._parked)

    def share(self, replicas: int) -> None:
        """Divide MAX_GROUP_BYTES by the number of replicas."""
        self._most_bytes = max(MAX_TRANSACTION_BYTES, min(1 << 20, MAX_GROUP_BYTES // max(1, replicas)))

    @property
    def is_full(self) -> bool:
        return len(self) >= MAX_QUEUED

    @property
    def is_gathering(self) -> bool:
        return bool(self._gatherings)

    @property
    def in_flight(self) -> int:
        return len(self._flights)

    def add(self, ticket: QueuedTransaction) -> None:
        self._waiting.append(ticket)
        if self._gatherings:
            for gathering in self._gatherings:
                gathering.count(ticket.txn)
            self.end_gatherings()

    def requeue(self, tickets: Iterable[QueuedTransaction]) -> None:
        """Put transactions of a Nop at the front."""
        self._release()
        self._waiting.extendleft(reversed(list(tickets)))

    def withdraw(self, ticket: QueuedTransaction) -> bool:
        """Whether it was waiting. Those that time out are mostly at the front."""
        for tickets in (self._parked, self._waiting):
            try:
                tickets.remove(ticket)
            except ValueError:
                continue
            return True
        return False

    def drain(self) -> list[QueuedTransaction]:
        """Remove and return all that wait: none of them was proposed, or its command became a Nop."""
        self._release()
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
        if self._lacks_room or not self._parked_keys.keys().isdisjoint(command.footprint):
            self._release()

    def end_flights(self) -> None:
        """Their term is over here: none of them finishes, and none may hold back transactions of the next."""
        self._flights.clear()
        self._keys.clear()
        self._bytes = 0
        self._gatherings.clear()
        self._release()

    def gather(self, executed: Instance, rival: Instance | None) -> KeyGathering | None:
        """Hold back the contended keys of a command that was just executed; None: it has none. `rival`: the last
        command of the replica whose turn is before."""
        command = executed.chosen
        if command is None or (rival is None and not self._waiting and not self._parked and touches_apart(command)):
            return None
        waiting = [ticket.txn for ticket in islice(chain(self._parked, self._waiting), MAX_BATCH)]
        keys = contended_keys(command, waiting)
        if rival is None and not keys:
            return None
        expected = expected_count(command, waiting, keys)
        if rival is not None and rival.command is not None:
            keys |= command.footprint.keys() & rival.command.footprint.keys()
        gathering = KeyGathering(executed.id, keys, expected, rival.id.replica_id if rival is not None else None)
        if not keys or gathering.is_over:
            return None
        self._gatherings.append(gathering)
        return gathering

    def notice(self, proposed: Instance) -> bool:
        """Another replica has proposed this. Whether more may go now."""
        for gathering in self._gatherings:
            gathering.notice(proposed)
        return self.end_gatherings()

    def end_gatherings(self) -> bool:
        """Those that are over. Whether there were any."""
        left = [gathering for gathering in self._gatherings if not gathering.is_over]
        if len(left) == len(self._gatherings):
            return False
        self._gatherings = left
        self._release()
        return True

    def next(self) -> Flight | None:
        """A command of as many transactions as may be proposed now, in their order."""
        if not self._waiting or len(self._flights) >= MAX_IN_FLIGHT:
            return None
        chosen: list[QueuedTransaction] = []
        size = self._bytes
        while self._waiting and len(chosen) < MAX_BATCH:
            ticket = self._waiting.popleft()
            fits = size + ticket.txn.size <= self._most_bytes or (not self._flights and not chosen)
            if fits and self._may_go(ticket.txn):
                chosen.append(ticket)
                size += ticket.txn.size
            else:
                self._lacks_room = self._lacks_room or not fits
                self._park(ticket)
        if not chosen:
            return None
        return Flight(Command(txns=tuple([ticket.txn for ticket in chosen])), chosen)

    def _may_go(self, txn: Txn) -> bool:
        for key, writes in txn.footprint.items():
            counts = self._keys.get(key)
            if counts is not None and counts[0 if writes else 1]:
                return False
            parked = self._parked_keys.get(key)
            if parked is not None and (writes or parked):
                return False
        return not self._gatherings or all(gathering.keys.isdisjoint(txn.footprint) for gathering in self._gatherings)

    def _park(self, ticket: QueuedTransaction) -> None:
        self._parked.append(ticket)
        for key, writes in ticket.txn.footprint.items():
            self._parked_keys[key] = self._parked_keys.get(key, False) or writes

    def _release(self) -> None:
        """Look at all of them again."""
        self._waiting.extendleft(reversed(self._parked))
        self._parked.clear()
        self._parked_keys.clear()
        self._lacks_room = False
