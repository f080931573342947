"""One region on a database that its nodes share: one, two and three nodes on one PostgreSQL, beside the embedded store
and beside plain `INSERT … ON CONFLICT` by as many clients of the same server.

All of them run at the same time. A stretch of one follows a stretch of the other, the order turned round every time,
and the ratios are those of one round: what the machine does to all of them falls out.

What a second node adds cannot be seen where all nodes share two cores with the database and the load generator. So
there are stretches in which each process of ours has a share of a core and no more (`cpu_shares.py`): then a second
node brings its own CPU time, as a second machine would, and the database has what it needs.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import msgspec
from msgspec import Struct

from benchmarks.suite.cpu_shares import shares
from benchmarks.suite.job import Outcome
from benchmarks.suite.makers import Makers
from benchmarks.suite.measure import Field, Plan, generate, say, words
from benchmarks.suite.processes import tree
from benchmarks.suite.systems.base import Operation, System
from benchmarks.suite.systems.datacenter import Datacenter, PlainInserts, database_server
from benchmarks.suite.systems.epoxy import Epoxy
from benchmarks.suite.workloads import CHANGING, CREATE, OVERWRITE, STORED, Turn, Workload, counted, storing
from epoxy.node.process.config import NodeSettings

EMBEDDED, PLAIN = "embedded store", "plain INSERT"
ONE, TWO, THREE = SHARED = tuple(f"PostgreSQL, {words}" for words in ("1 node", "2 nodes", "3 nodes"))
TWO_PROCESSES = "embedded store, 2 processes"
"""The same keys, owned by the processes of one node."""

OURS = (EMBEDDED, TWO_PROCESSES, *SHARED)


def over_http(contender: str) -> str:
    return f"{contender}, HTTP"


def over_http_put(contender: str) -> str:
    return f"{contender}, HTTP PUT"


DOORS = {
    **{over_http(name): (name, "HTTP") for name in OURS},
    **{over_http_put(name): (name, "HTTP, versions") for name in OURS},
}

PLAN = Plan(rounds=4, warm_s=0.5, seconds=1.5)


CORES = 0.35
"""Of each process, where shares are kept: three nodes leave half of two cores to the database and the generator."""


def workload(
    name: str, title: str, turns: tuple[Turn, ...], clients: int, contenders: Sequence[str], condition: str = ""
) -> Workload:
    return Workload(
        name=f"datacenter-{name}-{clients}",
        title=f"{title}, {counted(clients)}{condition}",
        turns=turns,
        clients=clients,
        contenders=tuple(contenders),
        pause_s=0.01,
    )


FRESH, AGAIN = "fresh keys", "overwrites of disjoint keys"
RESP = tuple(
    workload(name, title, turns, clients, (*OURS, PLAIN))
    for clients in (64, 256)
    for name, title, turns in (("fresh", FRESH, CREATE), ("overwrite", AGAIN, OVERWRITE))
)
HTTP = (
    workload("http-fresh", f"{FRESH} over HTTP", CREATE, 64, [over_http(name) for name in OURS]),
    workload("http-overwrite", f"{AGAIN} over HTTP", OVERWRITE, 64, [over_http_put(name) for name in OURS]),
)
WITHIN_SHARES = tuple(
    workload(f"{name}-shares", title, turns, clients, OURS, f", {CORES:g} cores for each process")
    for clients in (64, 256)
    for name, title, turns in (("fresh", FRESH, CREATE), ("overwrite", AGAIN, OVERWRITE))
)
WORKLOADS = (*RESP, *HTTP)


class Stretch(Struct, frozen=True, kw_only=True):
    """Of one round, by contender."""

    outcomes: dict[str, Outcome]

    def rate(self, ours: str, theirs: str) -> float:
        """Commits a second, to the other's."""
        return self.outcomes[ours].rate / self.outcomes[theirs].rate

    def thrift(self, ours: str, theirs: str) -> float:
        """Commits for each second of CPU time, to the other's."""
        return for_cpu(self.outcomes[ours]) / for_cpu(self.outcomes[theirs])


def for_cpu(outcome: Outcome) -> float:
    """Commits for each second of CPU time of nodes and database; the load generator's is not theirs."""
    return outcome.operations / (outcome.server_cpu_s + outcome.database_cpu_s)


Found = dict[str, list[Stretch]]


def has_processes() -> bool:
    """Whether one node can be several processes."""
    return any(field.name == "processes" for field in msgspec.structs.fields(NodeSettings))


def measured(makers: Makers, folder: Path, plan: Plan) -> Found:
    """By workload."""
    with ExitStack() as stack:
        server = stack.enter_context(database_server())
        systems: dict[str, System] = {EMBEDDED: makers.epoxy(folder / "embedded", 1)}
        if has_processes():
            systems[TWO_PROCESSES] = makers.epoxy(folder / "processes", 1)
            more_processes(systems[TWO_PROCESSES], 2)
        for count, name in enumerate(SHARED, 1):
            systems[name] = Datacenter(folder / f"shared-{count}", server, python=makers.python, count=count)
        systems[PLAIN] = PlainInserts(folder / "plain", server)
        for name, system in systems.items():
            say(f"starting {name}: {system.version}")
            stack.callback(system.stop)
            system.start()
        field = Field(systems, DOORS)
        for name in systems:
            generate(storing(field.door(name), Operation.PUT, CHANGING, STORED))
        found: Found = {each.name: [] for each in (*WORKLOADS, *WITHIN_SHARES)} | in_turns(field, plan, WORKLOADS)
        try:
            for system in systems.values():
                stack.enter_context(shares(tree(system.roots), CORES))
        except OSError as error:
            say(f"no shares of a core can be kept here, so none are measured: {error}")
            return found
        return found | in_turns(field, plan, WITHIN_SHARES)


def more_processes(system: System, count: int) -> None:
    assert isinstance(system, Epoxy)
    for node in system.nodes:
        text = node.config.read_text("utf-8")
        node.config.write_text(text.replace("[node]\n", f"[node]\nprocesses = {count}\n"), "utf-8")


def in_turns(field: Field, plan: Plan, workloads: Sequence[Workload]) -> Found:
    found: Found = {}
    for number in range(plan.rounds):
        say(f"datacenter, round {number + 1} of {plan.rounds}")
        for each in workloads:
            present = [contender for contender in each.contenders if contender in field]
            outcomes = {}
            for contender in present if number % 2 == 0 else reversed(present):
                done = outcomes[contender] = field.stretch(each, contender, number, plan)
                say(f"  {each.title}: {contender} {words(done)}, database {done.database_us:.0f} us")
            found.setdefault(each.name, []).append(Stretch(outcomes=outcomes))
    return found
