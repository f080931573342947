"""Runs the ordered engine: takes transactions, drives flows, recovers what is stuck, and throws away what is done.

Like `driver`, it has no event loop of its own: everything happens in callbacks, one at a time.
"""

from collections import Counter, deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Generic, TypeVar, assert_never

from epoxy.model.cluster import ClusterConfig
from epoxy.model.errors import InvariantViolation, StoreFailed
from epoxy.model.messages import Failed, Reply
from epoxy.model.ordered import Catchup, Closed, Command, InstanceId, InTerm, Missed, OrderedRequest
from epoxy.model.transactions import Txn, TxnOutcome, TxnRefused, flaw_of
from epoxy.model.writes import Path
from epoxy.node.ordered_replica import OrderedReplica, Results
from epoxy.ordered.coordinator import Ending, Settled, TooMuch, submit
from epoxy.ordered.effects import (
    Also,
    Answer,
    Context,
    Effect,
    Event,
    Expired,
    Flow,
    Home,
    News,
    Next,
    Open,
    Pause,
    Rescue,
    Tell,
    Timing,
)
from epoxy.ordered.queue import MAX_QUEUED, Flight, Queue, Ticket
from epoxy.ordered.recovery import recover
from epoxy.ports import Clock, Dice, Store, Timer, Transport

T = TypeVar("T")

TERM = 0
"""Members do not change under this engine yet, so there is one term."""

LOOKS = 4
"""How often in `recover_ms` it is looked whether something is stuck."""

PATIENCE = 4
"""What nobody waits for is recovered after so many `recover_ms`: only room is lost by it."""

RECOVERIES_AT_ONCE = 32
"""More would be in each other's way; the next look is soon."""

LOOKED_AT = 256
"""Undecided instances that one look considers."""


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
        self.timing = Timing()
        self.paths: Counter[Path] = Counter()
        self.transport = transport
        self.clock = clock
        self._store = store
        self._dice = dice
        self._alarm = alarm
        self._queue = Queue(max(1, len(self.replica.voters)))
        self._flights: dict[InstanceId, Flight] = {}
        self._running: set[InstanceId] = set()
        self._watchers: dict[InstanceId, list[Callable[[], None]]] = {}
        self._seen_ms: dict[InstanceId, float] = {}
        self._next_slot = self.replica.log.highest.get(me, 0) + 1
        self._turn = 0
        self._catchup_ms = 0.0
        self._awake = False
        self._pumping = False
        self._stopped = False
        self.replica.on_news = self._news
        self.replica.on_executed = self._executed

    def start(self) -> None:
        """What this replica had under way before a crash still counts as such, until it is executed or nothing."""
        log = self.replica.log
        for instance in log.instances.values():
            mine = instance.id.replica_id == self.me
            if mine and instance.command is not None and not log.is_executed(instance.id):
                self._queue.took_off(instance.id, instance.command)
        self.replica.start()
        if log.instances:
            self._wake()

    def stop(self) -> None:
        self._stopped = True

    def found(self, config: ClusterConfig) -> None:
        if self.replica.founders is None:
            self.replica.found(config)
            self._queue = Queue(max(1, len(self.replica.voters)))

    @property
    def is_member(self) -> bool:
        return self.me in self.replica.voters

    @property
    def in_flight(self) -> int:
        return len(self._flights) + len(self._queue)

    def handle(self, message: InTerm) -> Reply:
        """From a peer. The reply is not to leave before it is durable."""
        if not self.is_member:
            return Failed(reason="no founder: it does not order transactions")
        self._wake()
        if message.term != TERM:
            return Closed(term=TERM)
        try:
            return self.replica.handle(message.request)
        except InvariantViolation as violation:
            self._alarm(str(violation))
            raise

    def txn(self, txn: Txn, answered: Callable[[TxnOutcome], None]) -> None:
        """Answered when it has been executed here and that is durable."""
        flaw = flaw_of(txn)
        if flaw is not None:
            answered(TxnRefused(reason=flaw))
        elif not self.is_member:
            answered(TxnRefused(reason="this replica was no member when transactions began, and does not order them"))
        elif self._queue.is_full:
            answered(TxnRefused(reason=f"{MAX_QUEUED} transactions are waiting already"))
        else:
            self._queue.add(Ticket(txn, answered))
            self._wake()
            self._pump_soon()

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
        while (flight := self._queue.next()) is not None:
            instance_id = InstanceId(self.me, self._next_slot)
            self._next_slot += 1
            self._flights[instance_id] = flight
            self._queue.took_off(instance_id, flight.command)
            self._submit(instance_id, flight.command)

    def _submit(self, instance_id: InstanceId, command: Command) -> None:
        self._running.add(instance_id)
        flow = submit(instance_id, command, self._context())
        Run(self, flow, partial(self._submitted, instance_id)).start()

    def _submitted(self, instance_id: InstanceId, ending: Ending) -> None:
        self._running.discard(instance_id)
        if isinstance(ending, Settled):
            self.paths[ending.path] += 1
        elif isinstance(ending, TooMuch):
            self._take_back(instance_id)

    def _take_back(self, instance_id: InstanceId) -> None:
        """Never begun, or come to nothing: its transactions are put forward again, under another id."""
        self._queue.landed(instance_id)
        flight = self._flights.pop(instance_id, None)
        if flight is not None:
            self._queue.again(flight.tickets)
        self.clock.call_later(self.timing.backoff_ms, self._pump_soon)

    def _executed(self, instance_id: InstanceId, results: Results) -> None:
        self._seen_ms.pop(instance_id, None)
        if instance_id.replica_id != self.me:
            return
        if results is None:
            self._take_back(instance_id)
            return
        self._queue.landed(instance_id)
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
            if instance_id not in self._running and not self.replica.log.get(instance_id).is_committed:
                self._running.add(instance_id)
                Run(self, recover(instance_id, self._context()), partial(self._recovered, instance_id)).start()

    def _recovered(self, instance_id: InstanceId, _: bool) -> None:
        self._running.discard(instance_id)
        self._seen_ms.pop(instance_id, None)

    def _wake(self) -> None:
        """Somebody has to look after what is under way, and nobody needs to when all is done and forgotten."""
        if not self._awake:
            self._awake = True
            self._rest()

    def _rest(self) -> None:
        self.clock.call_later(self.timing.recover_ms / LOOKS * (0.5 + self._dice.uniform()), self._look)

    def _look(self) -> None:
        """Now and then: what is stuck, what was missed, what may go?"""
        if self._stopped or self.replica.is_idle:
            self._awake = False
            return
        now_ms, recover_ms = self.clock.now_ms(), self.timing.recover_ms
        for instance_id in self.replica.undecided(LOOKED_AT):
            since_ms = self._seen_ms.setdefault(instance_id, now_ms)
            patience = 1 if self.replica.waits_for(instance_id) else PATIENCE
            if now_ms - since_ms >= patience * recover_ms:
                self.rescue((instance_id,))
        if now_ms >= self._catchup_ms:
            self._catchup_ms = now_ms + self.timing.catchup_ms
            self._catch_up()
        self._rest()

    def _catch_up(self) -> None:
        """Ask one of the others; all hear in turn how far this replica has come."""
        self.replica.forget()
        others = [voter for voter in self.replica.voters if voter != self.me]
        if others and self.is_member:
            self._turn += 1
            self._ask_missed(others[self._turn % len(others)])

    def _ask_missed(self, to: int) -> None:
        """What it says was executed is thrown away by others, so it must be durable, and nothing later be said."""
        executed = self.replica.log.floors()
        request = Catchup(sender=self.me, executed=executed, known=executed)
        self._store.when_durable(partial(self.send, to, request, partial(self._missed, to)))

    def send(self, to: int, request: OrderedRequest, answered: Callable[[Reply], None] | None) -> None:
        self.transport.send(to, (InTerm(term=TERM, request=request),), answered)

    def _missed(self, sender: int, reply: Reply) -> None:
        if not isinstance(reply, Missed):
            return
        self.replica.reached(sender, reply.executed)
        before = self.replica.log.floors()
        for commit in reply.commits:
            self.handle(InTerm(term=TERM, request=commit))
        if reply.more and self.replica.log.floors() != before:
            self._ask_missed(sender)

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

    def perform(self, effect: Home, done: Callable[[object], None]) -> None:
        result = self.replica.perform(effect.op)
        self._store.when_durable(partial(done, result))

    def alarm(self, text: str) -> None:
        self._alarm(text)

    def _context(self) -> Context:
        assert self.replica.founders is not None, "nothing is put forward before it is known who decides"
        return Context(me=self.me, config=self.replica.founders, dice=self._dice, timing=self.timing)


class Run(Generic[T]):
    """One flow on its way. Results that arrive while it is running wait in line, so it is never re-entered."""

    def __init__(self, engine: OrderedEngine, flow: Flow[T], finished: Callable[[T], None]) -> None:
        self._engine = engine
        self._flow = flow
        self._finished = finished
        self._results: deque[object] = deque()
        self._events: deque[Event] = deque()
        self._round = 0
        self._timer: Timer | None = None
        self._pumping = False
        self._waiting = False
        self._watching: tuple[InstanceId, ...] = ()

    def start(self) -> None:
        self._feed(None)

    def news(self) -> None:
        if self._watching:
            self._happened(self._round, News())

    def _feed(self, result: object) -> None:
        self._results.append(result)
        if self._pumping:
            return
        self._pumping = True
        try:
            while self._results:
                self._perform(self._flow.send(self._results.popleft()))
        except StopIteration as stop:
            self._close()
            self._finished(stop.value)
        except InvariantViolation as violation:
            self._close()
            self._engine.alarm(str(violation))
        except StoreFailed:
            raise
        finally:
            self._pumping = False

    def _perform(self, effect: Effect) -> None:
        engine = self._engine
        match effect:
            case Next():
                self._watch(effect.watching)
                if self._events:
                    self._results.append(self._events.popleft())
                else:
                    self._waiting = True
            case Home():
                engine.perform(effect, self._feed)
            case Pause():
                engine.clock.call_later(effect.delay_ms, partial(self._feed, None))
            case _:
                self._perform_at_once(effect)
                self._results.append(None)

    def _perform_at_once(self, effect: Open | Also | Tell | Rescue) -> None:
        match effect:
            case Open():
                self._close()
                self._send(effect.envelopes)
                self._start_timer(effect.timer_ms)
            case Also():
                self._send(effect.envelopes)
                self._start_timer(effect.timer_ms)
            case Tell():
                for to, request in effect.envelopes.items():
                    self._engine.send(to, request, None)
            case Rescue():
                self._engine.rescue(effect.ids)
            case _:
                assert_never(effect)

    def _close(self) -> None:
        self._round += 1
        self._events.clear()
        self._watch(())
        self._stop_timer()

    def _watch(self, ids: tuple[InstanceId, ...]) -> None:
        if ids != self._watching:
            self._engine.unwatch(self._watching, self.news)
            self._watching = ids
            self._engine.watch(ids, self.news)

    def _start_timer(self, delay_ms: float) -> None:
        self._stop_timer()
        self._timer = self._engine.clock.call_later(delay_ms, partial(self._happened, self._round, Expired()))

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _send(self, envelopes: Mapping[int, OrderedRequest]) -> None:
        for to, request in envelopes.items():
            self._engine.send(to, request, partial(self._answered, self._round, to))

    def _answered(self, round_number: int, sender: int, reply: Reply) -> None:
        self._happened(round_number, Answer(sender, reply))

    def _happened(self, round_number: int, event: Event) -> None:
        if round_number != self._round:
            return
        if self._waiting:
            self._waiting = False
            self._feed(event)
        else:
            self._events.append(event)
