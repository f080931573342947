"""Clients of actors: they ask any datacenter, and tell the judges what they were told."""

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from epoxy.actors.messages import (
    CallActor,
    Destroy,
    Ensure,
    Exists,
    Found,
    GetActor,
    Missing,
    MoveActor,
    OwnerUnavailable,
    Question,
    Responded,
    Unknown,
    Verdict,
)
from epoxy.model.actors import ActorName
from epoxy.model.exchanges import RequestHead
from epoxy_sim.placement import workload
from epoxy_sim.placement.judge import Ended
from epoxy_sim.placement.plan import AskKind, PlacementStep
from epoxy_sim.placement.workload import ActorDoes, ActorTask, Form, mark_of
from epoxy_sim.simulation import Violation

if TYPE_CHECKING:
    from epoxy_sim.placement.simulation import PlacementSimulation

PATIENCE_US = 6_000_000
"""A client that has no answer by then counts it as unknown. The node may be down."""

AGAIN_US = 400_000
MOST_ATTEMPTS = 40
"""Of a request that may be asked again: for longer than a datacenter that is gone is missed."""


FORMS = (Form.CLASS, Form.FUNCTION, Form.LOCAL)
"""Of the actors of the first names."""


class ClientCall(Struct, frozen=True, kw_only=True):
    """A request to an actor, `first_us` being when it was asked for first. `name`: of the actor."""

    step: PlacementStep
    task: ActorTask
    first_us: int


class ActorClients:
    def __init__(self, simulation: "PlacementSimulation") -> None:
        self._simulation = simulation
        self._world = simulation.world
        self._judge = simulation.judge
        self._asked = 0
        self.answers: Counter[str] = Counter()
        self.wanted: set[int] = set()
        """Names of which a client was told that they have an actor."""
        self.unsure: set[int] = set()
        """Names that a client asked to destroy."""
        self.failed: Counter[int] = Counter()
        """By name, calls that were not answered, and are not asked again."""
        self.answered_us: dict[int, int] = {}
        """By name, when a call to it was answered last."""
        self.waiting_for: Counter[int] = Counter()
        """By name, calls under way, and those that are to be asked again."""

    @property
    def waiting(self) -> int:
        return self.waiting_for.total()

    def ask(self, step: PlacementStep) -> None:
        if step.ask is AskKind.CALL:
            self._asked += 1
            task = ActorTask(does=step.does, mark=mark_of(self._asked), in_ms=step.in_ms)
            self.waiting_for[step.name] += 1
            if step.does is ActorDoes.BREAK:
                self._simulation.states.broken.add(task.mark)
            self._call(ClientCall(step=step, task=task, first_us=self._world.now_us))
            return
        asked_us = self._world.now_us
        ended = self._judge.destroying(step.name, asked_us) if step.ask is AskKind.DESTROY else None
        if ended is not None:
            self.unsure.add(step.name)
        question = question_of(step, self._simulation.pool.namespace, self._simulation.pool.name)
        self._put(step, question, lambda verdict: self._told(step, asked_us, ended, verdict), lambda: None)

    def _put(
        self, step: PlacementStep, question: Question, told: Callable[[Verdict], None], refused: Callable[[], None]
    ) -> None:
        """`refused`: no node listens there."""
        site = self._simulation.sites[step.site - 1]
        life = site.life
        if life is None or site.paused:
            self.answers["refused"] += 1
            refused()
            return
        self._world.note(f"{site.name} is asked: {step.ask.value} name {step.name}")
        life.run(lambda: site.room.actors.ask(question, life.answering(told)))

    def _told(self, step: PlacementStep, asked_us: int, ended: Ended | None, verdict: Verdict) -> None:
        self.answers[word_of(verdict)] += 1
        self._world.note(f"told about name {step.name}: {verdict}")
        if ended is not None:
            if not isinstance(verdict, Unknown):
                ended.told_us = self._world.now_us
            if isinstance(verdict, Found):
                self._judge.destroyed(verdict.actor.id, self._world.now_us)
        elif isinstance(verdict, Found | Exists):
            created = isinstance(verdict, Found) and verdict.created
            self._judge.told(step.name, asked_us, self._world.now_us, verdict.actor.id, created=created)
            if step.ask is not AskKind.GET:
                self.wanted.add(step.name)

    # Requests to actors

    def _call(self, call: ClientCall) -> None:
        step, task = call.step, call.task
        name = name_of(self._simulation.pool.namespace, step.name)
        head = RequestHead(idempotency_key=task.mark) if step.again else None
        question = CallActor(target=name, body=workload.encode(task), head=head)
        unheard = [call]

        asked_us, known = self._world.now_us, step.name in self.wanted

        def told(verdict: Verdict) -> None:
            self._in_time(call, asked_us)
            if isinstance(verdict, Missing) and known and step.name not in self.unsure:
                raise Violation("forgotten", f"name {step.name} has an actor, and {task.word} was told of none")
            if isinstance(verdict, Missing | OwnerUnavailable):
                self._judge.refused(task.word)
            if unheard:
                unheard.pop()
                late.cancel()
                self._told_of_call(call, verdict)

        def give_up() -> None:
            if unheard:
                unheard.pop()
                self._told_of_call(call, Unknown(reason="no answer"))

        late = self._world.after(PATIENCE_US, give_up)
        self._put(step, question, told, lambda: told(OwnerUnavailable(reason="connection refused")))

    def _in_time(self, call: ClientCall, asked_us: int) -> None:
        limit_us, took_us = 1000 * self._simulation.plan.answers_within_ms, self._world.now_us - asked_us
        if 0 < limit_us < took_us:
            raise Violation("late", f"{call.task.word} to name {call.step.name} was answered after {took_us / 1e6:g} s")

    def _told_of_call(self, call: ClientCall, verdict: Verdict) -> None:
        task = call.task
        self.answers[f"call-{word_of(verdict)}"] += 1
        self._world.note(f"{task.word} to name {call.step.name} was told: {verdict}")
        if isinstance(verdict, Responded) and not verdict.error and verdict.status < 400:
            self.waiting_for[call.step.name] -= 1
            self.answered_us[call.step.name] = self._world.now_us
            self._simulation.states.answered(call.first_us, task, workload.decode_report(verdict.body))
        elif isinstance(verdict, Responded) and task.does is ActorDoes.BREAK:
            self.waiting_for[call.step.name] -= 1
        elif call.step.again and task.attempt < MOST_ATTEMPTS and not isinstance(verdict, Missing):
            self._world.after(AGAIN_US, lambda: self._again(call))
        else:
            self.waiting_for[call.step.name] -= 1
            self.failed[call.step.name] += 1

    def _again(self, call: ClientCall) -> None:
        """At the next site: the one that was asked may be gone."""
        task, sites = call.task, len(self._simulation.sites)
        step = replace(call.step, site=call.step.site % sites + 1)
        self._call(replace(call, step=step, task=replace(task, attempt=task.attempt + 1)))


def word_of(verdict: Verdict) -> str:
    return "unavailable" if isinstance(verdict, OwnerUnavailable) else type(verdict).__name__.lower()


def name_of(namespace: str, number: int) -> ActorName:
    return ActorName(namespace, FORMS[number % len(FORMS)].value, str(number))


def question_of(step: PlacementStep, namespace: str, pool: str) -> Question:
    name = name_of(namespace, step.name)
    match step.ask:
        case AskKind.ENSURE | AskKind.CREATE:
            return Ensure(name=name, pool=pool, exclusive=step.ask is AskKind.CREATE)
        case AskKind.GET:
            return GetActor(target=name)
        case AskKind.DESTROY:
            return Destroy(target=name)
        case AskKind.MOVE:
            return MoveActor(target=name, to=step.to)
        case AskKind.CALL:
            raise ValueError(step)
