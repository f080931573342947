"""A small cluster on the table: production replicas and drivers, and every message in the hands of the visitor.

Disks sync after each step, within a fraction of a virtual millisecond; timers ring only when the visitor lets time
pass. A table is a function of its settings and its steps, so a link replays it exactly.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from msgspec import Struct

from epoxy.model.quorum import QuorumPolicy
from epoxy.model.records import FRESH, KeyState
from epoxy.model.writes import Consistency, Outcome, ReadOutcome, Write
from epoxy.protocol.effects import Timing
from epoxy_sim import history
from epoxy_sim.keys.client import KeysClient, Recorder
from epoxy_sim.keys.judge import Judge
from epoxy_sim.keys.machine import Machine
from epoxy_sim.keys.plan import Plan, Step, Weather
from epoxy_sim.linearizability import Linearizable, check
from epoxy_sim.patching import planted
from epoxy_sim.playground.actions import Action, BadStep, Doing, Question, parse
from epoxy_sim.playground.cards import changes_in_words, names_of, outcome_in_words
from epoxy_sim.playground.hand_network import HandNetwork, HeldMessage
from epoxy_sim.playground.rules import MUTANTS
from epoxy_sim.simulation import Failure, Violation, failure_of
from epoxy_sim.trace_format import NAMES
from epoxy_sim.world import World

KEY = b"name"
SIZES = (3, 5)

MAX_STEPS = 400
"""A session by hand has some dozens. Replaying so many takes a second or two in a browser."""

SYNC_US = 3_000
"""Time for disks after a step: a sync takes 0.5 ms at most, and no step needs more than a few, one after the other."""

CLEAR_US = 200_000
"""Time for a process to be heard by the others after its start, if enough of them are up."""

PASSING_US = 60_000_000
"""No timer of the engine is longer than a client's patience, which is a third of this."""


class Settings(Struct, frozen=True, kw_only=True):
    """`mutant`: the rule that is broken, if any."""

    n: int = 3
    seed: int = 1
    mutant: str | None = None

    def __post_init__(self) -> None:
        if self.n not in SIZES:
            raise BadStep(f"a table has {' or '.join(map(str, SIZES))} replicas, not {self.n}")
        if self.mutant is not None and self.mutant not in MUTANTS:
            raise BadStep(f"no broken rule is called {self.mutant!r}")


class HandClient(KeysClient[Step]):
    """Asks what the visitor wants, one thing at a time."""

    def __init__(self, home: int, table: "HandTable") -> None:
        name = f"client at {NAMES[home]}"
        super().__init__(name, home, (), table.machines, table.world, table.judge, table.recorder)
        self.waits_for = ""
        self.told = ""
        self._table = table

    def ask(self, question: Question, value: str) -> None:
        self.waits_for, self.told = f"{question.words} {value}".strip(), ""
        text = value.encode()
        match question:
            case Question.READ:
                self.read(KEY, Consistency.OPTIMISTIC, self._heard)
            case Question.READ_QUORUM:
                self.read(KEY, Consistency.LINEARIZABLE, self._heard)
            case Question.RESERVE:
                self.write(Write(key=KEY, value=text), self._heard)
            case Question.PUT:
                self.write(Write(key=KEY, value=text, mutable=True), self._heard)
            case Question.ADD:
                self.write(Write(key=KEY, value=None, mutable=True, amount=1), self._heard)
            case Question.DELETE:
                self.write(Write(key=KEY, value=None, mutable=True), self._heard)

    def _heard(self, outcome: Outcome | ReadOutcome) -> None:
        self.waits_for, self.told = "", outcome_in_words(outcome)
        self._table.answered(self.name, self.told)


class StepWords(Struct, frozen=True, kw_only=True):
    """One step, and what happened in it."""

    action: str
    words: tuple[str, ...]


class HandTable:
    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.told: list[StepWords] = []
        self.failure: Failure | None = None
        self.delivered: HeldMessage | None = None
        """By the last step."""
        self._words: list[str] = []
        self._answers: list[str] = []
        plan = plan_of(settings)
        self.world = World()
        self.judge = Judge()
        self.recorder = Recorder()
        self.network = HandNetwork(self.world, plan)
        self.machines = [Machine(i, self.world, self.network, self.judge, plan) for i in range(1, settings.n + 1)]
        self.network.machines = {machine.id: machine for machine in self.machines}
        for machine in self.machines:
            machine.start()
        self.network.introduce(plan.first_members)
        self.clients = [HandClient(machine.id, self) for machine in self.machines]
        self.before = self.states()

    def do(self, text: str) -> None:
        """One step. Raises BadStep if it is not possible, and then nothing has happened."""
        action = parse(text)
        if self.failure is not None:
            raise BadStep("the judge has found a broken rule: take a step back, or begin anew")
        if len(self.told) >= MAX_STEPS:
            raise BadStep(f"a session has at most {MAX_STEPS} steps")
        act = self._act_of(action)
        self.before, self.delivered, self._words, self._answers = self.states(), None, [], []
        sent = set(self.network.held)
        with planted(MUTANTS, self.settings.mutant):
            self.failure = failure_of(act, lambda: self._settle(action), self._judge)
        for name, before, after in zip(NAMES[1:], self.before, self.states(), strict=False):
            self._words += changes_in_words(name, before, after)
        self._words += self._answers
        self._words += news(message for message in self.network.held.values() if message.number not in sent)
        if self.delivered is not None and len(self._words) == 1 and self.failure is None:
            self.say("Nothing else changes.")
        self.told.append(StepWords(action=action.text, words=tuple(self._words)))

    def say(self, text: str) -> None:
        self._words.append(text)

    def answered(self, client: str, words: str) -> None:
        self._answers.append(f"The {client} is told: {words}.")

    def states(self) -> list[KeyState]:
        """Of machines that are down: what they had when the last step began."""
        known: Sequence[KeyState] = getattr(self, "before", [FRESH] * len(self.machines))
        return [
            machine.life.replica.state(KEY) if machine.life is not None else state
            for machine, state in zip(self.machines, known, strict=True)
        ]

    def _act_of(self, action: Action) -> Callable[[], None]:
        number = action.number
        match action.doing:
            case Doing.PASS_TIME:
                return self._pass_time
            case Doing.ASK:
                return self._ask(action)
            case Doing.CRASH | Doing.RESTART:
                return self._power(number, up=action.doing is Doing.RESTART)
            case Doing.DELIVER | Doing.DROP | Doing.REPEAT:
                if number not in self.network.held:
                    raise BadStep(f"no message {number} is in flight")
                return lambda: self._handle(self.network.held[number], action.doing)

    def _ask(self, action: Action) -> Callable[[], None]:
        question, home = action.question, action.number
        assert question is not None
        if not 1 <= home <= len(self.clients):
            raise BadStep(f"there is no replica {home}")
        client = self.clients[home - 1]
        if client.waits_for:
            raise BadStep(f"the {client.name} still waits for an answer")
        if not any(machine.life is not None and machine.life.votes for machine in self.machines):
            raise BadStep("no replica is up that takes requests")

        def ask() -> None:
            value = f" {action.value!r}" if action.value else ""
            self.say(f"The {client.name} asks: {question.words}{value}.")
            client.ask(question, action.value)

        return ask

    def _power(self, number: int, *, up: bool) -> Callable[[], None]:
        if not 1 <= number <= len(self.machines):
            raise BadStep(f"there is no replica {number}")
        machine = self.machines[number - 1]
        if (machine.life is not None) is up:
            raise BadStep(f"{machine.name} is {'up' if up else 'down'} already")

        def turn() -> None:
            if up:
                self.say(f"{machine.name} starts again, with what is on its disk.")
                machine.start()
            else:
                self.say(f"{machine.name} crashes: what was not on its disk is lost, and its clients hear no more.")
                machine.crash()

        return turn

    def _handle(self, message: HeldMessage, doing: Doing) -> None:
        sender, to, title = NAMES[message.sender], NAMES[message.to], message.card.title
        if doing is not Doing.REPEAT:
            self.network.take(message.number)
        if doing is Doing.DROP:
            self.say(f"The network loses {sender}'s message to {to}: “{title}”")
            return
        self.delivered = message
        kept = " The network keeps a copy, to deliver it again." if doing is Doing.REPEAT else ""
        if self.machines[message.to - 1].life is None:
            self.say(f"{to} is down: “{title}” from {sender} reaches nothing.{kept}")
        else:
            self.say(f"{to} gets “{title}” from {sender}.{kept}")
        message.arrive()

    def _pass_time(self) -> None:
        """To the next moment at which something can be seen."""
        began = self.world.now_us
        states, sent = self.states(), set(self.network.held)

        def is_news() -> bool:
            return bool(self._answers) or set(self.network.held) != sent or self.states() != states

        if self.world.run_until(is_news, began + PASSING_US):
            self.say(f"{(self.world.now_us - began) / 1000:,.0f} ms pass, and a timer rings.")
        else:
            self.say("Nothing is due within a minute: all wait for messages, or for you.")

    def _settle(self, action: Action) -> None:
        """Disks sync. A process that was started is heard by the others, if enough of them are up."""
        if action.doing is Doing.RESTART:
            life = self.machines[action.number - 1].life
            cleared = life is not None and self.world.run_until(
                lambda: life.gate.may_vote, self.world.now_us + CLEAR_US
            )
            if not cleared:
                self.say("Too few of the others are up to hear of its start: until they do, it takes no part.")
        self.world.run_until(lambda: False, self.world.now_us + SYNC_US)

    def _judge(self) -> None:
        """What clients were told, as far as they were told anything. The rest is judged as it happens."""
        operations = list(self.recorder.operations.values())
        for verdict in check(operations, expiries=self.judge.expiries):
            if not isinstance(verdict, Linearizable):
                raise Violation("linearizability", verdict.explain())
        for operation in operations:
            if isinstance(operation.kind, history.Read) and not operation.kind.linearizable:
                wrong = history.check_optimistic_read(operations, operation)
                if wrong is not None:
                    raise Violation("optimistic read", wrong)


def plan_of(settings: Settings) -> Plan:
    """All stand at one place, and nothing breaks by itself."""
    return Plan(
        seed=settings.seed,
        n=settings.n,
        policy=QuorumPolicy.OPTIMAL,
        timing=Timing(),
        places=(0.0,) * settings.n,
        weather=Weather(jitter=0.0),
        skew=(1.0,) * settings.n,
        faults_end_us=0,
        clients=(),
    )


def news(messages: Iterator[HeldMessage]) -> list[str]:
    """One sentence for a message to several replicas."""
    sent: dict[tuple[int, str], list[int]] = {}
    for message in messages:
        sent.setdefault((message.sender, message.card.title), []).append(message.to)
    return [f"{NAMES[sender]} sends to {names_of(to)}: “{title}”" for (sender, title), to in sent.items()]


def replay(settings: Settings, steps: Sequence[str]) -> HandTable:
    """A table after these steps. Raises BadStep at the first that is not possible."""
    table = HandTable(settings)
    for step in steps:
        table.do(step)
    return table


def play_on(table: HandTable, limit: int) -> int:
    """Deliver the oldest message, again and again, until none is in flight. How many."""
    done = 0
    with suppress(BadStep):
        while table.network.held and done < limit and table.failure is None:
            table.do(f"d{next(iter(table.network.held))}")
            done += 1
    return done
