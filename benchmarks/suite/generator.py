"""The load generator: a process of its own that reads a job from its standard input and writes the outcome to its
standard output. Run by the suite; nothing here is for people."""

import asyncio
import functools
import gc
import itertools
import resource
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from random import Random

import msgspec
import uvloop

from benchmarks.machine import CpuTimes, shares
from benchmarks.stats import percentile
from benchmarks.suite.clients import Ask, Client, HttpClient, Ledger, PostgresClient, RespClient
from benchmarks.suite.counting import AddingClient, SumClient, VersionClient
from benchmarks.suite.job import DIGITS, MARK, AtNode, Choice, Job, Latency, Outcome, Step, Wire, told
from benchmarks.suite.processes import cpu_each, cpu_since, machine_times, tick_s, tree
from benchmarks.suite.streams import GrpcClient

KINDS: dict[Wire, type[Client]] = {
    Wire.RESP: RespClient,
    Wire.HTTP: HttpClient,
    Wire.POSTGRES: PostgresClient,
    Wire.GRPC: GrpcClient,
    Wire.RESP_SUMS: SumClient,
    Wire.HTTP_VERSIONS: VersionClient,
    Wire.GRPC_ADDING: AddingClient,
}

PREBUILT = 20_000
"""Requests made before the start, for keys that are not fresh: all of those that are stored for reading, and enough of
millions to touch them everywhere. They take a tenth of a second to make."""

OWN = 64
"""Keys of one client that it overwrites in turn."""

TOGETHER = 32
"""Connections that are made at once: fewer than any server lets wait."""

SPREAD = 0x9E3779B97F4A7C15
"""An odd number: its multiples go to all remainders, in no order that a tree would like."""

PATIENCE_S = 20.0
"""For what is still under way after the end."""


def asks(job: Job, client: int, serial: Iterator[int]) -> Iterator[Ask]:
    """What one client says: its steps in turn, each client beginning with another one."""
    at = client % len(job.steps)
    ordered = job.steps[at:] + job.steps[:at]
    turns = [fresh(step, serial) if step.choice is Choice.FRESH else repeated(step, job, client) for step in ordered]
    single = turns[0] if len(turns) == 1 else one_each(turns)
    return single if job.pipeline == 1 else together(single, job.pipeline)


def one_each(turns: Sequence[Iterator[Ask]]) -> Iterator[Ask]:
    for turn in itertools.cycle(turns):
        ask = next(turn, None)
        if ask is None:
            return
        yield ask


def together(single: Iterator[Ask], count: int) -> Iterator[Ask]:
    while piece := list(itertools.islice(single, count)):
        yield b"".join(raw for raw, _ in piece), b"".join(reply for _, reply in piece)


def fresh(step: Step, serial: Iterator[int]) -> Iterator[Ask]:
    raw, reply = step.exchange.raw.split(MARK), step.exchange.reply.split(MARK)
    for number in serial:
        digits = DIGITS % number
        yield digits.join(raw), digits.join(reply)


def repeated(step: Step, job: Job, client: int) -> Iterator[Ask]:
    match step.choice:
        case Choice.ONE:
            return itertools.cycle(list(fresh(step, iter((0,)))))
        case Choice.OWN:
            return itertools.cycle(list(fresh(step, iter(range(client, step.count, job.clients)[:OWN]))))
        case _:
            return scattered(prepared(step), client)


def scattered(all_asks: list[Ask], client: int) -> Iterator[Ask]:
    """Each client begins elsewhere."""
    begin = client * SPREAD % len(all_asks)
    return itertools.chain(all_asks[begin:], itertools.cycle(all_asks))


@functools.cache
def prepared(step: Step) -> list[Ask]:
    return list(fresh(step, iter(shuffled(step.count))))


def shuffled(count: int) -> list[int]:
    """In no order that a tree would like. Their number is odd: a pipeline of 16 is not the same bytes again until every
    key has been at every place."""
    if count <= PREBUILT:
        found = list(range(count))
        Random(count).shuffle(found)
    else:
        found = [number * SPREAD % (1 << 64) % count for number in range(PREBUILT)]
    return found if len(found) % 2 else found[:-1]


class Window:
    """What the machine did from its making to `close`."""

    def __init__(self, job: Job) -> None:
        self.servers, self.database = cpu_each(tree(job.roots)), cpu_each(tree(job.database_roots))
        self.mine = time.process_time()
        self.machine = machine_times()
        self.began = time.perf_counter()

    def close(self, ledger: Ledger) -> Outcome:
        seconds = time.perf_counter() - self.began
        servers, database = cpu_since(self.servers), cpu_since(self.database)
        mine = time.process_time() - self.mine
        after = machine_times()
        ours = round((servers + database + mine) / tick_s())
        used = shares(self.machine, CpuTimes(after.total, after.idle, after.stolen, ours))
        return Outcome(
            operations=sum(ledger.operations),
            seconds=seconds,
            latency=latency([took for node in ledger.took for took in node]),
            nodes=tuple(
                AtNode(operations=count, latency=latency(took))
                for count, took in zip(ledger.operations, ledger.took, strict=True)
            ),
            faults={},
            unanswered=0,
            answered=0,
            server_cpu_s=servers,
            generator_cpu_s=mine,
            stolen_share=used.stolen,
            others_share=used.others,
            database_cpu_s=database,
        )


def latency(took_s: Sequence[float]) -> Latency:
    if not took_s:
        return Latency()
    ordered = sorted(took_s)
    p50, p99 = (percentile(ordered, share) * 1e3 for share in (0.5, 0.99))
    return Latency(mean=statistics.fmean(ordered) * 1e3, p50=p50, p99=p99, most=ordered[-1] * 1e3)


async def connected(job: Job, ledger: Ledger) -> list[Client]:
    kind, serial = KINDS[job.wire], serials(job)
    clients: list[Client] = []
    for start in range(0, job.clients, TOGETHER):
        made = await asyncio.gather(
            *(connect(kind, job, ledger, number, serial) for number in range(start, min(start + TOGETHER, job.clients)))
        )
        clients += made
    return clients


async def connect(kind: type[Client], job: Job, ledger: Ledger, number: int, serial: Iterator[int]) -> Client:
    node = number % len(job.ports)
    client = kind(ledger, node, asks(job, number, serial), job.greeting, job.pipeline, job.streams)
    await asyncio.get_running_loop().create_connection(lambda: client, "127.0.0.1", job.ports[node])
    await asyncio.wait_for(client.ready, PATIENCE_S)
    return client


def serials(job: Job) -> Iterator[int]:
    return iter(range(job.first, job.first + job.limit) if job.limit is not None else itertools.count(job.first))


async def run(job: Job) -> Outcome:
    ledger = Ledger(len(job.ports), job.pause_s)
    clients = await connected(job, ledger)
    gc.collect()
    gc.disable()
    if job.limit is not None:
        outcome = await used_up(job, ledger, clients)
    else:
        outcome = await for_a_while(job, ledger, clients)
    ledger.stopped = True
    await drained(ledger, PATIENCE_S)
    for client in clients:
        client.transport.close()
    return msgspec.structs.replace(
        outcome,
        faults=ledger.faults,
        unanswered=ledger.under_way,
        answered=ledger.answered,
        example=ledger.example,
        told=told(ledger.numbers),
        retries=ledger.retries,
    )


async def for_a_while(job: Job, ledger: Ledger, clients: Sequence[Client]) -> Outcome:
    for client in clients:
        client.start()
    await asyncio.sleep(job.warm_s)
    window = Window(job)
    ledger.open = True
    await asyncio.sleep(job.seconds)
    ledger.open = False
    return window.close(ledger)


async def used_up(job: Job, ledger: Ledger, clients: Sequence[Client]) -> Outcome:
    window = Window(job)
    ledger.open = True
    for client in clients:
        client.start()
    await drained(ledger, job.seconds)
    return window.close(ledger)


async def drained(ledger: Ledger, seconds: float) -> None:
    until = time.monotonic() + seconds
    while ledger.under_way and time.monotonic() < until:
        await asyncio.sleep(0.005)


def main() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    job = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=Job)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        outcome = runner.run(run(job))
    sys.stdout.buffer.write(msgspec.msgpack.encode(outcome))


if __name__ == "__main__":
    main()
