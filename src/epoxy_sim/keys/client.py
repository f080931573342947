"""Simulated clients. Each makes one request at a time and records the answers."""

from collections.abc import Callable, Iterable, Sequence
from itertools import count
from typing import Generic, Protocol, TypeVar

import msgspec

from epoxy.model.integers import integer_of
from epoxy.model.records import Proposal
from epoxy.model.writes import (
    Committed,
    ConsensusFailed,
    Consistency,
    ExpectedValueDoesNotMatch,
    ImmutableKey,
    NotAnInteger,
    NothingToDelete,
    Outcome,
    ReadFailed,
    ReadOutcome,
    Refused,
    Unchanged,
    VersionMismatch,
    Write,
)
from epoxy_sim import history
from epoxy_sim.keys.judge import Judge
from epoxy_sim.keys.machine import Life, Machine
from epoxy_sim.keys.plan import TTL_MS, WORD, Ask, ClientPlan, Step
from epoxy_sim.trace_format import say
from epoxy_sim.world import World

T = TypeVar("T")

PATIENCE_US = 20_000_000
"""A client waits this long, unless told otherwise: ten retries with their back-off and the slowest rounds fit in."""

RETRY_US = 50_000
GAVE_UP = "the client's patience ran out"
MAX_COUNT_TRIES = 5

AMOUNTS = (1, 1, 2, 5, -3)
"""Of increments. Few, so that a checker has little to guess."""


class Recorder:
    """The history. A counter is its clock: no two events have the same time."""

    def __init__(self) -> None:
        self.operations: dict[int, history.Operation] = {}
        self._ticks = count(1)

    def invoke(self, client: str, key: bytes, kind: history.Kind) -> int:
        operation_id = len(self.operations) + 1
        self.operations[operation_id] = history.Operation(
            id=operation_id, client=client, key=key, kind=kind, invoked=next(self._ticks)
        )
        return operation_id

    def answer(self, operation_id: int, outcome: history.Outcome) -> None:
        operation = self.operations[operation_id]
        self.operations[operation_id] = msgspec.structs.replace(operation, returned=next(self._ticks), outcome=outcome)


class TimedStep(Protocol):
    @property
    def at_us(self) -> int: ...


StepT = TypeVar("StepT", bound=TimedStep)


class PatientClient(Generic[StepT]):
    """Plays its steps one after the other, then is `done`. `word`: what one of its requests is called in a trace."""

    word: str

    asks_copy = False
    """Whether it asks a copy of a machine before the machine itself."""

    patience_us = PATIENCE_US

    def __init__(self, name: str, home: int, steps: Iterable[StepT], machines: Sequence[Machine], world: World) -> None:
        self.name = name
        self.done = False
        self.unanswered = 0
        self._steps = iter(steps)
        self._machines = [*machines[home - 1 :], *machines[: home - 1]]
        self._world = world
        self._call = 0

    def start(self) -> None:
        step = next(self._steps, None)
        if step is None:
            self.done = True
        else:
            self._world.after(step.at_us - self._world.now_us, lambda: self._do(step))

    def _do(self, step: StepT) -> None:
        raise NotImplementedError

    @property
    def _lives(self) -> list[Life]:
        """The processes that are up, in the order in which it asks them."""
        asked: list[Machine] = []
        for machine in self._machines:
            asked += [*machine.copies, machine] if self.asks_copy else [machine]
        return [machine.life for machine in asked if machine.life is not None]

    def _awake(self, then: Callable[[], None]) -> None:
        """What happens to the client, as soon as it runs: always, unless a subclass pauses it."""
        then()

    def _ask(self, life: Life, request: Callable[[], None]) -> None:
        """The way to the process."""
        life.run(request)

    def _hearing(self, respond: Callable[[T], None]) -> Callable[[T], None]:
        """The way back."""
        return respond

    def _note(self, text: Callable[[], str]) -> None:
        if self._world.trace is not None:
            self._world.note(text())

    def _await(
        self,
        life: Life,
        number: int,
        say: Callable[[T], str],
        answered: Callable[[T], None],
        gave_up: Callable[[], None],
    ) -> Callable[[T], None]:
        """A callback for the answer, or `gave_up` when the process ends or the client's patience does. A request
        without an answer stays open for ever, and its client goes on under another name: the request may still take
        effect while the client does other things."""
        self._call += 1
        call = self._call

        def out_of_patience() -> None:
            if call == self._call:
                self._call += 1
                self.unanswered += 1
                self.name += "'"
                self._note(lambda: f"client of {self.word} {number} hears no more")
                gave_up()

        def hears_no_more() -> None:
            self._awake(out_of_patience)

        timer = self._world.after(self.patience_us, hears_no_more)
        life.hang_ups.append(hears_no_more)

        def respond(outcome: T) -> None:
            if call == self._call:
                self._call += 1
                timer.cancel()
                life.hang_ups.remove(hears_no_more)
                self._note(lambda: f"{self.name} is told, {self.word} {number}: {say(outcome)}")
                answered(outcome)

        return respond


class KeysClient(PatientClient[StepT]):
    """Asks for single keys."""

    word = "operation"

    def __init__(
        self,
        name: str,
        home: int,
        steps: Iterable[StepT],
        machines: Sequence[Machine],
        world: World,
        judge: Judge,
        recorder: Recorder,
    ) -> None:
        super().__init__(name, home, steps, machines, world)
        self.outcomes: list[Outcome | ReadOutcome] = []
        self._judge = judge
        self._recorder = recorder
        self._seen: dict[bytes, int] = {}
        """By key, the newest version that it was told."""

    def write(self, write: Write, then: Callable[[Outcome], None]) -> None:
        life = self._life_that_votes()
        if life is None:
            self._world.after(RETRY_US, lambda: self.write(write, then))
            return
        kind = kind_of(write)
        operation = self._invoke(life, write.key, kind)

        def answered(outcome: Outcome) -> None:
            self._remember(write.key, outcome.committed if hasattr(outcome, "committed") else None)
            self._recorder.answer(operation, recorded(outcome, kind))
            self._judge.write_answered(write.key, f"{self.name} (operation {operation})", outcome)
            self.outcomes.append(outcome)
            then(outcome)

        respond = self._await(life, operation, say, answered, lambda: then(ConsensusFailed(reason=GAVE_UP)))
        self._ask(life, lambda: life.driver.write(write, life.answering(self._hearing(respond))))

    def read(self, key: bytes, consistency: Consistency, then: Callable[[ReadOutcome], None]) -> None:
        life = self._life_that_votes()
        if life is None:
            self._world.after(RETRY_US, lambda: self.read(key, consistency, then))
            return
        operation = self._invoke(life, key, history.Read(linearizable=consistency is Consistency.LINEARIZABLE))

        def answered(outcome: ReadOutcome) -> None:
            self._remember(key, None if isinstance(outcome, ReadFailed) else outcome.committed)
            self._recorder.answer(operation, recorded_read(outcome))
            self._judge.read_answered(key, f"{self.name} (operation {operation})", outcome)
            self.outcomes.append(outcome)
            then(outcome)

        respond = self._await(life, operation, say, answered, lambda: then(ReadFailed(reason=GAVE_UP)))
        self._ask(life, lambda: life.driver.read(key, consistency, life.answering(self._hearing(respond))))

    def _life_that_votes(self) -> Life | None:
        """In a datacenter that takes requests: not one that is still learning, or has left."""
        return next((life for life in self._lives if life.votes), None)

    def _remember(self, key: bytes, committed: Proposal | None) -> None:
        if committed is not None:
            self._seen[key] = committed.version

    def _invoke(self, life: Life, key: bytes, kind: history.Kind) -> int:
        operation = self._recorder.invoke(self.name, key, kind)
        asks = f"{self.name} asks {life.machine.name}, operation {operation}"
        self._note(lambda: f"{asks}: {key_words(key)} {history.describe(kind)}")
        return operation


class Client(KeysClient[Step]):
    """Takes the steps of a plan."""

    def __init__(
        self, name: str, plan: ClientPlan, machines: Sequence[Machine], world: World, judge: Judge, recorder: Recorder
    ) -> None:
        super().__init__(name, plan.home, plan.steps, machines, world, judge, recorder)
        self.asks_copy = plan.copy

    def _do(self, step: Step) -> None:
        key = key_name(step.key)
        match step.ask:
            case Ask.READ:
                self.read(key, step.consistency, lambda _: self.start())
            case Ask.COUNT:
                self._count(key, step, MAX_COUNT_TRIES)
            case _:
                self.write(self._write_of(key, step), lambda _: self.start())

    def _write_of(self, key: bytes, step: Step) -> Write:
        value = b"%d" % step.value if step.value != WORD else b"word"
        match step.ask:
            case Ask.INCREMENT:
                return Write(key=key, value=None, mutable=True, amount=AMOUNTS[step.value % len(AMOUNTS)])
            case Ask.EXCHANGE:
                return Write(key=key, value=value, mutable=True, returning=True)
            case Ask.RESERVE:
                return Write(key=key, value=value)
            case Ask.DELETE:
                return Write(key=key, value=None, mutable=True)
            case Ask.SWAP:
                return Write(key=key, value=value, mutable=True, if_version=self._seen.get(key, 0))
            case Ask.CREATE:
                return Write(key=key, value=value, mutable=True, if_absent=True)
            case Ask.LEND:
                return Write(key=key, value=value, mutable=True, ttl_ms=TTL_MS + step.value % 3)
            case Ask.KEEP:
                return Write(key=key, value=value, mutable=True, keep_expiry=True)
            case Ask.TOUCH:
                return Write(key=key, value=None, mutable=True, touch=True, ttl_ms=TTL_MS * (step.value % 2))
            case _:
                return Write(key=key, value=value, mutable=True)

    def _count(self, key: bytes, step: Step, tries: int) -> None:
        def have_read(outcome: ReadOutcome) -> None:
            if isinstance(outcome, ReadFailed) or not tries:
                self.start()
                return
            value = b"%d" % ((integer_of(outcome.value) or 0) + 1)
            version = outcome.committed.version if outcome.committed is not None else 0
            self.write(Write(key=key, value=value, mutable=True, if_version=version), have_written)

        def have_written(outcome: Outcome) -> None:
            if isinstance(outcome, VersionMismatch):
                self._count(key, step, tries - 1)
            else:
                self.start()

        self.read(key, Consistency.LINEARIZABLE, have_read)


def key_name(number: int) -> bytes:
    return b"key-%d" % number


def key_words(key: bytes) -> str:
    return key.decode(errors="replace")


def kind_of(write: Write) -> history.Kind:
    version, returning, ttl_ms = write.if_version, write.returning, write.ttl_ms
    if write.amount is not None:
        return history.Add(amount=write.amount, if_version=version, returning=returning, ttl_ms=ttl_ms)
    if write.touch:
        return history.Touch(ttl_ms=ttl_ms, if_version=version, returning=returning)
    if write.value is None:
        return history.Delete(if_version=version, returning=returning)
    if not write.mutable:
        return history.Reserve(value=write.value)
    return history.Put(
        value=write.value,
        if_version=version,
        returning=returning,
        if_absent=write.if_absent,
        ttl_ms=ttl_ms,
        keep_expiry=write.keep_expiry,
        session=write.session,
    )


def recorded(outcome: Outcome, kind: history.Kind) -> history.Outcome:
    match outcome:
        case Committed():
            return won(outcome, kind) if outcome.mine else history.Same(version=outcome.proposal.version)
        case ExpectedValueDoesNotMatch():
            met = outcome.committed
            return history.Lost(value=met.value, version=met.version, mutable=met.mutable)
        case VersionMismatch():
            return history.Mismatch(version=version_of(outcome.committed))
        case ImmutableKey():
            return history.Immutable(version=outcome.committed.version)
        case NothingToDelete():
            return history.Missing(version=version_of(outcome.committed))
        case NotAnInteger():
            return history.NotAnInteger(version=outcome.committed.version)
        case Unchanged():
            raise AssertionError(f"simulated clients send no commands: {outcome}")
        case ConsensusFailed():
            return history.Unknown()
        case Refused():
            return history.Failed()


def won(outcome: Committed, kind: history.Kind) -> history.Won:
    is_returning = not isinstance(kind, history.Reserve | history.Read) and kind.returning
    return history.Won(
        version=outcome.proposal.version,
        value=outcome.proposal.value if isinstance(kind, history.Add) else None,
        previous=found(outcome.previous) if is_returning else None,
    )


def recorded_read(outcome: ReadOutcome) -> history.Outcome:
    return history.Failed() if isinstance(outcome, ReadFailed) else found(outcome.committed)


def found(committed: Proposal | None) -> history.Found | history.Absent:
    if committed is None or committed.value is None:
        return history.Absent(version=version_of(committed))
    return history.Found(value=committed.value, version=committed.version, mutable=committed.mutable)


def version_of(committed: Proposal | None) -> int:
    return committed.version if committed is not None else 0
