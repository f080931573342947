"""The ordered engine of one replica: hosts its flows, recovers instances that are stuck, and learns those it missed.

It has no event loop of its own: everything happens in callbacks, one at a time.
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
    PreAccept,
    Seal,
    Sealed,
)
from epoxy.model.messages import Failed, Reply
from epoxy.model.transactions import OrderedValue, Txn, TxnOutcome, TxnRefused, flaw_of
from epoxy.model.writes import Path
from epoxy.node.txn.catchup import CatchUp
from epoxy.node.txn.executor import Results
from epoxy.node.txn.replica import OrderedReplica
from epoxy.node.txn.submission import Submissions
from epoxy.node.txn.terms import Terms
from epoxy.ports import Clock, Dice, Store, Timer, Transport
from epoxy.protocol.effects import Context, Local
from epoxy.protocol.txn.coordinator import CommandDecided, Ending, submit
from epoxy.protocol.txn.effects import Rescue, TxnOp, TxnTiming
from epoxy.protocol.txn.queue import MAX_QUEUED, Flight, QueuedTransaction
from epoxy.protocol.txn.recovery import recover
from epoxy.protocol.txn.terms import Part, close, last_slots
from epoxy.protocol.txn.votes import vote_broadcast
from epoxy.runtime.flow import Done, FlowFailures, FlowRunner

LOOKS = 4
"""Checks for stuck instances per `recover_ms`."""

PATIENCE = 4
"""An instance on which no decided one depends is recovered after so many `recover_ms`: it only takes room."""

RECOVERIES_AT_ONCE = 32
"""More would collide with each other; the next check is soon."""

LOOKED_AT = 256
"""Undecided instances that one check considers."""


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
        self.alarm = alarm
        self.failures = FlowFailures(alarm)
        self.submissions = Submissions(self, store)
        self._running: dict[InstanceId, FlowRunner[Ending | None] | FlowRunner[bool]] = {}
        self._closing: FlowRunner[Ended | Sealed | None] | None = None
        self._watchers: dict[InstanceId, list[Callable[[], None]]] = {}
        self._seen_ms: dict[InstanceId, float] = {}
        self.catchup = CatchUp(self)
        self._turn = 0
        self._catchup_ms = 0.0
        self._timer: Timer | None = None
        self._awake = False
        self._looking = False
        self._executing = False
        self._stopped = False
        self.replica.on_backlog = self._execute_soon
        self.replica.on_news = self._news
        self.replica.on_executed = self._executed

    def start(self) -> None:
        self.submissions.restore()
        self.replica.start()
        self._wake_at_once()

    def stop(self) -> None:
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()

    def found(self, config: ClusterConfig) -> None:
        if self.replica.term is None:
            self.replica.found(config)
            self.submissions.follow_replica()
            self._wake_at_once()

    @property
    def is_member(self) -> bool:
        return self.replica.part is not Part.OUT

    @property
    def in_flight(self) -> int:
        return len(self.submissions.flights) + len(self.submissions.queue)

    @property
    def is_open(self) -> bool:
        """Whether this replica proposes commands. Not before another one has told how far it has executed: this one may
        have missed a great deal without knowing it."""
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
        """A request of a peer. The caller sends the reply when the store is durable."""
        if not self.is_member:
            return Failed(reason="no member: it does not order transactions")
        self.wake()
        if message.term != self.replica.number or self.replica.part is Part.WAITING:
            return self._handle_other_term(message)
        try:
            reply = self.replica.handle(message.request)
        except InvariantViolation as violation:
            self.alarm(str(violation))
            raise
        self._tell_vote(message.request, reply)
        if self.submissions.queue.is_gathering and isinstance(message.request, PreAccept):
            self.submissions.noticed(message.request.id)
        return reply

    def _tell_vote(self, request: object, reply: object) -> None:
        """To the other voters, when it is durable."""
        told = vote_broadcast(self.me, self.replica.voters, request, reply)
        if told is not None:
            message = InTerm(term=self.replica.number, request=told.vote)
            self._store.when_durable(partial(self._told_vote, message, told.others))

    def _told_vote(self, message: InTerm, others: Iterable[int]) -> None:
        if message.term == self.replica.number:
            self.handle(message)
            for voter in others:
                self.transport.send(voter, (message,), unheeded)

    def _handle_other_term(self, message: InTerm) -> Reply:
        """Of a request in another term, or in one that has not begun here: only earlier decisions can be answered."""
        request, number = message.request, self.replica.number
        if isinstance(request, Seal) and (ended := self.terms.end_of(message.term)) is not None:
            return ended
        if isinstance(request, Catchup) and message.term < number:
            return self.replica.catch_up_later(message.term, request)
        return Closed(term=number)

    def txn(self, txn: Txn, answered: Callable[[TxnOutcome], None]) -> QueuedTransaction | None:
        """Answered when it was executed here and that is durable. With the ticket it can be withdrawn; None if it was
        refused at once."""
        reason = flaw_of(txn) or self.refusal
        if reason is not None:
            answered(TxnRefused(reason=reason))
            return None
        self.wake()
        return self.submissions.add(txn, answered)

    @property
    def refusal(self) -> str | None:
        """Why every transaction is refused now; None: it is not."""
        if not self.is_member:
            return "this replica is no member that orders transactions"
        if self.catchup.is_far_behind:
            return f"this replica missed {self.behind} decisions, and learns them; ask another"
        return f"{MAX_QUEUED} transactions are waiting already" if self.submissions.queue.is_full else None

    def withdraw(self, ticket: QueuedTransaction) -> bool:
        """Whether it was still in the queue. Then it is never proposed, and never answered."""
        return self.submissions.queue.withdraw(ticket)

    def held(self, key: bytes) -> OrderedValue:
        """As far as transactions were executed here and are durable."""
        return self.replica.space.held(self._store.durable(), key)

    def submit(self, instance_id: InstanceId, command: Command) -> None:
        flow = submit(instance_id, command, self._context())
        flight = self.submissions.flights.get(instance_id)
        runner: FlowRunner[Ending | None] = FlowRunner(
            self, "transaction", flow, lambda _: None, partial(self._submitted, instance_id, flight), self
        )
        self._running[instance_id] = runner
        runner.start()

    def _submitted(self, instance_id: InstanceId, flight: Flight | None, ending: Ending | None) -> None:
        """The transactions of the flight are answered by now, mostly: a command is executed when it is decided."""
        self._running.pop(instance_id, None)
        if isinstance(ending, CommandDecided):
            self.paths[ending.path] += 1
            if flight is not None:
                flight.decided(ending.path)
        self.submissions.ended(instance_id, ending)

    def _executed(self, instance_id: InstanceId, results: Results) -> None:
        self._seen_ms.pop(instance_id, None)
        if self.replica.ends is not None:
            self._look_soon()
        if instance_id.replica_id == self.me:
            self.submissions.executed(instance_id, results)

    # Recovery and catching up

    def rescue(self, ids: tuple[InstanceId, ...]) -> None:
        for instance_id in ids:
            if len(self._running) >= RECOVERIES_AT_ONCE + len(self.submissions.flights):
                return
            decided = self.replica.log.get(instance_id).is_committed
            if instance_id not in self._running and not decided and self.replica.votes_on(instance_id):
                flow = recover(instance_id, self._context())
                runner = FlowRunner(
                    self, "recovery", flow, lambda _: False, partial(self._recovered, instance_id), self
                )
                self._running[instance_id] = runner
                runner.start()

    def _recovered(self, instance_id: InstanceId, _: bool) -> None:
        self._running.pop(instance_id, None)
        self._seen_ms.pop(instance_id, None)

    def wake(self) -> None:
        """Check from time to time, as long as anything is undecided, missed or not forgotten."""
        if not self._awake:
            self._awake = True
            self._rest()

    def _wake_at_once(self) -> None:
        """To learn how far the others have executed."""
        if not self._awake:
            self._awake = True
            self._timer = self.clock.call_later(0, self._look)

    def _rest(self) -> None:
        self._timer = self.clock.call_later(self.timing.recover_ms / LOOKS * (0.5 + self._dice.uniform()), self._look)

    def _look(self) -> None:
        """Recover what is stuck, ask for what was missed, forget what all have executed."""
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
        """In `recover_ms`. None at the end of a term: the next one begins when all that counts is executed."""
        if self.replica.is_behind:
            return 0
        return 1 if self.replica.waits_for(instance_id) else PATIENCE

    def _catch_up(self) -> None:
        """Ask one of the others, and with it tell how far this replica has executed: each in turn."""
        self._forget()
        self.replica.forget_earlier()
        others = self.replica.others
        if others and self.is_member:
            self._turn += 1
            self._ask_missed(others[self._turn % len(others)])

    def _forget(self) -> None:
        """What all voters have executed, a part in each turn of the event loop."""
        if not self._stopped and (self.replica.forget() or self.replica.shelve()):
            self.clock.call_later(0, self._forget)

    def _ask_missed(self, to: int) -> None:
        """While another replica sends pages, ask for none: only tell how far this replica has executed."""
        log = self.replica.log
        self.ask(to, log.known() if not self.catchup.is_under_way else last_slots(log))

    def ask(self, to: int, known: tuple[InstanceId, ...]) -> None:
        """Others forget what this message says was executed here, so it leaves when that is durable, and says no
        more than that."""
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
            self.submissions.pump_soon()

    def learn(self, commit: OrderedCommit) -> None:
        if self.is_member:
            self.handle(InTerm(term=self.replica.number, request=commit))

    def caught_up(self) -> None:
        self.submissions.pump_soon()

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
        """Cancel all flows when this replica takes part in another way: what they know may not be true any more."""
        for runner in self._running.values():
            runner.stop()
        self._running.clear()
        if self._closing is not None:
            self._closing.stop()
            self._closing = None
        self._seen_ms.clear()
        self.catchup.turned()
        self.submissions.turned(is_member=self.is_member)
        self.wake()
        self._look_soon()
        self.submissions.pump_soon()

    def _look_soon(self) -> None:
        """After a random delay: members that learn the same thing at the same time should not all begin at once."""
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

    def send(self, to: int, request: OrderedRequest, answered: Callable[[Reply], None] | None) -> None:
        self.transport.send(to, (InTerm(term=self.replica.number, request=request),), answered)

    def _context(self) -> Context:
        return Context(me=self.me, config=self.replica.members, dice=self._dice, timing=self.timing)


def unheeded(_: Reply) -> None:
    """The callback for messages that must leave at once: without one, the transport may delay them to batch them."""
