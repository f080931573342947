"""Clients of a datacenter: each makes one request at a time, at any node or at another datacenter, and records the
answers."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from epoxy.model.records import Proposal
from epoxy.model.writes import ConsensusFailed, Consistency, Outcome, ReadAnswer, ReadFailed, Refused, Write
from epoxy_sim import history
from epoxy_sim.datacenter.network import Asked
from epoxy_sim.datacenter.plan import DatacenterStep
from epoxy_sim.keys.client import kind_of, recorded, recorded_read
from epoxy_sim.keys.plan import Ask
from epoxy_sim.trace_format import say

if TYPE_CHECKING:
    from epoxy_sim.datacenter.simulation import DatacenterSimulation

T = TypeVar("T")

PATIENCE_US = 15_000_000
"""Longer than the routes wait for an owner, and the flow of a write for a quorum."""

RETRY_US = 50_000


class DatacenterClient:
    """Plays its steps one after the other, then is `done`."""

    def __init__(self, name: str, steps: Iterable[DatacenterStep], simulation: "DatacenterSimulation") -> None:
        self.name = name
        self.done = False
        self.outcomes: list[Outcome | ReadAnswer] = []
        self.unanswered = 0
        self._steps = iter(steps)
        self._simulation = simulation
        self._world = simulation.world
        self._seen: dict[bytes, int] = {}
        self._call = 0

    def start(self) -> None:
        step = next(self._steps, None)
        if step is None:
            self.done = True
        else:
            self._world.after(step.at_us - self._world.now_us, partial(self._do, step))

    def _do(self, step: DatacenterStep) -> None:
        asked = self._simulation.asked(step.place)
        if asked is None:
            self._world.after(RETRY_US, partial(self._do, step))
            return
        key = key_name(step.key)
        if step.ask is Ask.READ:
            self._read(asked, key, step.consistency)
        else:
            self._write(asked, write_of(key, step, self._seen.get(key, 0)))

    def _write(self, asked: Asked, write: Write) -> None:
        kind = kind_of(write)
        operation = self._invoke(asked, write.key, kind)

        def answered(outcome: Outcome) -> None:
            self._remember(write.key, getattr(outcome, "committed", None))
            self._simulation.recorder.answer(operation, recorded(outcome, kind))
            self._simulation.judge.write_answered(write.key, f"{self.name} (operation {operation})", outcome)
            self.outcomes.append(outcome)
            self.start()

        respond = self._await(asked, operation, answered)
        asked.run(lambda: asked.ask_write(write, respond))

    def _read(self, asked: Asked, key: bytes, consistency: Consistency) -> None:
        kind = history.Read(linearizable=consistency is Consistency.LINEARIZABLE)
        operation = self._invoke(asked, key, kind)

        def answered(answer: ReadAnswer) -> None:
            outcome = ReadFailed(reason=answer.reason) if isinstance(answer, Refused) else answer
            self._remember(key, None if isinstance(outcome, ReadFailed) else outcome.committed)
            self._simulation.recorder.answer(operation, recorded_read(outcome))
            self._simulation.judge.read_answered(key, f"{self.name} (operation {operation})", outcome)
            self.outcomes.append(outcome)
            self.start()

        respond = self._await(asked, operation, answered)
        asked.run(lambda: asked.ask_read(key, consistency, respond))

    def _remember(self, key: bytes, committed: Proposal | None) -> None:
        if committed is not None:
            self._seen[key] = committed.version

    def _invoke(self, asked: Asked, key: bytes, kind: history.Kind) -> int:
        operation = self._simulation.recorder.invoke(self.name, key, kind)
        if self._world.trace is not None:
            where = self._simulation.name_of(asked)
            self._world.note(f"{self.name} asks {where}, operation {operation}: {key!r} {history.describe(kind)}")
        return operation

    def _await(self, asked: Asked, operation: int, answered: Callable[[T], None]) -> Callable[[T], None]:
        """A callback for the answer. When the process ends, or the client's patience, the request stays open for ever,
        and the client goes on under another name: it may still take effect."""
        self._call += 1
        call = self._call

        def hears_no_more() -> None:
            if call == self._call:
                self._call += 1
                self.unanswered += 1
                self.name += "'"
                self._world.note(f"operation {operation} has no answer")
                self.start()

        def respond(outcome: T) -> None:
            if call == self._call:
                self._call += 1
                timer.cancel()
                if self._world.trace is not None:
                    self._world.note(f"{self.name} is told, operation {operation}: {say(outcome)}")
                answered(outcome)

        timer = self._world.after(PATIENCE_US, hears_no_more)
        asked.hang_ups.append(hears_no_more)
        return respond


def key_name(number: int) -> bytes:
    return b"key-%d" % number


def write_of(key: bytes, step: DatacenterStep, seen: int) -> Write:
    value = b"%d" % step.value
    match step.ask:
        case Ask.INCREMENT:
            return Write(key=key, value=None, mutable=True, amount=1 + step.value % 3)
        case Ask.RESERVE:
            return Write(key=key, value=value)
        case Ask.DELETE:
            return Write(key=key, value=None, mutable=True)
        case Ask.SWAP:
            return Write(key=key, value=value, mutable=True, if_version=seen)
        case Ask.CREATE:
            return Write(key=key, value=value, mutable=True, if_absent=True)
        case _:
            return Write(key=key, value=value, mutable=True)


def is_definite(outcome: Outcome | ReadAnswer) -> bool:
    return not isinstance(outcome, ConsensusFailed | ReadFailed | Refused)
