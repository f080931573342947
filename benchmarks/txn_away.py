"""A member that was away learns the transactions it missed: `python -m benchmarks.txn_away --count 100000`.

Three real nodes near each other. One is killed while the two others run so many transactions, and started again: how
long it takes until it orders transactions with the others, and how long local reads at it take meanwhile.
"""

import argparse
import asyncio
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.stats import percentile
from epoxy import Add, AsyncClient
from epoxy.cli.demo.cluster import DemoCluster
from epoxy.cli.demo.control import DemoOrder
from epoxy.cli.demo.plan import DemoPlan
from epoxy.cli.demo.region import RegionNode
from epoxy.model.errors import EpoxyError

CLIENTS = 16
"""At each of the two that go on. The more there are, the more go into the same commands, and commands are what has to
be learned."""

SHARED = 50
"""Every so many transactions of a client one on a key that all share, so that some depend on each other."""

READ_EVERY_S = 0.002


async def away(count: int, clients: int, port_base: int) -> None:
    folder = Path(tempfile.mkdtemp(prefix="epoxy-away-"))
    cluster = DemoCluster(DemoPlan(folder=folder, regions=3, port_base=port_base, wan=False))
    cluster.start(lambda _: None)
    try:
        *present, absent = cluster.nodes
        async with AsyncClient(absent.url, timeout=20) as client:
            await client.txn(then=[Add(key=b"kept", amount=1)])
        absent.kill()
        began = time.monotonic()
        await miss(present, count, clients)
        print(f"{count} transactions missed, in {time.monotonic() - began:.0f} s", flush=True)
        order = DemoOrder(verb="revive", region=absent.datacenter, others=())
        revived = asyncio.get_running_loop().run_in_executor(None, cluster.perform, order)
        await catch_up(absent)
        await revived
    finally:
        cluster.kill()


async def miss(nodes: list[RegionNode], count: int, clients: int) -> None:
    share = count // (len(nodes) * clients)

    async def ask(node: RegionNode, number: int) -> None:
        own = f"away/{node.datacenter}/{number}".encode()
        async with AsyncClient(node.url, timeout=60) as client:
            for i in range(share):
                await client.txn(then=[Add(key=b"away/shared" if i % SHARED == 0 else own, amount=1)])

    await asyncio.gather(*(ask(node, number) for node in nodes for number in range(clients)))


async def catch_up(node: RegionNode) -> None:
    async with AsyncClient(node.url, timeout=60) as reader, AsyncClient(node.url, timeout=60) as watcher:
        await answers(watcher)
        began, missed = time.monotonic(), 0
        done = asyncio.Event()
        reading = asyncio.create_task(read_on(reader, done))
        while not is_caught_up(status := await asked(watcher)):
            missed = max(missed, status["txn_behind"])
            await asyncio.sleep(0.02)
        took = time.monotonic() - began
        done.set()
        reads = await reading
    print(f"caught up in {took:.1f} s, at most {missed} decisions behind")
    spread = f"p50 {median(reads):.1f} p99 {percentile(reads, 0.99):.1f} max {max(reads):.1f}"
    print(f"{len(reads)} local reads meanwhile, ms: {spread}")


async def answers(client: AsyncClient) -> None:
    while True:
        try:
            if (await client.status()).ready:
                return
        except EpoxyError:
            pass
        await asyncio.sleep(0.01)


async def asked(client: AsyncClient) -> dict[str, Any]:
    document = (await client.status()).document
    assert isinstance(document, dict)
    return document


def is_caught_up(status: dict[str, Any]) -> bool:
    return bool(status["txn_state"] == "open" and not status["txn_behind"])


async def read_on(client: AsyncClient, done: asyncio.Event) -> list[float]:
    took: list[float] = []
    while not done.is_set():
        began = time.monotonic()
        await client.get("kept")
        took.append((time.monotonic() - began) * 1000)
        await asyncio.sleep(READ_EVERY_S)
    return took


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.txn_away", description=__doc__)
    parser.add_argument("--count", type=int, default=20_000, help="transactions that are missed")
    parser.add_argument("--clients", type=int, default=CLIENTS, help="at each of the two nodes that go on")
    parser.add_argument("--port-base", type=int, default=14_200)
    given = parser.parse_args()
    asyncio.run(away(given.count, given.clients, given.port_base))


if __name__ == "__main__":
    main()
