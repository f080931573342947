"""One run: a plan in, a report out."""

from collections import Counter

from msgspec import Struct
from msgspec.structs import replace

from epoxy.model.cluster import first_epoch
from epoxy.model.transactions import Txn
from epoxy.node.txn.replica import MAX_HELD
from epoxy.protocol.txn.effects import TxnTiming
from epoxy.protocol.txn.terms import Part
from epoxy_sim.keys.judge import Violation
from epoxy_sim.keys.simulation import Failure
from epoxy_sim.nemesis import Nemesis
from epoxy_sim.network import Network
from epoxy_sim.txn import untimed
from epoxy_sim.txn.client import TAG, TxnClient, TxnRecorder, number_of
from epoxy_sim.txn.history import Asked, explain
from epoxy_sim.txn.judge import TxnJudge
from epoxy_sim.txn.machine import TxnMachine
from epoxy_sim.txn.members import Members
from epoxy_sim.txn.plan import AnyPlan, TxnClientPlan, TxnPlan, TxnStep, WalkPlan
from epoxy_sim.txn.workload import ACCOUNT
from epoxy_sim.world import World

SHELVED = 3
"""In two of so many seeds nothing that was executed stays in memory."""

CALM_LIMIT_US = 120_000_000
"""After the faults everybody must be answered within this virtual time, and the replicas agree."""


class TxnReport(Struct, frozen=True, kw_only=True):
    plan: AnyPlan
    failure: Failure | None
    virtual_us: int
    events: int
    messages: int
    operations: int
    paths: dict[str, int]
    faults: dict[str, int]
    verdicts: dict[str, int]
    trace: list[str] | None


def run(plan: AnyPlan, *, tracing: bool = False) -> TxnReport:
    return walked(plan, tracing) if isinstance(plan, WalkPlan) else played(plan, tracing)


def walked(plan: WalkPlan, tracing: bool) -> TxnReport:
    walk = untimed.walk(plan.seed, n=plan.n, steps=plan.steps)
    return TxnReport(
        plan=plan,
        failure=walk.failure,
        virtual_us=0,
        events=walk.steps,
        messages=walk.messages,
        operations=walk.asked,
        paths={},
        faults={},
        verdicts={"decided": walk.decided, "nothing": walk.nothing},
        trace=walk.trace if tracing else None,
    )


def played(plan: TxnPlan, tracing: bool) -> TxnReport:
    simulation = TxnSimulation(plan, tracing=tracing)
    failure: Failure | None = None
    try:
        simulation.play()
        simulation.judge_all()
    except Violation as violation:
        failure = Failure(rule=violation.rule, detail=violation.detail)
    except AssertionError as broken:
        failure = Failure(rule="assertion", detail=str(broken) or "an assertion of the engine failed")
    except Exception as error:
        failure = Failure(rule=type(error).__name__, detail=f"the engine raised {error!r}")
    return simulation.report(failure)


class TxnSimulation:
    def __init__(self, plan: TxnPlan, *, tracing: bool) -> None:
        self.plan = plan
        self.world = World(tracing=tracing)
        self.judge = TxnJudge(plan.founders)
        self.recorder = TxnRecorder()
        self.calm = False
        self.paths: Counter[str] = Counter()
        self.network = Network(self.world, replace(plan.world, seed=plan.seed))
        self.machines = [self._machine(i) for i in range(1, plan.n + 1)]
        self.network.machines = {machine.id: machine for machine in self.machines}
        self.members = Members(plan, self.machines[0].config, self.world, self.judge, self.machines)
        for machine in self.machines:
            machine.decide_end = self.members.decide_end
        self.nemesis = Nemesis(self.world, self.network, self.machines)
        self.clients = [self._client(f"c{i}", client) for i, client in enumerate(plan.clients, start=1)]

    def _machine(self, i: int) -> TxnMachine:
        world = self.plan.world
        config = first_epoch(self.plan.founders, world.policy)
        machine = TxnMachine(
            i,
            self.world,
            self.network,
            self.judge,
            seed=self.plan.seed,
            config=config,
            timing=world.timing,
            clock_rate=world.skew[i - 1],
        )
        machine.ordered_timing = TxnTiming(
            hedge_ms=world.timing.hedge_ms,
            round_timeout_ms=world.timing.round_timeout_ms,
            recover_ms=self.plan.recover_ms,
            catchup_ms=self.plan.catchup_ms,
        )
        machine.most_held = 0 if self.plan.seed % SHELVED else MAX_HELD
        return machine

    def _client(self, name: str, plan: TxnClientPlan) -> TxnClient:
        return TxnClient(name, plan, self.machines, self.world, self.recorder)

    def play(self) -> None:
        for machine in self.machines:
            machine.start()
        self.members.start()
        self.nemesis.arrange(self.plan.world.faults)
        for client in self.clients:
            client.start()
        self.world.after(self.plan.world.faults_end_us, self._faults_end)
        self._must(lambda: self.members.done, "the members do not change")
        self._must(lambda: all(client.done for client in self.clients), "clients have no answer")
        keys = tuple(key for key in self.plan.names() if not key.startswith(TAG))
        for home in (self.members.config.active[0], self.members.config.active[-1]):
            look = TxnClientPlan(home=home, steps=(TxnStep(at_us=0, txn=Txn(reads=keys)),))
            last = self._client(f"last-{home}", look)
            last.start()
            self._must(lambda: last.done, "a last look has no answer")  # noqa: B023
            if last.unanswered:
                raise Violation("liveness", "calm, and yet the last look was not answered")
        self._must(self._is_quiet, "the replicas do not come together")

    def _must(self, finished: object, complaint: str) -> None:
        assert callable(finished)
        deadline_us = max(self.world.now_us, self.plan.world.faults_end_us) + CALM_LIMIT_US
        if not self.world.run_until(lambda: self.calm and bool(finished()), deadline_us):
            raise Violation("liveness", f"{complaint}, {CALM_LIMIT_US // 1_000_000} s after the last fault")

    def _is_quiet(self) -> bool:
        """All members are in the same term, have executed everything that anybody knows of, and that is durable."""
        if self.judge.is_busy:
            return False
        config = self.members.config
        engines = [self.machines[i - 1].engine for i in config.active]
        replicas = [engine.replica for engine in engines if engine is not None]
        if any(replica.number != config.term or replica.part is not Part.OPEN for replica in replicas):
            return False
        logs = [replica.log for replica in replicas]
        if len(logs) < len(config.active) or any(log.beyond or log.executed != logs[0].executed for log in logs):
            return False
        return all(log.executed.get(r, 0) == slot for log in logs for r, slot in log.highest.items())

    def _faults_end(self) -> None:
        if self.world.trace is not None:
            self.world.note("all faults end")
        self.nemesis.relent()
        self.calm = self.members.calm = True

    # Judgement

    def judge_all(self) -> None:
        self.judge.sum_up()
        numbers = self._numbers()
        wrong = explain(self.recorder.asked, numbers) or self._total_changed() or self._values_differ()
        if wrong is not None:
            raise Violation("strict serializability", wrong)
        for number in numbers:
            if self.recorder.asked[number].refused:
                raise Violation("definite refusal", f"transaction {number} was refused, and executed")

    def _numbers(self) -> list[int]:
        """The transactions in the order of their execution."""
        commands = [self.judge.decisions[each].command for each in self.judge.order()]
        return [number_of(txn) for command in commands if command is not None for txn in command.txns]

    def _total_changed(self) -> str | None:
        accounts = [key for key in self.plan.names() if key.startswith(ACCOUNT)]
        for asked in self.recorder.asked.values():
            if asked.result is not None and set(accounts) <= set(asked.txn.reads):
                total = sum(int(found(asked, key) or b"0") for key in accounts)
                if total:
                    return f"transaction {asked.number} saw a total of {total}"
        return None

    def _values_differ(self) -> str | None:
        machines = [self.machines[i - 1] for i in self.members.config.active]
        for key in self.plan.names():
            values = {machine.engine.value(key) for machine in machines if machine.engine is not None}
            if len(values) > 1:
                return f"{key.decode()} is {values}"
        return None

    def report(self, failure: Failure | None) -> TxnReport:
        for machine in self.machines:
            if machine.engine is not None:
                self.paths.update({path.value: count for path, count in machine.engine.paths.items()})
        decisions = self.judge.decisions.values()
        return TxnReport(
            plan=self.plan,
            failure=failure,
            virtual_us=self.world.now_us,
            events=self.world.happened,
            messages=self.network.sent,
            operations=len(self.recorder.asked),
            paths=dict(self.paths),
            faults=dict(self.nemesis.struck + self.network.suffered),
            verdicts={
                "answered": sum(asked.result is not None for asked in self.recorder.asked.values()),
                "decided": len(decisions),
                "nothing": sum(commit.command is None for commit in decisions),
                "terms": self.members.config.term,
            },
            trace=self.world.trace,
        )


def found(asked: Asked, key: bytes) -> bytes | None:
    assert asked.result is not None
    return asked.result.found[asked.txn.reads.index(key)]
