"""One run: a plan in, a report out, and nothing else: a pure function, whatever process it runs in."""

from collections import Counter
from collections.abc import Callable, Sequence

from msgspec import Struct

from epoxy.model.cluster import first_epoch
from epoxy.model.writes import Committed, ConsensusFailed, Consistency, Outcome, ReadFailed, ReadOutcome
from epoxy.protocol.keys.proposer import OVERTAKEN
from epoxy_sim import history
from epoxy_sim.keys.client import Client, Recorder
from epoxy_sim.keys.judge import Judge, Violation
from epoxy_sim.keys.machine import Machine
from epoxy_sim.keys.plan import Ask, ClientPlan, Plan, Step
from epoxy_sim.linearizability import Linearizable, check
from epoxy_sim.members.operator import MembersChange, MembersOperator
from epoxy_sim.nemesis import Nemesis
from epoxy_sim.network import Network
from epoxy_sim.trace_format import say
from epoxy_sim.world import World

CALM_LIMIT_US = 300_000_000
"""After the faults every client must be done within this virtual time. A step ends with its client's patience, and few
steps wait so long."""

SETTLING_US = 3_000_000
"""What a change leaves for later, to settle the votes of members who are gone, is done by then."""

LAST = "last-"
"""The names of the clients that come when all is calm begin with this."""


class Failure(Struct, frozen=True, kw_only=True):
    rule: str
    detail: str


class Report(Struct, frozen=True, kw_only=True):
    plan: Plan
    failure: Failure | None
    virtual_us: int
    events: int
    messages: int
    operations: int
    paths: dict[str, int]
    faults: dict[str, int]
    verdicts: dict[str, int]
    """How many keys were judged linearizable, not linearizable, or undecided."""
    trace: list[str] | None
    history: list[history.Operation]


def run(plan: Plan, *, tracing: bool = False) -> Report:
    simulation = Simulation(plan, tracing=tracing)
    return simulation.report(failure_of(simulation.play, simulation.judge_history))


def failure_of(*parts: Callable[[], None]) -> Failure | None:
    """Of the first that fails, whether a judge says so or the code under test gives up by itself."""
    try:
        for part in parts:
            part()
    except Violation as violation:
        return Failure(rule=violation.rule, detail=violation.detail)
    except AssertionError as broken:
        return Failure(rule="assertion", detail=str(broken) or "an assertion of the engine failed")
    except Exception as error:
        return Failure(rule=type(error).__name__, detail=f"the engine raised {error!r}")
    return None


class Simulation:
    def __init__(self, plan: Plan, *, tracing: bool) -> None:
        self.plan = plan
        self.world = World(tracing=tracing)
        self.judge = Judge()
        self.recorder = Recorder()
        self.verdicts: Counter[str] = Counter()
        self.calm = False
        self.network = Network(self.world, plan)
        config = first_epoch(plan.founders or tuple(range(1, plan.n + 1)), plan.policy)
        self.machines = [
            Machine(
                i,
                self.world,
                self.network,
                self.judge,
                seed=plan.seed,
                config=config,
                timing=plan.timing,
                clock_rate=plan.skew[i - 1],
                changing=bool(plan.wishes),
            )
            for i in range(1, plan.n + 1)
        ]
        self.network.machines = {machine.id: machine for machine in self.machines}
        self.nemesis = Nemesis(self.world, self.network, self.machines)
        self.operators = [MembersOperator(wish, self.machines, self.world) for wish in plan.wishes]
        self.change = MembersChange(self.operators, self.machines, self.judge, self.world)
        self.clients = [self._client(f"c{i}", client) for i, client in enumerate(plan.clients, start=1)]

    def play(self) -> None:
        for machine in self.machines:
            machine.start()
        self._introduce()
        self.nemesis.arrange(self.plan.faults)
        for client in self.clients:
            client.start()
        for operator in self.operators:
            operator.start()
        self.world.after(self.plan.faults_end_us, self._faults_end)
        self._must_finish(self.clients, "clients")
        self._must_change()
        for plan in last_look(self.plan, self._at_last()):
            client = self._client(f"{LAST}{plan.home}", plan)
            client.start()
            self._must_finish([client], "the last reads and writes")
            failed = [outcome for outcome in client.outcomes if not may_be_told_in_calm(outcome)]
            if client.unanswered or failed:
                told = say(failed[0]) if failed else "nothing"
                raise Violation("liveness", f"calm, and yet {client.name} was told {told}")

    def judge_history(self) -> None:
        operations = list(self.recorder.operations.values())
        verdicts = check(operations)
        self.verdicts.update(type(verdict).__name__ for verdict in verdicts)
        for verdict in verdicts:
            if not isinstance(verdict, Linearizable):
                raise Violation("linearizability", verdict.explain())
        for operation in operations:
            if isinstance(operation.kind, history.Read) and not operation.kind.linearizable:
                wrong = history.check_optimistic_read(operations, operation)
                if wrong is None and operation.client.startswith(LAST):
                    wrong = history.check_calm_read(operations, operation)
                if wrong is not None:
                    raise Violation("optimistic read", wrong)

    def report(self, failure: Failure | None) -> Report:
        paths = Counter(
            outcome.path.value
            for client in self.clients
            for outcome in client.outcomes
            if isinstance(outcome, Committed)
        )
        return Report(
            plan=self.plan,
            failure=failure,
            virtual_us=self.world.now_us,
            events=self.world.happened,
            messages=self.network.sent,
            operations=len(self.recorder.operations),
            paths=dict(paths),
            faults=dict(self.nemesis.struck + self.network.suffered),
            verdicts=dict(self.verdicts),
            trace=self.world.trace,
            history=list(self.recorder.operations.values()),
        )

    def _client(self, name: str, plan: ClientPlan) -> Client:
        return Client(name, plan, self.machines, self.world, self.judge, self.recorder)

    def _introduce(self) -> None:
        """The first members have met before the story begins."""
        lives = [self.machines[i - 1].life for i in self.plan.founders or ()]
        members = [life.member for life in lives if life is not None and life.member is not None]
        for one in members:
            for other in members:
                one.guard.note(other.replica.me, other.guard.identity)

    def _must_change(self) -> None:
        """When faults stop, the members wanted last are the members."""
        if not self.operators:
            return
        self.change.watch()
        deadline_us = max(self.world.now_us, self.plan.faults_end_us) + CALM_LIMIT_US
        if not self.world.run_until(lambda: self.calm and self.change.is_through, deadline_us):
            raise Violation("liveness", f"all is calm, and yet the members stay {say(self.change.newest())}")
        settled_us = self.world.now_us + SETTLING_US
        self.world.run_until(lambda: self.world.now_us >= settled_us, settled_us + 1)
        self.change.compare()
        if not self.world.run_until(lambda: not self.change.gaps, settled_us + CALM_LIMIT_US):
            raise Violation("gaps stay", f"all is calm, and yet {self.change.gaps}")

    def _at_last(self) -> tuple[int, ...]:
        """Who votes when all is over."""
        return self.change.newest().active if self.operators else tuple(range(1, self.plan.n + 1))

    def _faults_end(self) -> None:
        if self.world.trace is not None:
            self.world.note("all faults end")
        self.nemesis.relent()
        self.calm = True

    def _must_finish(self, clients: list[Client], who: str) -> None:
        """Liveness: when faults stop, everybody gets an answer in bounded time."""
        deadline_us = max(self.world.now_us, self.plan.faults_end_us) + CALM_LIMIT_US
        if not self.world.run_until(lambda: self.calm and all(client.done for client in clients), deadline_us):
            raise Violation("liveness", f"{who} have no answer {CALM_LIMIT_US // 1_000_000} s after the last fault")


def last_look(plan: Plan, members: Sequence[int]) -> list[ClientPlan]:
    """When all is calm: reads of every kind from several datacenters, one after the other, then a write. They leave no
    lost or changed value unseen, and they must succeed."""
    keys = plan.keys()
    homes = sorted({members[0], members[(len(members) - 1) // 2], members[-1]})
    look = [
        Step(at_us=0, ask=Ask.READ, key=key, value=0, consistency=consistency)
        for consistency in (Consistency.OPTIMISTIC, Consistency.SKIP_CACHE, Consistency.LINEARIZABLE)
        for key in keys
    ]
    write = [Step(at_us=0, ask=Ask.PUT, key=key, value=9) for key in keys]
    return [ClientPlan(home=home, steps=tuple(look)) for home in homes] + [
        ClientPlan(home=members[0], steps=tuple(write))
    ]


def may_be_told_in_calm(outcome: Outcome | ReadOutcome) -> bool:
    """All but failures. One is excused: a home that slept through many versions cannot tell its first writer."""
    if isinstance(outcome, ConsensusFailed):
        return outcome.reason.startswith(OVERTAKEN)
    return not isinstance(outcome, ReadFailed)
