"""One run of leases: clients, machines, faults, and the judgement of the history."""

from collections import Counter
from collections.abc import Callable
from typing import Any

from epoxy.model.writes import Committed, Consistency
from epoxy_sim import history
from epoxy_sim.keys.client import Recorder
from epoxy_sim.keys.nemesis import Nemesis
from epoxy_sim.keys.network import Network
from epoxy_sim.leases.client import LeaseClient
from epoxy_sim.leases.judge import LeaseJudge
from epoxy_sim.leases.machine import LeaseMachine
from epoxy_sim.leases.plan import LeaseAsk, LeaseClientPlan, LeasePlan, LeaseStep
from epoxy_sim.linearizability import Linearizable, check
from epoxy_sim.simulation import Simulation, Violation

CALM_LIMIT_US = 600_000_000
"""After the faults all clients must be done, and all values gone that are to end, within this virtual time. A holder
may still ask, wait and renew for minutes."""

LIMIT = 1_000_000
"""Of configurations. Clients give up after seconds, so in some runs most writes are of unknown outcome: one of 5,000
needs a third of this."""


class LeaseSimulation(Simulation[LeasePlan]):
    def __init__(self, plan: LeasePlan, *, tracing: bool) -> None:
        super().__init__(plan, tracing=tracing)
        self.recorder = Recorder()
        self.judge = LeaseJudge(plan, self.world, self.recorder)
        self.verdicts: Counter[str] = Counter()
        self.calm = False
        self.network: Network = Network(self.world, plan)
        self.machines = [LeaseMachine(i, self.world, self.network, self.judge, plan) for i in range(1, plan.n + 1)]
        self.network.machines = {machine.id: machine for machine in self.machines}
        self.nemesis = Nemesis(self.world, self.network, self.machines)
        self.clients = [self._client(f"c{i}", client) for i, client in enumerate(plan.clients, start=1)]

    def _client(self, name: str, plan: LeaseClientPlan) -> LeaseClient:
        return LeaseClient(name, plan, self.machines, self.world, self.judge, self.recorder)

    def play(self) -> None:
        for machine in self.machines:
            machine.start()
        self.network.introduce(self.plan.first_members)
        self.nemesis.arrange(self.plan.faults)
        for client in self.clients:
            client.start()
        self.world.after(self.plan.faults_end_us, self._faults_end)
        self._must(lambda: all(client.done for client in self.clients), "clients have no answer")
        self._must(self.judge.is_ended, "values are left that are to end")
        self._look_around()

    def _look_around(self) -> None:
        """A last read of every key, at every replica: it finds what was lost, and values that came back."""
        steps = [
            LeaseStep(at_us=0, ask=LeaseAsk.READ, key=int(number), lock=kind == b"lock", value=0, consistency=each)
            for each in (Consistency.OPTIMISTIC, Consistency.LINEARIZABLE)
            for kind, _, number in (key.partition(b"-") for key in self.plan.names)
        ]
        for home in range(1, self.plan.n + 1):
            client = self._client(
                f"last-{home}", LeaseClientPlan(home=home, rate=1.0, distance_us=0, steps=tuple(steps))
            )
            client.start()
            self._must(lambda: client.done, "a last look has no answer")  # noqa: B023
            if client.unanswered:
                raise Violation("liveness", "calm, and yet a last look was not answered")

    def _must(self, finished: Callable[[], bool], complaint: str) -> None:
        deadline_us = max(self.world.now_us, self.plan.faults_end_us) + CALM_LIMIT_US
        if not self.world.run_until(lambda: self.calm and finished(), deadline_us):
            raise Violation("liveness", f"{complaint}, {CALM_LIMIT_US // 1_000_000} s after the last fault")

    def _faults_end(self) -> None:
        self.world.note("all faults end")
        self.nemesis.relent()
        self.calm = True

    def judge_all(self) -> None:
        operations = list(self.recorder.operations.values())
        verdicts = check(operations, limit=LIMIT, expiries=self.judge.expiries)
        self.verdicts.update(type(verdict).__name__ for verdict in verdicts)
        for verdict in verdicts:
            if not isinstance(verdict, Linearizable):
                raise Violation("linearizability", verdict.explain())
        for operation in operations:
            if isinstance(operation.kind, history.Read) and not operation.kind.linearizable:
                wrong = history.check_optimistic_read(operations, operation)
                if wrong is not None:
                    raise Violation("optimistic read", wrong)

    def counts(self) -> dict[str, Any]:
        outcomes = [outcome for client in self.clients for outcome in client.outcomes]
        judge = self.judge
        return {
            "operations": len(self.recorder.operations),
            "paths": dict(Counter(outcome.path.value for outcome in outcomes if isinstance(outcome, Committed))),
            "faults": dict(self.nemesis.struck + self.network.incidents),
            "verdicts": {**self.verdicts, "holders": judge.holders, "ends": judge.ends, "fenced": judge.fenced},
            "folds": dict(sum((machine.counts for machine in self.machines), self.judge.folds)),
            "history": list(self.recorder.operations.values()),
        }


run = LeaseSimulation.run
