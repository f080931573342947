"""One run on single keys: clients, machines, faults, and the judgement of the history."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from epoxy.model.writes import Committed, ConsensusFailed, Consistency, Outcome, ReadFailed, ReadOutcome
from epoxy.protocol.keys.folding import STILL_HANDED_OVER
from epoxy.protocol.keys.proposer import OVERTAKEN
from epoxy_sim import history
from epoxy_sim.keys.client import Client, Recorder
from epoxy_sim.keys.judge import Judge
from epoxy_sim.keys.machine import Machine
from epoxy_sim.keys.nemesis import Nemesis
from epoxy_sim.keys.network import Network
from epoxy_sim.keys.plan import Ask, ClientPlan, Plan, Step
from epoxy_sim.linearizability import Linearizable, check
from epoxy_sim.simulation import Simulation, Violation
from epoxy_sim.trace_format import say

CALM_LIMIT_US = 300_000_000
"""After the faults every client must be done within this virtual time. A step ends when its client's patience does, and
few steps take so long."""

RARELY = 0.05
"""Of the operations of a run. Writes of a home are handed on in turn, seldom more than one or two of a run twice."""

LAST = "last-"
"""The names of the clients that begin after the faults begin with this."""


class KeysSimulation(Simulation[Plan]):
    def __init__(self, plan: Plan, *, tracing: bool) -> None:
        super().__init__(plan, tracing=tracing)
        self.judge = Judge()
        self.recorder = Recorder()
        self.verdicts: Counter[str] = Counter()
        self.calm = False
        self.machines = self.build()
        self.network.machines = {machine.id: machine for machine in self.machines}
        self.nemesis = Nemesis(self.world, self.network, self.machines)
        self.clients = [self._client(f"c{i}", client) for i, client in enumerate(plan.clients, start=1)]

    def build(self) -> Sequence[Machine]:
        self.network: Network = Network(self.world, self.plan)
        return [Machine(i, self.world, self.network, self.judge, self.plan) for i in range(1, self.plan.n + 1)]

    def play(self) -> None:
        for machine in self.machines:
            machine.start()
        self.network.introduce(self.plan.first_members)
        self.begin()
        self.world.after(self.plan.faults_end_us, self._faults_end)
        self._must_finish(self.clients, "clients")
        if self.plan.is_fair:
            excused = self._handed_on()
            for client in self.clients:
                self._must_succeed(client, "nothing broke", excused)
        for plan in last_look(self.plan, self.settle()):
            client = self._client(f"{LAST}{plan.home}", plan)
            client.start()
            self._must_finish([client], "the last reads and writes")
            self._must_succeed(client, "calm")

    def begin(self) -> None:
        self.nemesis.arrange(self.plan.faults)
        for client in self.clients:
            client.start()

    def settle(self) -> tuple[int, ...]:
        """Called when faults have ended and all clients are done. The members that a last look may ask."""
        if not self.run_in_calm(self.network.is_cleared):
            raise Violation("liveness", "all is calm, and yet a start is not cleared")
        return tuple(range(1, self.plan.n + 1))

    def judge_all(self) -> None:
        self.network.judge_refusals()
        operations = list(self.recorder.operations.values())
        verdicts = check(operations, expiries=self.judge.expiries)
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

    def counts(self) -> dict[str, Any]:
        outcomes = [outcome for client in self.clients for outcome in client.outcomes]
        return {
            "operations": len(self.recorder.operations),
            "paths": dict(Counter(outcome.path.value for outcome in outcomes if isinstance(outcome, Committed))),
            "faults": dict(self.nemesis.struck + self.network.incidents),
            "verdicts": dict(self.verdicts),
            "folds": dict(sum((machine.counts for machine in self.machines), self.judge.folds)),
            "history": list(self.recorder.operations.values()),
        }

    def _client(self, name: str, plan: ClientPlan) -> Client:
        return Client(name, plan, self.machines, self.world, self.judge, self.recorder)

    def _faults_end(self) -> None:
        self.world.note("all faults end")
        self.nemesis.relent()
        self.calm = True

    def _must_finish(self, clients: list[Client], who: str) -> None:
        """Liveness: when faults stop, every client gets an answer in bounded time."""
        if not self.run_in_calm(lambda: all(client.done for client in clients)):
            raise Violation("liveness", f"{who} have no answer {CALM_LIMIT_US // 1_000_000} s after the last fault")

    def _handed_on(self) -> Outcome | None:
        """Without any fault rivals may keep an owner from a decision for as long as a home waits for it. The home takes
        its writes back, and hands those that go on losing to another owner. What one of two owners refuses cannot be
        told (F6): that is excused where it is rare."""
        told = [outcome for client in self.clients for outcome in client.outcomes]
        return STILL_HANDED_OVER if told.count(STILL_HANDED_OVER) <= RARELY * len(told) else None

    def _must_succeed(self, client: Client, calm: str, excused: Outcome | None = None) -> None:
        failed = [each for each in client.outcomes if not may_be_answered_in_calm(each) and each != excused]
        if client.unanswered or failed:
            told = say(failed[0]) if failed else "nothing"
            raise Violation("liveness", f"{calm}, and yet {client.name} was told {told}")

    def run_in_calm(self, finished: Callable[[], bool]) -> bool:
        """Whether this comes true in time, once faults have ended."""
        deadline_us = max(self.world.now_us, self.plan.faults_end_us) + CALM_LIMIT_US
        return self.world.run_until(lambda: self.calm and finished(), deadline_us)


run = KeysSimulation.run


def last_look(plan: Plan, members: Sequence[int]) -> list[ClientPlan]:
    """After the faults: reads of every kind from several datacenters, one after the other, then a write. They find
    every lost or changed value, and they must succeed."""
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


def may_be_answered_in_calm(outcome: Outcome | ReadOutcome) -> bool:
    """All but failures. One is excused: a replica that missed many versions cannot tell a writer its outcome."""
    if isinstance(outcome, ConsensusFailed):
        return outcome.reason.startswith(OVERTAKEN)
    return not isinstance(outcome, ReadFailed)
