"""What is measured, for whom, and with how many clients."""

from collections.abc import Iterator

from msgspec import Struct

from benchmarks.suite.job import MARK, Choice, Exchange, Job, Step, value_of
from benchmarks.suite.systems.base import Door, Operation, loaded_key

STORED = 10_000
"""Keys that reads and overwrites go to: more than any cache of ours keeps by accident, written in a few seconds."""

READERS = 50
"""As many as redis-benchmark takes by default."""


class Turn(Struct, frozen=True):
    operation: Operation
    choice: Choice
    of: str = ""
    """Which stored keys: their prefix."""


class Workload(Struct, frozen=True, kw_only=True):
    """`turns` are taken in order by every client. `one_node`: all clients go to one node, the best one; else they are
    spread over all that take requests."""

    name: str
    title: str
    turns: tuple[Turn, ...]
    clients: int
    contenders: tuple[str, ...]
    value_size: int = 16
    pipeline: int = 1
    one_node: bool = False
    pause_s: float = 0.0


IMMUTABLE, MUTABLE, CHANGING, HOT, LOADED = "fixed", "loose", "changing", "hot", "loaded"
"""Only two of them are overwritten: a reader knows what must be there."""

EPOXY, ETCD, REDIS, VALKEY, POSTGRES, RQLITE = "Epoxy", "etcd", "Redis", "Valkey", "PostgreSQL", "rqlite"
EPOXY_HTTP, ETCD_SHARED, EMPTY = "Epoxy HTTP", "etcd, shared connections", "Epoxy, empty"
OURS = (EPOXY, EPOXY_HTTP)
ALL = (EPOXY, ETCD, REDIS, POSTGRES)
EPOXY_INCR, EPOXY_HTTP_PUT, ETCD_LOOP = "Epoxy INCR", "Epoxy HTTP PUT", "etcd, compare-and-set loop"
DOORS = {
    EPOXY_HTTP: (EPOXY, "HTTP"),
    ETCD_SHARED: (ETCD, "gRPC, shared"),
    EPOXY_INCR: (EPOXY, "RESP, sums"),
    EPOXY_HTTP_PUT: (EPOXY, "HTTP, versions"),
    ETCD_LOOP: (ETCD, "gRPC, adding"),
}
"""Contenders that are a second way to ask a system."""

CREATE = (Turn(Operation.CREATE, Choice.FRESH),)
OVERWRITE = tuple(Turn(Operation.PUT, Choice.OWN, CHANGING) for _ in range(2))
GET = (Turn(Operation.GET, Choice.ANY, IMMUTABLE),)
MIXED = (*GET * 5, *CREATE, *GET * 4)


def fresh(clients: int) -> Workload:
    """Free names."""
    contenders = (*ALL, RQLITE, VALKEY, ETCD_SHARED) if clients in (64, 256) else (*ALL, RQLITE)
    return Workload(
        name=f"fresh-{clients}",
        title=f"fresh keys, {counted(clients)}",
        turns=CREATE,
        clients=clients,
        contenders=(*contenders, EPOXY_HTTP) if clients == 64 else contenders,
    )


def linearizable(clients: int, of: str) -> Workload:
    kind = "mutable" if of == MUTABLE else "immutable"
    return Workload(
        name=f"linearizable-{kind}-{clients}",
        title=f"linearizable reads of {kind} keys, {counted(clients)}",
        turns=(Turn(Operation.GET_NOW, Choice.ANY, of),),
        clients=clients,
        contenders=(EPOXY, ETCD, ETCD_SHARED) if clients > 1 else (EPOXY, ETCD),
    )


def sized(size: int, words: str) -> Workload:
    return Workload(
        name=f"fresh-64-{size}",
        title=f"fresh keys with {words}, 64 clients",
        turns=CREATE,
        clients=64,
        contenders=ALL,
        value_size=size,
    )


def loaded_reads(contenders: tuple[str, ...]) -> Workload:
    return Workload(
        name="get-loaded",
        title="local reads all over the keys that are there, 50 clients",
        turns=(Turn(Operation.GET, Choice.ANY, LOADED),),
        clients=READERS,
        contenders=contenders,
    )


def counted(clients: int) -> str:
    return "1 client" if clients == 1 else f"{clients} clients"


WORKLOADS = (
    *(fresh(clients) for clients in (1, 16, 64, 256)),
    Workload(
        name="leader-256",
        title="fresh keys, 256 clients of one node (of etcd its leader)",
        turns=CREATE,
        clients=256,
        contenders=(EPOXY, ETCD),
        one_node=True,
    ),
    sized(1024, "1 KiB"),
    sized(65536, "64 KiB"),
    *(
        Workload(
            name=f"overwrite-{clients}",
            title=f"overwrites of disjoint keys, {clients} clients",
            turns=OVERWRITE,
            clients=clients,
            contenders=ALL,
        )
        for clients in (64, 256)
    ),
    Workload(
        name="hot-key",
        title="overwrites of one hot key, 48 clients",
        turns=tuple(Turn(Operation.PUT, Choice.ONE, HOT) for _ in range(2)),
        clients=48,
        contenders=ALL,
    ),
    Workload(
        name="mixed-64",
        title="nine local reads to one fresh key, 64 clients",
        turns=MIXED,
        clients=64,
        contenders=ALL,
    ),
    Workload(
        name="get-1",
        title="local reads, 50 clients of one node",
        turns=GET,
        clients=READERS,
        contenders=(EPOXY, EPOXY_HTTP, ETCD, REDIS, VALKEY, POSTGRES),
        one_node=True,
    ),
    Workload(
        name="get-16",
        title="local reads, 50 clients of one node, pipeline 16",
        turns=GET,
        clients=READERS,
        contenders=(EPOXY, REDIS, VALKEY),
        one_node=True,
        pipeline=16,
    ),
    Workload(
        name="get-spread",
        title="local reads, 50 clients spread over all nodes",
        turns=GET,
        clients=READERS,
        contenders=(EPOXY, EPOXY_HTTP, ETCD, ETCD_SHARED),
    ),
    *(linearizable(clients, of) for of in (MUTABLE, IMMUTABLE) for clients in (1, 64, 256)),
)


class Circumstances(Struct, frozen=True, kw_only=True):
    """`unique` keeps the fresh keys of one stretch apart from all others. `loaded`: how many numbers were loaded."""

    unique: str
    warm_s: float
    seconds: float
    roots: tuple[int, ...]
    database_roots: tuple[int, ...] = ()
    loaded: int = 1


def job(workload: Workload, door: Door, now: Circumstances) -> Job:
    operations = [turn.operation for turn in workload.turns]
    connections = min(door.connections or workload.clients, workload.clients)
    return Job(
        wire=door.wire,
        ports=door.ports[:1] if workload.one_node else door.ports,
        greeting=door.greeting(operations[0]),
        steps=tuple(steps(workload, door, now)),
        clients=connections,
        streams=round(workload.clients / connections),
        pipeline=workload.pipeline,
        pause_s=workload.pause_s,
        warm_s=now.warm_s,
        seconds=now.seconds,
        roots=now.roots,
        database_roots=now.database_roots,
    )


def steps(workload: Workload, door: Door, now: Circumstances) -> Iterator[Step]:
    """Overwrites take turns with two values: the same bytes again would be too easy."""
    for at, turn in enumerate(workload.turns):
        letter = b"vw"[at % 2 : at % 2 + 1] if turn.operation is Operation.PUT else b"v"
        exchange = said(door, turn.operation, turn.of or now.unique, value_of(workload.value_size, letter))
        yield Step(exchange=exchange, choice=turn.choice, count=now.loaded if turn.of == LOADED else STORED)


def said(door: Door, operation: Operation, prefix: str, value: bytes) -> Exchange:
    key = loaded_key() if prefix == LOADED else f"bench/{prefix}/".encode() + MARK
    return door.speak[operation](key, value)


def storing(door: Door, operation: Operation, prefix: str, count: int) -> Job:
    """Puts keys there that others read later."""
    exchange = said(door, operation, prefix, value_of(16))
    return Job(
        wire=door.wire,
        ports=door.ports,
        greeting=door.greeting(operation),
        steps=(Step(exchange=exchange, choice=Choice.FRESH),),
        clients=64,
        limit=count,
        seconds=600.0,
    )
