"""Runs the ordered engine: takes transactions, drives flows, recovers what is stuck, and throws away what is done.

Like `driver`, it has no event loop of its own: everything happens in callbacks, one at a time.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial

from epoxy.model.cluster import ClusterConfig
from epoxy.model.errors import InvariantViolation
from epoxy.model.instances import (
    Catchup,
    Closed,
    Command,
    Ended,
    InstanceId,
    InTerm,
    Missed,
    OrderedCommit,
    OrderedRequest,
    Phase,
    Seal,
    Sealed,
)
from epoxy.model.messages import Failed, Reply
from epoxy.model.transactions import Txn, TxnOutcome, TxnRefused, TxnUnknown, flaw_of
from epoxy.model.writes import Path
from epoxy.node.txn.catchup import CatchUp
from epoxy.node.txn.replica import OrderedReplica, Results
from epoxy.node.txn.terms import Terms
from epoxy.ports import Clock, Dice, Store, Timer, Transport
from epoxy.protocol.effects import Context, Local
from epoxy.protocol.txn.coordinator import CommandDecided, Ending, TooMuch, submit
from epoxy.protocol.txn.effects import Rescue, TxnOp, TxnTiming
from epoxy.protocol.txn.queue import MAX_QUEUED, Flight, Queue, QueuedTransaction
from epoxy.protocol.txn.recovery import recover
from epoxy.protocol.txn.terms import Part, close, last_slots
from epoxy.protocol.txn.votes import vote_broadcast
from epoxy.runtime.flow import Done, FlowFailures, FlowRunner

LOOKS = 4
"""How often in `recover_ms` it is looked whether something is stuck."""

PATIENCE = 4
"""What nobody waits for is recovered after so many `recover_ms`: only room is lost by it."""

RECOVERIES_AT_ONCE = 32
"""More would be in each other's way; the next look is soon."""

LOOKED_AT = 256
"""Undecided instances that one look considers."""


LEFT = TxnUnknown(reason="this replica left the members while it was under way; it may have taken effect")


class OrderedEngine:
    def __init__(
        self,
        me: int,
        store: Store,
        config: ClusterConfig | None,
        transport: Transport,
        clock: Clock,
        dice: Dice,
        alarm: Callable[[str], None],
    ) -> None:
        self.me = me
        self.replica = OrderedReplica(me, store, config)
        self.terms = Terms(self.replica, store, self)
        self.timing = TxnTiming()
        self.paths: Counter[Path] = Counter()
        self.transport = transport
        self.clock = clock
        self._store = store
        self._dice = dice
        self._alarm = alarm
        self.failures = FlowFailures(alarm)
        self._queue = Queue(len(self.replica.voters))
        self._flights: dict[InstanceId, Flight] = {}
        self._flights_term = self.replica.number
        """The term that all flights belong to, here and in the queue."""
        self._running: dict[InstanceId, FlowRunner[Ending | None] | FlowRunner[bool]] = {}
        self._closing: FlowRunner[Ended | Sealed | None] | None = None
        self._watchers: dict[InstanceId, list[Callable[[], None]]] = {}
        self._seen_ms: dict[InstanceId, float] = {}
        self._next_slot = self.replica.log.highest.get(me, 0) + 1
        self.catchup = CatchUp(self)
        self._turn = 0
        self._catchup_ms = 0.0
        self._timer: Timer | None = None
        self._awake = False
        self._looking = False
        self._pumping = False
        self._executing = False
        self._paused = False
        self._stopped = False
        self.replica.on_backlog = self._execute_soon
        self.replica.on_news = self._news
        self.replica.on_executed = self._executed

    def start(self) -> None:
        """What this replica had under way before a crash still counts as such, until it is executed or nothing."""
        log = self.replica.log
        for instance in log.instances.values():
            mine = instance.id.replica_id == self.me
            if mine and instance.command is not None and not log.is_executed(instance.id):
                self._queue.start_command(instance.id, instance.command)
        self.replica.start()
        self._wake_at_once()

    def stop(self) -> None:
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()

    def found(self, config: ClusterConfig) -> None:
        if self.replica.term is None:
            self.replica.found(config)
            self._queue.share(len(self.replica.voters))
            self._wake_at_once()

    @property
    def is_member(self) -> bool:
        return self.replica.part is not Part.OUT

    @property
    def in_flight(self) -> int:
        return len(self._flights) + len(self._queue)

    @property
    def is_open(self) -> bool:
        """Whether transactions that are asked for here are ordered at once. Not before one of the others has said how
        far it is: this replica may have missed a great deal, and be the last to know."""
        return self.replica.part is Part.OPEN and self._is_told and not self.catchup.is_far_behind

    @property
    def _is_told(self) -> bool:
        return self.catchup.is_known or not self.replica.others

    @property
    def state(self) -> str:
        """In a word, for status."""
        part = self.replica.part
        if part is not Part.OPEN or self.is_open:
            return part.value
        return "catching-up" if self.catchup.is_far_behind else "asking"

    @property
    def behind(self) -> int:
        return self.replica.behind

    @property
    def round_timeout_ms(self) -> float:
        return self.timing.round_timeout_ms

    def handle(self, message: InTerm) -> Reply:
        """From a peer. The reply is not to leave before it is durable."""
        if not self.is_member:
            return Failed(reason="no member: it does not order transactions")
        self._wake()
        if message.term != self.replica.number or self.replica.part is Part.WAITING:
            return self._handle_from_afar(message)
        try:
            reply = self.replica.handle(message.request)
        except InvariantViolation as violation:
            self._alarm(str(violation))
            raise
        self._tell_vote(message.request, reply)
        return reply

    def _tell_vote(self, request: object, reply: object) -> None:
        """Once it is durable."""
        told = vote_broadcast(self.me, self.replica.voters, request, reply)
        if told is not None:
            message = InTerm(term=self.replica.number, request=told.vote)
            self._store.when_durable(partial(self._told_vote, message, told.others))

    def _told_vote(self, message: InTerm, others: Iterable[int]) -> None:
        if message.term == self.replica.number:
            self.handle(message)
            for voter in others:
                self.transport.send(voter, (message,), unheeded)

    def _handle_from_afar(self, message: InTerm) -> Reply:
        """Said in another term, or in one that has not begun here: what was decided before can be told, and nothing
        else."""
        request, number = message.request, self.replica.number
        if isinstance(request, Seal) and (ended := self.terms.end_of(message.term)) is not None:
            return ended
        if isinstance(request, Catchup) and message.term < number:
            return self.replica.catch_up_later(message.term, request)
        return Closed(term=number)

    def txn(self, txn: Txn, answered: Callable[[TxnOutcome], None]) -> QueuedTransaction | None:
        """Answered when it has been executed here and that is durable. With the ticket it may be withdrawn; there is
        none if it was refused at once."""
        reason = flaw_of(txn) or self.refusal
        if reason is not None:
            answered(TxnRefused(reason=reason))
            return None
        ticket = QueuedTransaction(txn, answered)
        self._queue.add(ticket)
        self._wake()
        self._pump_soon()
        return ticket

    @property
    def refusal(self) -> str | None:
        """Why no transaction is taken now, whatever it is."""
        if not self.is_member:
            return "this replica is no member that orders transactions"
        if self.catchup.is_far_behind:
            return f"this replica missed {self.behind} decisions, and learns them; ask another"
        return f"{MAX_QUEUED} transactions are waiting already" if self._queue.is_full else None

    def withdraw(self, ticket: QueuedTransaction) -> bool:
        """Whether it was still waiting to be put forward, or again: then it never is, and never answered."""
        return self._queue.withdraw(ticket)

    def value(self, key: bytes) -> bytes | None:
        """What was executed here and is durable."""
        return self.replica.space.value(self._store.durable(), key)

    # Putting commands forward

    def _pump_soon(self) -> None:
        """What comes in at one moment goes out together."""
        if not self._pumping:
            self._pumping = True
            self.clock.call_later(0, self._pump)

    def _pump(self) -> None:
        self._pumping = False
        while not self._paused and self.is_open and (flight := self._queue.next()) is not None:
            instance_id = InstanceId(self.me, self._next_slot)
            self._next_slot += 1
            self._flights[instance_id] = flight
            self._queue.start_command(instance_id, flight.command)
            self._submit(instance_id, flight.command)

    def _submit(self, instance_id: InstanceId, command: Command) -> None:
        flow = submit(instance_id, command, self._context())
        run: FlowRunner[Ending | None] = FlowRunner(
            self, "transaction", flow, lambda _: None, partial(self._submitted, instance_id), self
        )
        self._running[instance_id] = run
        run.start()

    def _submitted(self, instance_id: InstanceId, ending: Ending | None) -> None:
        self._running.pop(instance_id, None)
        if isinstance(ending, CommandDecided):
            self.paths[ending.path] += 1
        elif isinstance(ending, TooMuch):
            self._pause(instance_id)
            self._take_back(instance_id)
        elif ending is None:
            self._failed(instance_id)

    def _pause(self, instance_id: InstanceId) -> None:
        """This replica is too far behind to put anything forward: at once it would only be refused again, and the loop
        would turn for ever. Nothing of the slot is held or was sent, so the next command has it: gaps would have to be
        recovered, one by one."""
        self._paused = True
        if self._next_slot == instance_id.slot + 1:
            self._next_slot = instance_id.slot
        self.clock.call_later(self.timing.backoff_ms, self._resume)

    def _resume(self) -> None:
        self._paused = False
        self._pump_soon()

    def _failed(self, instance_id: InstanceId) -> None:
        """Its flow raised. If nothing of it is held, nothing was sent either: it is refused, and its keys are free for
        others. Otherwise it may be decided yet, and is recovered at once, for what comes after it here waits for it."""
        if self.replica.log.get(instance_id).phase is not Phase.INITIAL:
            self.clock.call_later(0, partial(self.rescue, (instance_id,)))
            return
        self._queue.finish_command(instance_id)
        flight = self._flights.pop(instance_id, None)
        if flight is not None:
            flight.failed(
                TxnRefused(reason="it failed before it was put forward, by a fault of this node; see its log")
            )
        self._pump_soon()

    def _take_back(self, instance_id: InstanceId) -> None:
        """Never begun, or come to nothing: its transactions are put forward again, under another id."""
        self._queue.finish_command(instance_id)
        flight = self._flights.pop(instance_id, None)
        if flight is not None:
            self._queue.requeue(flight.tickets)
        self.clock.call_later(self.timing.backoff_ms, self._pump_soon)

    def _executed(self, instance_id: InstanceId, results: Results) -> None:
        self._seen_ms.pop(instance_id, None)
        if self.replica.ends is not None:
            self._look_soon()
        if instance_id.replica_id != self.me:
            return
        if results is None:
            self._take_back(instance_id)
            return
        self._queue.finish_command(instance_id)
        flight = self._flights.pop(instance_id, None)
        if flight is not None:
            self._store.when_durable(partial(flight.executed, results))
        if len(self._queue):
            self._pump_soon()

    # Recovering what is stuck

    def rescue(self, ids: tuple[InstanceId, ...]) -> None:
        for instance_id in ids:
            if len(self._running) >= RECOVERIES_AT_ONCE + len(self._flights):
                return
            decided = self.replica.log.get(instance_id).is_committed
            if instance_id not in self._running and not decided and self.replica.votes_on(instance_id):
                flow = recover(instance_id, self._context())
                run = FlowRunner(self, "recovery", flow, lambda _: False, partial(self._recovered, instance_id), self)
                self._running[instance_id] = run
                run.start()

    def _recovered(self, instance_id: InstanceId, _: bool) -> None:
        self._running.pop(instance_id, None)
        self._seen_ms.pop(instance_id, None)

    def _wake(self) -> None:
        """Somebody has to look after what is under way, and nobody needs to when all is done and forgotten."""
        if not self._awake:
            self._awake = True
            self._rest()

    def _wake_at_once(self) -> None:
        """To find out how far the others are."""
        if not self._awake:
            self._awake = True
            self._timer = self.clock.call_later(0, self._look)

    def _rest(self) -> None:
        self._timer = self.clock.call_later(self.timing.recover_ms / LOOKS * (0.5 + self._dice.uniform()), self._look)

    def _look(self) -> None:
        """Now and then: what is stuck, what was missed, what may go?"""
        is_done = self.replica.is_idle and self._is_told and not self.catchup.is_far_behind
        if self._stopped or not self.is_member or is_done:
            self._awake = False
            return
        try:
            self._look_after()
        finally:
            self._rest()

    def _look_after(self) -> None:
        now_ms, recover_ms = self.clock.now_ms(), self.timing.recover_ms
        if not self.catchup.is_under_way:
            self._recover_stuck(now_ms, recover_ms)
        if now_ms >= self._catchup_ms or self.replica.is_behind or not self._is_told:
            self._catchup_ms = now_ms + self.timing.catchup_ms
            self._catch_up()
        self.terms.look()

    def _recover_stuck(self, now_ms: float, recover_ms: float) -> None:
        for instance_id in self.replica.undecided(LOOKED_AT):
            since_ms = self._seen_ms.setdefault(instance_id, now_ms)
            if now_ms - since_ms >= self._patience(instance_id) * recover_ms:
                self.rescue((instance_id,))

    def _patience(self, instance_id: InstanceId) -> int:
        """None, when a term ends: everybody waits for everything that counts."""
        if self.replica.is_behind:
            return 0
        return 1 if self.replica.waits_for(instance_id) else PATIENCE

    def _catch_up(self) -> None:
        """Ask one of the others; all hear in turn how far this replica has come."""
        self._forget()
        self.replica.forget_earlier()
        others = self.replica.others
        if others and self.is_member:
            self._turn += 1
            self._ask_missed(others[self._turn % len(others)])

    def _forget(self) -> None:
        """All that everybody has executed, some in each turn of the event loop."""
        if not self._stopped and (self.replica.forget() or self.replica.shelve()):
            self.clock.call_later(0, self._forget)

    def _ask_missed(self, to: int) -> None:
        """While pages come from somebody else, the question only says how far this replica is."""
        log = self.replica.log
        self.ask(to, log.known() if not self.catchup.is_under_way else last_slots(log))

    def ask(self, to: int, known: tuple[InstanceId, ...]) -> None:
        """What it says was executed is thrown away by others, so it must be durable, and nothing later be said."""
        number = self.replica.number
        request = Catchup(sender=self.me, executed=self.replica.log.floors(), known=known)
        message = InTerm(term=number, request=request)
        heard = partial(self._missed, to, number, known)
        self._store.when_durable(partial(self.transport.send, to, (message,), heard))

    def _missed(self, sender: int, number: int, known: tuple[InstanceId, ...], reply: Reply) -> None:
        if not isinstance(reply, Missed) or number != self.replica.number or not self.is_member:
            return
        self.replica.arrived(sender)
        self.replica.reached(sender, reply.executed)
        was_told = self._is_told
        self.catchup.took(sender, known, reply)
        if not was_told:
            self._pump_soon()

    def learn(self, commit: OrderedCommit) -> None:
        if self.is_member:
            self.handle(InTerm(term=self.replica.number, request=commit))

    def caught_up(self) -> None:
        self._pump_soon()

    def _execute_soon(self) -> None:
        if not self._executing:
            self._executing = True
            self.clock.call_later(0, self._execute_more)

    def _execute_more(self) -> None:
        self._executing = False
        if self.is_member and not self._stopped:
            self.replica.execute_some()

    # From one term to the next

    def adopt(self, config: ClusterConfig) -> None:
        """On every change of the configuration, and before the start."""
        self.terms.adopt(config)

    def turned(self) -> None:
        """Flows end when this replica takes part in another way: what they know may not be true any more. What they
        have put forward stays in flight, and is executed or comes to nothing; what they have not begun waits."""
        for run in self._running.values():
            run.stop()
        self._running.clear()
        if self._closing is not None:
            self._closing.stop()
            self._closing = None
        self._seen_ms.clear()
        self.catchup.turned()
        if self._flights_term == self.replica.number:
            for instance_id in [each for each in self._flights if self.replica.log.get(each).phase is Phase.INITIAL]:
                self._take_back(instance_id)
        if self._flights_term != self.replica.number or not self.is_member:
            self._end_flights()
        self._next_slot = self.replica.log.highest.get(self.me, 0) + 1
        self._queue.share(len(self.replica.voters))
        if not self.is_member:
            for ticket in self._queue.drain():
                ticket.answered(TxnRefused(reason="this replica is no member any more"))
        self._wake()
        self._look_soon()
        self._pump_soon()

    def _end_flights(self) -> None:
        """Flights belong to their term. Who goes through its end has executed all of them or knows that they came to
        nothing; who left before it, or copied what the others made of it, learns of none of them any more."""
        left, self._flights = self._flights, {}
        self._flights_term = self.replica.number
        self._queue.end_flights()
        for flight in left.values():
            flight.failed(LEFT)

    def _look_soon(self) -> None:
        """Soon and not at once: members that hear of the same thing at the same time should not all begin."""
        if not self._looking:
            self._looking = True
            self.clock.call_later(self.timing.backoff_ms * self._dice.uniform(), self._look_ahead)

    def _look_ahead(self) -> None:
        self._looking = False
        if not self._stopped:
            self.terms.look()

    def run_close(self, done: Callable[[Ended | Sealed | None], None]) -> None:
        self._closing = FlowRunner(self, "term_end", close(self._context()), lambda _: None, done, self)
        self._closing.start()

    # Flows

    def watch(self, ids: tuple[InstanceId, ...], tell: Callable[[], None]) -> None:
        for instance_id in ids:
            self._watchers.setdefault(instance_id, []).append(tell)

    def unwatch(self, ids: tuple[InstanceId, ...], tell: Callable[[], None]) -> None:
        for instance_id in ids:
            watchers = self._watchers.get(instance_id, [])
            if tell in watchers:
                watchers.remove(tell)
            if not watchers:
                self._watchers.pop(instance_id, None)

    def _news(self, instance_id: InstanceId) -> None:
        for tell in self._watchers.get(instance_id, ()):
            self.clock.call_later(0, tell)

    def perform(self, effect: Local[TxnOp] | Rescue, done: Done) -> None:
        if isinstance(effect, Local):
            self._perform_local(effect.op, done)
        else:
            self.rescue(effect.ids)
            done(None)

    def _perform_local(self, op: TxnOp, done: Done) -> None:
        result = self.replica.perform(op)
        self._tell_vote(op, result)
        self._store.when_durable(partial(done, result))

    def alarm(self, text: str) -> None:
        self._alarm(text)

    def send(self, to: int, request: OrderedRequest, answered: Callable[[Reply], None] | None) -> None:
        self.transport.send(to, (InTerm(term=self.replica.number, request=request),), answered)

    def _context(self) -> Context:
        return Context(me=self.me, config=self.replica.members, dice=self._dice, timing=self.timing)


def unheeded(_: Reply) -> None:
    """For what must leave at once although its answer says nothing: with no callback at all it may wait for others."""
