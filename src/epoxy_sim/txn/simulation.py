"""One run of transactions: in virtual time, or a walk without time."""

from collections import Counter
from collections.abc import Callable
from typing import Any

from epoxy.model.transactions import Txn
from epoxy.protocol.txn.terms import Part
from epoxy_sim.keys.nemesis import Nemesis
from epoxy_sim.keys.network import Network
from epoxy_sim.simulation import Report, Simulation, Violation
from epoxy_sim.txn.client import TAG, TxnClient, TxnRecorder, number_of
from epoxy_sim.txn.history import Asked, explain
from epoxy_sim.txn.judge import TxnJudge
from epoxy_sim.txn.machine import TxnMachine
from epoxy_sim.txn.members import Members
from epoxy_sim.txn.plan import AnyPlan, TxnClientPlan, TxnPlan, TxnStep, WalkPlan
from epoxy_sim.txn.untimed import walk
from epoxy_sim.txn.workload import ACCOUNT

CALM_LIMIT_US = 120_000_000
"""After the faults all clients must be answered and the replicas agree within this virtual time."""


def run(plan: AnyPlan, *, tracing: bool = False) -> Report[AnyPlan]:
    if isinstance(plan, WalkPlan):
        return walk(plan, tracing=tracing)
    return TxnSimulation.run(plan, tracing=tracing)


class TxnSimulation(Simulation[AnyPlan]):
    plan: TxnPlan

    def __init__(self, plan: TxnPlan, *, tracing: bool) -> None:
        super().__init__(plan, tracing=tracing)
        self.judge = TxnJudge(plan.first_members)
        self.recorder = TxnRecorder()
        self.calm = False
        self.paths: Counter[str] = Counter()
        self.network: Network = Network(self.world, plan)
        self.machines = [TxnMachine(i, self.world, self.network, self.judge, plan) for i in range(1, plan.n + 1)]
        self.network.machines = {machine.id: machine for machine in self.machines}
        self.members = Members(plan, self.machines[0].config, self.world, self.judge, self.machines)
        for machine in self.machines:
            machine.decide_end = self.members.decide_end
        self.nemesis = Nemesis(self.world, self.network, self.machines)
        self.clients = [self._client(f"c{i}", client) for i, client in enumerate(plan.clients, start=1)]

    def _client(self, name: str, plan: TxnClientPlan) -> TxnClient:
        return TxnClient(name, plan, self.machines, self.world, self.recorder)

    def play(self) -> None:
        for machine in self.machines:
            machine.start()
        self.network.introduce(self.plan.first_members)
        self.members.start()
        self.nemesis.arrange(self.plan.faults)
        for client in self.clients:
            client.start()
        self.world.after(self.plan.faults_end_us, self._faults_end)
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

    def _must(self, finished: Callable[[], bool], complaint: str) -> None:
        deadline_us = max(self.world.now_us, self.plan.faults_end_us) + CALM_LIMIT_US
        if not self.world.run_until(lambda: self.calm and finished(), deadline_us):
            raise Violation("liveness", f"{complaint}, {CALM_LIMIT_US // 1_000_000} s after the last fault")

    def _is_quiet(self) -> bool:
        """All members are in the same term, and have durably executed everything that any of them knows of."""
        if self.judge.is_busy:
            return False
        config = self.members.config
        engines = [self.machines[i - 1].engine for i in self._counting()]
        replicas = [engine.replica for engine in engines if engine is not None]
        if any(replica.number != config.term or replica.part is not Part.OPEN for replica in replicas):
            return False
        logs = [replica.log for replica in replicas]
        if len(logs) < len(engines) or any(log.beyond or log.executed != logs[0].executed for log in logs):
            return False
        return all(log.executed.get(r, 0) == slot for log in logs for r, slot in log.highest.items())

    def _counting(self) -> list[int]:
        """The members, without those whose disks are not what they were."""
        return [i for i in self.members.config.active if not self.machines[i - 1].is_refused]

    def _faults_end(self) -> None:
        self.world.note("all faults end")
        self.nemesis.relent()
        self.calm = self.members.calm = True

    # Judgement

    def judge_all(self) -> None:
        self.network.judge_refusals()
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
        machines = [self.machines[i - 1] for i in self._counting()]
        for key in self.plan.names():
            values = {machine.engine.held(key) for machine in machines if machine.engine is not None}
            if len(values) > 1:
                return f"{key.decode()} is {values}"
        return None

    def counts(self) -> dict[str, Any]:
        for machine in self.machines:
            if machine.engine is not None:
                self.paths.update({path.value: count for path, count in machine.engine.paths.items()})
        decisions = self.judge.decisions.values()
        return {
            "operations": len(self.recorder.asked),
            "paths": dict(self.paths),
            "faults": dict(self.nemesis.struck + self.network.incidents),
            "verdicts": {
                "answered": sum(asked.result is not None for asked in self.recorder.asked.values()),
                "decided": len(decisions),
                "nothing": sum(commit.command is None for commit in decisions),
                "terms": self.members.config.term,
            },
        }


def found(asked: Asked, key: bytes) -> bytes | None:
    assert asked.result is not None
    return asked.result.found[asked.txn.reads.index(key)]
