"""One run of a datacenter: nodes on one database, clients, faults, and the judgement of what they were told."""

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

from msgspec.structs import replace

from epoxy.model.cluster import first_epoch
from epoxy.model.messages import UpdateConfig
from epoxy.model.shards import SYSTEM_SHARD
from epoxy.model.writes import Committed, Consistency
from epoxy_sim import history
from epoxy_sim.datacenter.client import DatacenterClient, is_definite
from epoxy_sim.datacenter.judge import DatacenterJudge
from epoxy_sim.datacenter.machine import NodeLife, NodeMachine
from epoxy_sim.datacenter.network import Asked, DatacenterNetwork, OtherDatacenter
from epoxy_sim.datacenter.plan import DatacenterPlan, DatacenterStep, NodeFault, NodeFaultKind
from epoxy_sim.datacenter.server import DatabaseServer
from epoxy_sim.keys.client import Recorder
from epoxy_sim.keys.plan import Ask
from epoxy_sim.linearizability import Linearizable, check
from epoxy_sim.simulation import Simulation, Violation
from epoxy_sim.trace_format import say
from epoxy_sim.world import Action

CALM_LIMIT_US = 120_000_000
"""After the faults all clients must be done within this virtual time."""

LIMIT = 1_000_000
"""Of configurations that a judgement may look at."""

INSIDE_US = 300
"""A message between nodes of the datacenter."""

FOLLOW_US = 40_000
"""Between two looks of the reader of the changelog."""

CONFIG_US = 100_000
"""Between two attempts to tell a node of a new epoch."""

LAST = "last"


class DatacenterSimulation(Simulation[DatacenterPlan]):
    def __init__(self, plan: DatacenterPlan, *, tracing: bool) -> None:
        super().__init__(plan, tracing=tracing)
        self.recorder = Recorder()
        self.verdicts: Counter[str] = Counter()
        self.struck: Counter[str] = Counter()
        self.calm = False
        self.config = first_epoch(tuple(range(1, plan.n + 1)), plan.policy)
        self.server = DatabaseServer(self.world, plan)
        self.server.tables.serves = self._serves
        self.judge = DatacenterJudge(self.server.tables)
        self.network: DatacenterNetwork = DatacenterNetwork(self)
        self.machines = [NodeMachine(number, self) for number in range(1, plan.nodes + 1)]
        self.others = {i: OtherDatacenter(i, self) for i in range(2, plan.n + 1)}
        self.clients = [
            DatacenterClient(f"c{number}", steps, self) for number, steps in enumerate(plan.clients, start=1)
        ]

    # What the parts ask of each other

    @property
    def lives(self) -> list[NodeLife]:
        return [machine.life for machine in self.machines if machine.life is not None]

    @property
    def gateway(self) -> NodeLife | None:
        """The process that other datacenters have a link to: that which took the system shard last."""
        owner = self.server.tables.owner(SYSTEM_SHARD)
        return next((life for life in self.lives if life.session == owner and life.gateway is not None), None)

    def _serves(self, session: int, shard: int) -> bool:
        return any(life.session == session and shard in life.ownership.owned for life in self.lives)

    def inside(self, to: NodeLife, action: Action) -> None:
        """A message to another node of the datacenter."""
        self.network.sent += 1
        self.network.after_a_while(partial(to.run, action), INSIDE_US)

    def asked(self, place: int) -> Asked | None:
        """The process that a client asks: None while it is down, or closed to clients."""
        if place > self.plan.nodes:
            return self.others[2 + (place - self.plan.nodes - 1) % len(self.others)] if self.others else None
        life = self.machines[place - 1].life
        return life if life is None or not life.is_closed else None

    def name_of(self, asked: Asked) -> str:
        return asked.name if isinstance(asked, OtherDatacenter) else asked.machine.name

    # The run

    def play(self) -> None:
        for machine in self.machines[: self.plan.first_nodes]:
            machine.start()
        for fault in self.plan.faults:
            self.world.after(fault.at_us, partial(self._strike, fault))
        for client in self.clients:
            client.start()
        self.world.after(0, self._follow)
        self.world.after(self.plan.faults_end_us, self._faults_end)
        self._must(lambda: all(client.done for client in self.clients), "clients have no answer")
        self._must(self._is_spread, "shards are not spread evenly")
        self._must(self._has_config, "nodes do not learn the configuration")
        if self.plan.restarts_only:
            self._judge_restarts()
        self._last_look()

    def _strike(self, fault: NodeFault) -> None:
        if self.calm:
            return
        self.struck[fault.kind.value] += 1
        self.world.note(f"fault: {fault.kind.value}{f' of node {fault.node}' if fault.node else ''}")
        begin, end = self._parts(fault)
        begin()
        self.world.after(fault.lasts_us, end)

    def _parts(self, fault: NodeFault) -> tuple[Action, Action]:
        machine = self.machines[fault.node - 1]
        match fault.kind:
            case NodeFaultKind.CRASH:
                return machine.crash, machine.start
            case NodeFaultKind.PAUSE:
                return machine.pause, machine.resume
            case NodeFaultKind.LEAVE:
                return machine.leave, machine.start
            case NodeFaultKind.CUT:
                return partial(machine.cut, True), partial(machine.cut, False)
            case NodeFaultKind.DATABASE_DOWN:
                return partial(self.server.down, fault.lasts_us), nothing
            case NodeFaultKind.JOIN:
                return machine.start, nothing
            case NodeFaultKind.CONFIG:
                return self._reconfigure, nothing

    def _reconfigure(self) -> None:
        """A new epoch with the same members: every replica adopts it."""
        self.config = replace(self.config, epoch=self.config.epoch + 1)
        for other in self.others.values():
            other.replica.handle((UpdateConfig(config=self.config),), lambda _: None)
        self._tell_config()

    def _tell_config(self) -> None:
        """The gateway adopts it when the other nodes rest, and tells them once it is durable."""
        gateway, request = self.gateway, UpdateConfig(config=self.config)
        if gateway is not None and gateway.replica is not None:
            gateway.run(partial(gateway.replica.handle, (request,), lambda _: None))
        if not self._has_config():
            self.world.after(CONFIG_US, self._tell_config)

    def _has_config(self) -> bool:
        """Whether every node has the newest configuration."""
        epoch = self.config.epoch
        return all(life.replica is not None and life.replica.config.epoch == epoch for life in self.lives)

    def _faults_end(self) -> None:
        self.world.note("all faults end")
        self.network.loss = 0.0
        self.server.calm()
        for machine in self.machines:
            machine.cut(False)
            if machine.paused:
                machine.resume()
            machine.start()
        self.calm = True
        self._tell_config()

    def _follow(self) -> None:
        """A reader of the changelog asks the gateway."""
        gateway = self.gateway
        if gateway is not None and gateway.store is not None:
            store = gateway.store
            gateway.run(lambda: self.judge.follow(store.durable()))
        self.world.after(FOLLOW_US, self._follow)

    def _is_spread(self) -> bool:
        """Whether every shard has one owner, each node as many, and every node knows it."""
        if any(machine.is_leaving for machine in self.machines):
            return False
        tables = self.server.tables
        owners = [tables.owner(shard) for shard in tables.shards]
        held = [len(life.ownership.owned - {SYSTEM_SHARD}) for life in self.lives]
        return (
            sum(len(life.ownership.owned) for life in self.lives) == len(owners)
            and max(held) - min(held) <= 1
            and all(list(life.ownership.table.owners) == owners for life in self.lives)
        )

    def _last_look(self) -> None:
        """A last read of every key, at every node and datacenter: it finds what was lost."""
        for place in range(1, self.plan.nodes + self.plan.n):
            steps = [
                DatacenterStep(at_us=0, ask=Ask.READ, key=key, value=0, place=place, consistency=consistency)
                for key in self.plan.keys
                for consistency in (Consistency.LINEARIZABLE, Consistency.OPTIMISTIC)
            ]
            client = DatacenterClient(f"{LAST}-{place}", steps, self)
            client.start()
            self._must(lambda: client.done, "a last look has no answer")  # noqa: B023
            failed = [outcome for outcome in client.outcomes if not is_definite(outcome)]
            if client.unanswered or failed:
                told = say(failed[0]) if failed else "nothing"
                raise Violation("liveness", f"calm, and yet a last look at place {place} was told {told}")

    def _judge_restarts(self) -> None:
        """Nodes were restarted, one after the other, and nothing else was wrong: no client was told that something
        failed, and none heard nothing."""
        for client in self.clients:
            failed = [outcome for outcome in client.outcomes if not is_definite(outcome)]
            if client.unanswered or failed:
                told = say(failed[0]) if failed else "nothing"
                raise Violation("restarts", f"nodes were restarted in order, and {client.name} was told {told}")

    def _must(self, finished: Callable[[], bool], complaint: str) -> None:
        deadline_us = max(self.world.now_us, self.plan.faults_end_us) + CALM_LIMIT_US
        if not self.world.run_until(lambda: self.calm and finished(), deadline_us):
            raise Violation("liveness", f"{complaint}, {CALM_LIMIT_US // 1_000_000} s after the last fault")

    def judge_all(self) -> None:
        self.judge.look()
        self.verdicts["changelog rows"] += self.judge.judge_changelog()
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
        tables = self.server.tables
        more = {
            "sessions": len(tables.sessions),
            "fenced": sum(machine.fenced for machine in self.machines),
            "shards moved": sum(shard.epoch for shard in tables.shards.values()),
            "statements": self.server.statements,
            "batches lost": self.server.lost,
        }
        return {
            "operations": len(self.recorder.operations),
            "paths": dict(Counter(outcome.path.value for outcome in outcomes if isinstance(outcome, Committed))),
            "faults": dict(self.struck),
            "verdicts": {**self.verdicts, **more},
            "history": list(self.recorder.operations.values()),
        }


def nothing() -> None:
    """What has no end."""


run = DatacenterSimulation.run
