"""Transactions of this replica's clients on their way: from the queue into commands, and from results to answers."""

from collections.abc import Callable
from functools import partial
from typing import Protocol

from epoxy.model.instances import Command, InstanceId, Phase
from epoxy.model.transactions import Executed, Txn, TxnOutcome, TxnRefused, TxnUnknown
from epoxy.node.txn.executor import Results
from epoxy.node.txn.replica import OrderedReplica
from epoxy.ports import Clock, Store
from epoxy.protocol.txn.coordinator import Ending, TooMuch
from epoxy.protocol.txn.effects import TxnTiming
from epoxy.protocol.txn.gathering import KeyGathering, rival_before
from epoxy.protocol.txn.queue import Flight, Queue, QueuedTransaction

LEFT = TxnUnknown(reason="this replica left the members while it was under way; it may have taken effect")

FAILED = TxnRefused(reason="it failed before it was proposed, because of a bug in this node; see its log")


GATHER_MS, GATHER_SHARE = 5.0, 0.25
"""How long transactions that come again are waited for: a client near its node is back within milliseconds. And no
longer than a part of what the command took, which all of them would have waited for otherwise."""


class SubmissionHost(Protocol):
    """The engine that runs the flows of commands."""

    @property
    def clock(self) -> Clock: ...

    @property
    def timing(self) -> TxnTiming: ...

    @property
    def replica(self) -> OrderedReplica: ...

    @property
    def is_open(self) -> bool:
        """Whether this replica proposes commands now."""

    def submit(self, instance_id: InstanceId, command: Command) -> None:
        """Run its flow, which ends with `Submissions.ended`."""

    def rescue(self, ids: tuple[InstanceId, ...]) -> None: ...


class Submissions:
    def __init__(self, host: SubmissionHost, store: Store) -> None:
        self._host = host
        self._store = store
        self.queue = Queue(len(host.replica.voters))
        self.flights: dict[InstanceId, Flight] = {}
        self.term = host.replica.number
        """Of all flights, here and in the queue."""
        self.next_slot = 0
        self.executed_total = 0
        """Transactions of this replica's clients that were executed."""
        self._scheduled = False
        self._paused = False
        self.follow_replica()

    def restore(self) -> None:
        """Commands of this replica that were under way before a crash count as in flight until they are executed."""
        log = self._host.replica.log
        for instance in log.instances.values():
            mine = instance.id.replica_id == self._host.replica.me
            if mine and instance.command is not None and not log.is_executed(instance.id):
                self.queue.start_command(instance.id, instance.command)

    def follow_replica(self) -> None:
        """To the slots and the voters of the replica's term."""
        replica = self._host.replica
        self.next_slot = replica.log.highest.get(replica.me, 0) + 1
        self.queue.share(len(replica.voters))

    def add(self, txn: Txn, answered: Callable[[TxnOutcome], None]) -> QueuedTransaction:
        ticket = QueuedTransaction(txn, answered)
        self.queue.add(ticket)
        self.pump_soon()
        return ticket

    def pump_soon(self) -> None:
        """Transactions that come in the same turn of the event loop are proposed together."""
        if not self._scheduled:
            self._scheduled = True
            self._host.clock.call_later(0, self._pump)

    def _pump(self) -> None:
        self._scheduled = False
        while not self._paused and self._host.is_open and (flight := self.queue.next()) is not None:
            instance_id = InstanceId(self._host.replica.me, self.next_slot)
            self.next_slot += 1
            flight.begun_ms = self._host.clock.now_ms()
            self.flights[instance_id] = flight
            self.queue.start_command(instance_id, flight.command)
            self._host.submit(instance_id, flight.command)

    def ended(self, instance_id: InstanceId, ending: Ending | None) -> None:
        """The flow of a command is over; None: it raised."""
        if isinstance(ending, TooMuch):
            self._pause(instance_id)
            self.take_back(instance_id)
        elif ending is None:
            self._failed(instance_id)

    def _pause(self, instance_id: InstanceId) -> None:
        """This replica is too far behind to propose anything: a proposal without a delay would only be refused again,
        for ever. The slot was not used, so the next command gets it: a gap would have to be recovered."""
        self._paused = True
        if self.next_slot == instance_id.slot + 1:
            self.next_slot = instance_id.slot
        self._host.clock.call_later(self._host.timing.backoff_ms, self._resume)

    def _resume(self) -> None:
        self._paused = False
        self.pump_soon()

    def _failed(self, instance_id: InstanceId) -> None:
        """If nothing of it is held, nothing was sent either: it is refused, and its keys are free for others. Otherwise
        it may still be decided, and is recovered at once: later commands of this replica wait for it."""
        if self._host.replica.log.get(instance_id).phase is not Phase.INITIAL:
            self._host.clock.call_later(0, partial(self._host.rescue, (instance_id,)))
            return
        flight = self._land(instance_id)
        if flight is not None:
            flight.failed(FAILED)
        self.pump_soon()

    def _land(self, instance_id: InstanceId) -> Flight | None:
        self.queue.finish_command(instance_id)
        return self.flights.pop(instance_id, None)

    def take_back(self, instance_id: InstanceId) -> None:
        """It was never begun, or became a Nop: its transactions are proposed again, under another id."""
        flight = self._land(instance_id)
        if flight is not None:
            self.queue.requeue(flight.tickets)
        self._host.clock.call_later(self._host.timing.backoff_ms, self.pump_soon)

    def executed(self, instance_id: InstanceId, results: Results) -> None:
        """A command of this replica."""
        if results is None:
            self.take_back(instance_id)
            return
        flight = self._land(instance_id)
        if flight is not None:
            self.executed_total += len(flight.tickets)
            gathering = self._gather(instance_id)
            self._store.when_durable(partial(self._answer, flight, results, gathering))
        if len(self.queue):
            self.pump_soon()

    def _gather(self, instance_id: InstanceId) -> KeyGathering | None:
        log = self._host.replica.log
        executed = log.get(instance_id)
        rival = rival_before(executed, log) if self._host.timing.turn_ms else None
        return self.queue.gather(executed, rival)

    def _answer(self, flight: Flight, results: list[Executed], gathering: KeyGathering | None) -> None:
        if gathering is not None:
            clock, took_ms = self._host.clock, self._host.clock.now_ms() - flight.begun_ms
            clock.call_later(min(GATHER_MS, took_ms * GATHER_SHARE), partial(self._gathered, gathering))
            if gathering.rival is not None:
                clock.call_later(min(self._host.timing.turn_ms, 2 * took_ms), partial(self._waited, gathering))
        flight.executed(results)

    def _gathered(self, gathering: KeyGathering) -> None:
        gathering.expected = 0
        self._end_gatherings()

    def _waited(self, gathering: KeyGathering) -> None:
        gathering.rival = None
        self._end_gatherings()

    def _end_gatherings(self) -> None:
        if self.queue.end_gatherings():
            self.pump_soon()

    def noticed(self, instance_id: InstanceId) -> None:
        """Another replica has proposed this. One that was refused here has no command that could be looked at."""
        if self.queue.notice(self._host.replica.log.get(instance_id)):
            self.pump_soon()

    def turned(self, *, is_member: bool) -> None:
        """The replica takes part in another way, and the flows were cancelled. What they had proposed stays in flight,
        and is executed or becomes a Nop; what they had not begun is queued again."""
        replica = self._host.replica
        if self.term == replica.number:
            for instance_id in [each for each in self.flights if replica.log.get(each).phase is Phase.INITIAL]:
                self.take_back(instance_id)
        if self.term != replica.number or not is_member:
            self.end_flights()
        self.follow_replica()
        if not is_member:
            for ticket in self.queue.drain():
                ticket.answered(TxnRefused(reason="this replica is no member any more"))

    def end_flights(self) -> None:
        """Flights belong to their term. A replica that comes to its end has executed all of them, or knows them as
        Nops; one that left earlier, or copied what the others had executed, will not learn what became of them."""
        left, self.flights = self.flights, {}
        self.term = self._host.replica.number
        self.queue.end_flights()
        for flight in left.values():
            flight.failed(LEFT)
