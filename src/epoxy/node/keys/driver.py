"""The per-key engine of one replica: queues the writes of a key, and hosts the flows of writes and reads."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import chain

from epoxy.codec.plain_requests import PlainRequest
from epoxy.model.messages import Accept, Carry, CarryAnswer, CarryAnswers, CarryOk, CarryRequest, Reply
from epoxy.model.records import KeyState, Proposal
from epoxy.model.strings import Evaluated, Register, Steps
from epoxy.model.writes import (
    ConsensusFailed,
    Consistency,
    Outcome,
    Path,
    ReadAnswer,
    ReadFailed,
    ReadOutcome,
    ReadResult,
    Refused,
    Write,
)
from epoxy.node.keys.carry_numbers import CarryNumbers
from epoxy.node.keys.direct_round import RoundPlan
from epoxy.node.keys.key_queue import KeyQueue
from epoxy.node.keys.leases import Leases, end_of
from epoxy.node.keys.owners import Owners
from epoxy.node.keys.plain_write import PlainWrite, PlainWrites
from epoxy.node.keys.queued_write import AT_ANY_TIME, QueuedWrite, Turn
from epoxy.node.keys.quiet_read import QuietRead
from epoxy.node.keys.recent_writers import RecentWriters
from epoxy.node.keys.replica import Replica
from epoxy.node.keys.single_write import SingleWrite
from epoxy.node.keys.stale_keys import StaleKeys
from epoxy.node.observer import Observer, Unobserved
from epoxy.ports import Clock, Dice, OwnerRoutes, SendEncoded, Transport
from epoxy.protocol.effects import Context, Local, Pause, Timing
from epoxy.protocol.keys import reader
from epoxy.protocol.keys.carrying import answer_to, in_messages, is_declined, place, unpacked, was_taken_by_none
from epoxy.protocol.keys.effects import Effect, Flow, Requests
from epoxy.protocol.keys.evaluation import Evaluation
from epoxy.protocol.keys.folding import ABSENT, answer_found
from epoxy.protocol.keys.operations import PendingWrite
from epoxy.protocol.keys.proposer import FoldIntent, new_proposal_id
from epoxy.protocol.keys.restoring import highest_seen, read_from_others
from epoxy.runtime.flow import Done, FlowFailures, FlowRunner

CARRY_HEDGES = 4
"""A Carry is hedged like a round, but waits for the round under way at the owner, and for its own."""


LEAST_CARRY_MS = 1_000.0
"""A busy owner is not a silent one: what is taken back too early is folded twice, and costs both."""


LEAST_SILENCE_MS = 250.0
"""An event loop or a disk may stand still for as long."""


class FoldCounts:
    """Since the process began. `folds`: rounds decided for several writes at once, or for writes of other replicas;
    `folded`: the writes in them. `carried`: writes handed to an owner, `taken_back`: those proposed here after all;
    `received`: writes that other replicas handed to this one, `declined`: those it did not take."""

    def __init__(self) -> None:
        self.folds = self.folded = 0
        self.carried = self.taken_back = 0
        self.received = self.declined = 0


class Driver:
    def __init__(
        self,
        replica: Replica,
        transport: Transport,
        clock: Clock,
        dice: Dice,
        timing: Timing,
        alarm: Callable[[str], None],
    ) -> None:
        self.replica = replica
        self.transport = transport
        self.clock = clock
        self._dice = dice
        self.timing = timing
        self.failures = FlowFailures(alarm)
        self.observer: Observer = Unobserved()
        self.routes: OwnerRoutes | None = None
        """To the owners of keys inside a datacenter of several nodes; None: there is one, and all keys are its own."""
        self.silence: Callable[[], None] = lambda: None
        """Called when the nearest quorum has not answered a read in time: the next reads should ask others."""
        self.sampled: Callable[[Write, Callable[[Outcome], None]], Callable[[Outcome], None]] | None = None
        """Takes each write and returns where its outcome goes instead, while commits are sampled."""
        self.plain: PlainWrites | None = None
        """None: no request leaves encoded, and all writes go by the rules alone."""
        self._forgetful = False
        self.fast_rounds_wait_for: Callable[[], list[int]] = list
        """Replicas that must answer this start before its own writes take the fast round."""
        self._plan: RoundPlan | None = None
        self._queues: dict[bytes, KeyQueue | SingleWrite] = {}
        self._reads: Counter[bytes] = Counter()
        """Of keys that another node may get."""
        self._sleepers: dict[bytes, list[tuple[int, Callable[[], None]]]] = {}
        self.owners = Owners(replica.me)
        self.counts = FoldCounts()
        self.numbers = CarryNumbers(dice)
        self.is_leaving = False
        """This process is about to end: it takes over no more writes of other homes, which fold them themselves."""
        self.writers = RecentWriters(clock)
        self.leases = Leases(self)
        self.stale_keys = StaleKeys(clock)
        self.evaluate: Callable[[Steps, Register], Evaluated] = no_commands
        """Runs the steps of a write."""
        replica.short_watchers.append((self._committed, self._committed_plain))
        replica.carried = self._carried
        replica.refused = self._refused
        replica.queued = self._queued

    def write(self, write: Write, answered: Callable[[Outcome], None], turn: Turn = AT_ANY_TIME) -> None:
        """What waits for a round of the same key becomes the next fold. `turn` says whether a write that had to wait
        may still begin."""
        if self.routes is not None and not self.routes.is_mine(write.key):
            self.routes.write(write, answered)
            return
        if self.sampled is not None:
            answered = self.sampled(write, answered)
        key, plan, now_ms = write.key, self.plan(), self.clock.now_ms()
        pending = self.pending(write)
        if self.leases.over_version(key):
            self._end_first(key)
        is_first = key not in self._queues
        if is_first and not self.owners.concern(key):
            plain = self.plain
            if plain is not None and plain.takes(write):
                single: SingleWrite = PlainWrite(self, pending, plan, now_ms, answered, turn, plain)
            else:
                single = SingleWrite(self, pending, plan, now_ms, answered, turn)
            self._queues[key] = single
            single.start()
            return
        queue, entry = self._queue_of(key), QueuedWrite(pending, now_ms, answered, turn)
        if is_first:
            queue.first(entry)
        elif not queue.add(entry):
            answered(queue.refusal)

    def encode_writes(self, send: SendEncoded, may_send: Callable[[], bool]) -> None:
        """Plain writes are made of their bytes from now on, which leave through `send`."""
        self.plain = PlainWrites(self, send, may_send)

    def pending(self, write: Write) -> PendingWrite:
        """With an id, and with what evaluates its steps."""
        pending = PendingWrite(write=write, proposal_id=new_proposal_id(write, self.plan().ctx))
        if write.steps is not None:
            pending.evaluation = Evaluation(write.steps, partial(self._evaluate, write.key))
        return pending

    def _end_first(self, key: bytes) -> None:
        """The value of this key is over by this replica's count: the decision that it is comes before the next write,
        in the same fold."""
        version = self.leases.over_version(key)
        write, plan = end_of(key, version), self.plan()
        pending = PendingWrite(write=write, proposal_id=new_proposal_id(write, plan.ctx))
        taken = self.leases.put_in_front(key, version)
        queue = self._queue_of(key)
        if not queue.add(QueuedWrite(pending, self.clock.now_ms(), taken)):
            taken(queue.refusal)

    def _evaluate(self, key: bytes, steps: Steps, committed: Proposal | None) -> Evaluated:
        if committed is None:
            return self.evaluate(steps, Register(value=None))
        remaining_ms = self.leases.remaining_ms(key, committed)
        return self.evaluate(
            steps, Register(value=committed.value, remaining_ms=remaining_ms, version=committed.version)
        )

    def _queue_of(self, key: bytes) -> KeyQueue:
        found = self._queues.get(key)
        if isinstance(found, KeyQueue):
            return found
        queue = self._queues[key] = KeyQueue(self, key)
        if found is not None:
            queue.adopt(found)
        return queue

    def ended_alone(self, single: SingleWrite, intent: FoldIntent) -> None:
        """A write that lost its round has a queue from here on."""
        outcome = single.pending.outcome
        if outcome is None:
            self._queue_of(single.key).round_ended(intent)
            return
        del self._queues[single.key]
        self._observe(outcome, single.begun_ms, single.prepares)
        single.client(outcome)

    def serves(self, key: bytes) -> bool:
        """Whether the rules of this key run here."""
        return self.routes is None or self.routes.is_mine(key)

    def busy_keys(self) -> Iterable[bytes]:
        """Keys with writes that wait or are under way; at a node that may lose them to another, with reads, too: a read
        that finds a write undecided decides it, and would end without an answer if its key was gone by then."""
        return chain(self._queues, self._reads)

    def read(self, key: bytes, consistency: Consistency, answered: Callable[[ReadOutcome], None]) -> None:
        if self.routes is not None and not self.routes.is_mine(key):
            self.routes.read(key, consistency, partial(passed_on, answered))
            return
        if self.routes is not None:
            self._reads[key] += 1
            answered = partial(self._read_ended, key, answered)
        answered = partial(self._found, key, consistency, answered)
        if consistency is Consistency.LINEARIZABLE:
            writer, plan = self.writers.of(key), self.plan()
            if writer is None:
                QuietRead(self, key, plan, answered).start()
            else:
                self.run_read(reader.linearizable(key, plan.ctx, writer), answered)
        else:
            self.run_read(reader.read(key, consistency, self._context()), answered)

    def _read_ended(self, key: bytes, answered: Callable[[ReadOutcome], None], outcome: ReadOutcome) -> None:
        self._reads[key] -= 1
        if not self._reads[key]:
            del self._reads[key]
        answered(outcome)

    def _found(
        self, key: bytes, consistency: Consistency, answered: Callable[[ReadOutcome], None], outcome: ReadOutcome
    ) -> None:
        """A value whose count has run out here: an optimistic read hides it; a linearizable one says that it is absent
        only when that is decided."""
        if not isinstance(outcome, ReadResult) or not self.leases.is_over(key, outcome.committed):
            answered(outcome)
        elif consistency is Consistency.LINEARIZABLE and outcome.committed is not None:
            self.leases.propose_end(key, outcome.committed.version, partial(self._ended, key, answered))
        else:
            answered(self.leases.seen(key, outcome))

    def _ended(self, key: bytes, answered: Callable[[ReadOutcome], None], outcome: Outcome) -> None:
        if isinstance(outcome, ConsensusFailed | Refused):
            answered(ReadFailed(reason=f"whether it has ended is not decided: {outcome.reason}"))
        else:
            self.read(key, Consistency.LINEARIZABLE, answered)

    def read_from_others(self, key: bytes, answered: Callable[[ReadOutcome], None]) -> None:
        """What a quorum without this replica knows of a key, whose committed row cannot be read here."""
        above = highest_seen(*self.replica.in_flight(key))
        self.run_read(read_from_others(key, above, self._context()), answered)

    def run_read(self, flow: Flow[ReadOutcome], answered: Callable[[ReadOutcome], None]) -> None:
        FlowRunner(self, "read", flow, lambda reason: ReadFailed(reason=reason), answered).start()

    def perform(self, effect: Effect, done: Done) -> None:
        if isinstance(effect, Local):
            self.replica.perform(effect.op, done)
        else:
            assert isinstance(effect, Pause), "the runner performs all others"
            self.sleep(effect, partial(done, None))

    def send(self, to: int, requests: Requests, answered: Callable[[Reply], None] | None) -> None:
        """A request to this replica itself does not touch the network; it has an answer then."""
        if to == self.replica.me and answered is not None:
            self.replica.handle(requests, answered)
        else:
            self.transport.send(to, requests, answered)

    def sleep(self, pause: Pause, wake: Callable[[], None]) -> None:
        """Until the time is over, or the key has the version, whichever is first."""
        key, entry = pause.key, (pause.version, wake)
        assert key is not None
        if 0 < pause.version <= self.replica.version(key):
            self.clock.call_later(0, wake)
            return
        sleepers = self._sleepers.setdefault(key, [])
        sleepers.append(entry)

        def time_is_over() -> None:
            if entry in sleepers:
                sleepers.remove(entry)
                if not sleepers and self._sleepers.get(key) is sleepers:
                    del self._sleepers[key]
                wake()

        self.clock.call_later(pause.delay_ms, time_is_over)

    def _committed(self, key: bytes, before: KeyState, after: KeyState) -> None:
        self._learned(key, before, after)
        self.writers.committed(key, before, after)
        self.leases.learned(key, before, after)
        self.stale_keys.committed(key)

    def _committed_plain(self, request: PlainRequest) -> bool:
        """Nothing here waits for most keys that others write, nor for most decisions of a write that was alone."""
        key = request.key
        queue = self._queues.get(key)
        if queue is not None and not (isinstance(queue, PlainWrite) and queue.is_decided):
            return False
        if key in self._sleepers or self.writers.knows(key) or self.leases.counts(key):
            return False
        if request.version > 1 and request.mutable:
            self.owners.won(key, request.home, self.clock.now_ms())
        self.stale_keys.committed(key)
        return True

    def _learned(self, key: bytes, before: KeyState, after: KeyState) -> None:
        if before.committed is not None and after.committed is not None and after.committed.mutable:
            self.owners.won(key, after.committed.home, self.clock.now_ms())
        if (queue := self._queues.get(key)) is not None:
            queue.learned(after)
        if key not in self._sleepers:
            return
        sleepers = self._sleepers[key]
        for entry in [entry for entry in sleepers if entry[0] <= after.version]:
            sleepers.remove(entry)
            self.clock.call_later(0, entry[1])
        if not sleepers:
            del self._sleepers[key]

    def _refused(self, accept: Accept) -> None:
        if accept.ballot.is_fast and (queue := self._queues.get(accept.key)) is not None:
            queue.rival(accept)

    def _queued(self, key: bytes) -> tuple[int, int]:
        queue = self._queues.get(key)
        count = queue.unanswered if isinstance(queue, KeyQueue) else int(queue is not None)
        return self.owners.of(key, self.clock.now_ms()) or 0, count

    # Of the queues

    def finished(self, entry: QueuedWrite, outcome: Outcome, prepares: int) -> None:
        if entry.answered is not None:
            self._observe(outcome, entry.begun_ms, prepares)

    def _observe(self, outcome: Outcome, begun_ms: float, prepares: int) -> None:
        path = None if isinstance(outcome, ConsensusFailed | Refused) else outcome.path
        seconds, retries = (self.clock.now_ms() - begun_ms) / 1000, max(0, prepares - 1)
        self.observer.proposal_done(
            type(outcome).__name__, path, seconds, prepares=prepares, retries=retries, bumps=retries
        )

    def forget(self, queue: KeyQueue) -> None:
        """Nothing of this key waits any more."""
        if self._queues.get(queue.key) is queue:
            del self._queues[queue.key]

    @property
    def carry_ms(self) -> float:
        """How long an owner may take with a write that was carried to it: a round under way, and the next."""
        return max(LEAST_CARRY_MS, CARRY_HEDGES * self.timing.hedge_ms)

    @property
    def is_idle(self) -> bool:
        """No write is under way here, of this home or of another."""
        return not self._queues

    @property
    def silence_ms(self) -> float:
        """After which an owner that decides nothing is taken for dead."""
        return max(LEAST_SILENCE_MS, self.timing.hedge_ms)

    def answer_carried(self, home: int, key: bytes, owner: int, answers: Sequence[CarryAnswer]) -> None:
        """With a callback: a message without one waits for others, and clients wait for this one."""
        for part in in_messages(answers):
            message = CarryAnswers(key=key, owner=owner, answers=tuple(part))
            self.transport.send(home, (message,), drop)

    def _carried(self, request: CarryRequest) -> Reply:
        """A request of another replica about writes that are folded elsewhere than at their home."""
        if isinstance(request, Carry):
            return self._take_over(request)
        if request.key in self._queues:
            self.replica.when_durable(partial(self._carry_answered, request))
        return CarryOk(life=self.numbers.life)

    def _carry_answered(self, message: CarryAnswers) -> None:
        """The Commit, which came before, is durable: what clients are told can be read here."""
        queue = self._queues.get(message.key)
        if isinstance(queue, KeyQueue):
            queue.answered(message)

    def _take_over(self, request: Carry) -> CarryOk:
        """Queue the writes of another home, except those that may be decided already for all this replica knows."""
        key, plan, now_ms = request.key, self.plan(), self.clock.now_ms()
        home = request.writes[0].proposal_id.replica_id
        if not self.numbers.is_for_me(home, request):
            declined = [write.proposal_id for write in request.writes] if was_taken_by_none(request.receiver) else []
            return CarryOk(declined=tuple(declined), life=self.numbers.life)
        if not self.numbers.is_new(home, request):
            return CarryOk(life=self.numbers.life)
        state = self.replica.state(key)
        declined = []
        found: list[CarryAnswer] = []
        self.owners.forget(key)
        self.counts.received += len(request.writes)
        for carried in request.writes:
            pending = unpacked(key, carried)
            version = place(pending, state.committed, state.lineage)
            if version > ABSENT and state.committed is not None:
                found.append(answer_to(pending, answer_found(pending, version, state.committed, Path.SLOW)))
            elif self.is_leaving or is_declined(version) or not plan.votes or not self._enqueue(pending, now_ms):
                declined.append(carried.proposal_id)
        if found:
            self.replica.when_durable(partial(self.answer_carried, home, key, self.replica.me, found))
        self.counts.declined += len(declined)
        return CarryOk(declined=tuple(declined), life=self.numbers.life)

    def _enqueue(self, pending: PendingWrite, now_ms: float) -> bool:
        """A write of another home, unless it waits here already."""
        key, home = pending.write.key, pending.proposal_id.replica_id
        if self.leases.over_version(key):
            self._end_first(key)
        queue = self._queue_of(key)
        if pending.proposal_id in queue.held:
            return True
        return queue.add(QueuedWrite(pending, now_ms, None, home=home))

    @property
    def is_forgetful(self) -> bool:
        """Of `Context.forgetful`."""
        return self._forgetful

    def set_forgetful(self, forgetful: bool) -> None:
        self._forgetful, self._plan = forgetful, None

    def plan(self) -> RoundPlan:
        """For the configuration and the timing in force."""
        plan = self._plan
        if plan is None or plan.config is not self.replica.config or plan.timing is not self.timing:
            plan = self._plan = RoundPlan(self._context())
        return plan

    def uniform(self) -> float:
        return self._dice.uniform()

    def _context(self) -> Context:
        replica = self.replica
        return Context(
            me=replica.me,
            config=replica.config,
            dice=self._dice,
            timing=self.timing,
            forgetful=self._forgetful,
        )


def no_commands(steps: Steps, _register: Register) -> Evaluated:
    """The default of `Driver.evaluate`."""
    raise NotImplementedError(f"this node runs no commands: {steps}")


def passed_on(answered: Callable[[ReadOutcome], None], answer: ReadAnswer) -> None:
    """The answer of another node, which may have refused."""
    answered(ReadFailed(reason=answer.reason) if isinstance(answer, Refused) else answer)


def drop(_reply: Reply) -> None:
    """The home of a carried write learns from the decision, if this is lost."""
