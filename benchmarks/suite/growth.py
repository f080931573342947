"""What happens when something grows: clients, values, replicas, connections, and what is asked of us at once."""

import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec

from benchmarks.suite.job import Wire
from benchmarks.suite.measure import Field, Plan, compare, say
from benchmarks.suite.processes import memory, tree
from benchmarks.suite.results import Curve, Lines, Overload
from benchmarks.suite.stored import settled
from benchmarks.suite.systems.base import System
from benchmarks.suite.wires import grpc, postgres, resp
from benchmarks.suite.workloads import CREATE, EPOXY, ETCD, Workload, counted

CLIENTS = (1, 4, 16, 64, 256, 1000)
SIZES = (16, 256, 1024, 4096, 16384, 65536)
REPLICAS = (1, 3, 5, 7)
UNDER_WAY = ((64, 1), (256, 1), (1000, 1), (4000, 1), (4000, 4))
"""Clients, and the requests that each has under way."""

BACK_OFF_S = 0.1
"""What a client does that was told BUSY. One that asks again at once would only measure how fast we say no."""

FILLING_S = 2.0
"""Until queues are as full as they get."""

LINES = 500
"""Connections: enough to see one in the memory of a process."""

BOTH = (EPOXY, ETCD)


@contextmanager
def running(systems: Mapping[str, System]) -> Iterator[Field]:
    with ExitStack() as stack:
        for name, system in systems.items():
            say(f"starting {name} {system.version}")
            stack.callback(system.stop)
            system.start()
        yield Field(systems)


def by_clients(field: Field, counts: Sequence[int], plan: Plan) -> Curve:
    return curve(field, {count: fresh_keys(f"clients-{count}", count, 16) for count in counts}, plan)


def by_size(field: Field, sizes: Sequence[int], plan: Plan) -> Curve:
    return curve(field, {size: fresh_keys(f"size-{size}", 64, size) for size in sizes}, plan)


def fresh_keys(name: str, clients: int, size: int) -> Workload:
    return Workload(
        name=name,
        title=f"fresh keys, {counted(clients)}, {size} bytes",
        turns=CREATE,
        clients=clients,
        contenders=BOTH,
        value_size=size,
    )


def curve(field: Field, places: Mapping[int, Workload], plan: Plan) -> Curve:
    found = compare(field, list(places.values()), plan)
    return {place: found[workload.name] for place, workload in places.items()}


def by_replicas(
    make: Callable[[str, Path, int], System], names: Sequence[str], folder: Path, counts: Sequence[int], plan: Plan
) -> Curve:
    found: Curve = {}
    for count in counts:
        systems = {name: make(name, folder / f"{name}-{count}", count) for name in BOTH if name in names}
        workload = fresh_keys(f"replicas-{count}", 64, 16)
        say(f"{count} replicas")
        with running(systems) as field:
            found[count] = compare(field, [workload], plan)[workload.name]
    return found


def overloaded(field: Field, plan: Plan) -> list[Overload]:
    """After a longer while than elsewhere: the first answers may take as long as the queue is."""
    found = []
    patient = msgspec.structs.replace(plan, warm_s=plan.warm_s + FILLING_S)
    for clients, pipeline in UNDER_WAY:
        workload = Workload(
            name=f"overload-{clients * pipeline}",
            title=f"fresh keys, {clients * pipeline} requests under way at once",
            turns=CREATE,
            clients=clients,
            contenders=(EPOXY,),
            pipeline=pipeline,
            pause_s=BACK_OFF_S,
        )
        figures = compare(field, [workload], patient)[workload.name][EPOXY]
        found.append(Overload(under_way=clients * pipeline, figures=figures))
    return found


def lines(field: Field) -> dict[str, Lines]:
    """To one node each, or to the one process that takes connections."""
    return {
        name: open_lines(system)
        for name, system in field.systems.items()
        if next(iter(system.doors.values())).wire in HELLO
    }


def open_lines(system: System) -> Lines:
    door = next(iter(system.doors.values()))
    before = settled(system).anonymous
    with ExitStack() as stack:
        for _ in range(LINES):
            line = stack.enter_context(socket.create_connection(("127.0.0.1", door.ports[0]), timeout=10))
            line.sendall(HELLO[door.wire])
            line.recv(4096)
        after = memory(tree(system.roots)).anonymous
    return Lines(count=LINES, bytes_each=(after - before) / LINES)


HELLO = {
    Wire.RESP: resp.command(b"PING"),
    Wire.GRPC: grpc.greeting(),
    Wire.POSTGRES: postgres.startup("bench", "postgres"),
}
"""What makes a server answer, so that it has taken the connection for sure."""
