"""Transactions, measured on real processes: `python -m benchmarks.txn wan|near|killed`.

    wan      five regions with the round trips between them: transactions without contention, 2 % with it, all on one
             key; latency of each region against its floor, and the share that took one round
    near     three regions without delays: transactions a second beside single writes in turns, one at a time and many
             at once
    killed   a coordinator is killed in mid-transaction: how long another client waits for the same key

Keys are used before they are measured: the first transaction on a key also decides whom it belongs to.
"""

import argparse
import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from statistics import fmean, median
from typing import Any

from benchmarks.plausible import above_floor, all_answered, sendable
from benchmarks.stats import percentile
from epoxy import Add, AsyncClient, Status
from epoxy.cli.demo.cluster import DemoCluster
from epoxy.cli.demo.control import DemoOrder
from epoxy.cli.demo.plan import DemoPlan
from epoxy.cli.demo.region import RegionNode
from epoxy.model.errors import EpoxyError

SECONDS = 6.0
PORT_BASE = 14_100
Ask = Callable[[AsyncClient, int], Awaitable[object]]


def bump(key: str) -> Ask:
    return lambda client, _: client.txn(then=[Add(key=key.encode(), amount=1)])


def cluster_of(size: int, *, wan: bool) -> DemoCluster:
    folder = Path(tempfile.mkdtemp(prefix="epoxy-txn-"))
    cluster = DemoCluster(DemoPlan(folder=folder, regions=size, port_base=PORT_BASE, wan=wan))
    cluster.start(lambda _: None)
    return cluster


async def keep_asking(node: RegionNode, ask: Ask, until: float, number: int) -> list[float]:
    """One client, one thing at a time: how long each took, in milliseconds."""
    took: list[float] = []
    async with AsyncClient(node.url, timeout=10) as client:
        while time.monotonic() < until:
            began = time.monotonic()
            await ask(client, number)
            took.append((time.monotonic() - began) * 1000)
    return took


async def load(nodes: list[RegionNode], asks: Callable[[int, int], Ask], clients: int) -> list[list[float]]:
    """`clients` at every node for some seconds; what each node's clients saw."""
    until = time.monotonic() + SECONDS
    jobs = [[keep_asking(node, asks(i, c), until, c) for c in range(clients)] for i, node in enumerate(nodes)]
    done = await asyncio.gather(*(asyncio.gather(*each) for each in jobs))
    return [[took for one in each for took in one] for each in done]


def told(status: Status) -> dict[str, Any]:
    assert isinstance(status.document, dict)
    return status.document


async def fast_share(nodes: list[RegionNode]) -> str:
    shares = []
    for node in nodes:
        async with AsyncClient(node.url) as client:
            shares.append(told(await client.status()).get("txn_fast_path_share"))
    return " ".join("-" if share is None else f"{share:.1%}" for share in shares)


async def wan() -> None:
    cluster = cluster_of(5, wan=True)
    try:
        await use([node.url for node in cluster.nodes], [f"own/{i}/{c}" for i in range(5) for c in range(2)])
        await use([cluster.nodes[0].url], ["hot", *(f"some/{i}" for i in range(50))])
        floors = await floors_of(cluster.nodes)
        calm = await load(cluster.nodes, lambda i, c: bump(f"own/{i}/{c}"), 2)
        tell("no contention", cluster, calm, floors)
        print("  fast share so far", await fast_share(cluster.nodes))
        some = await load(cluster.nodes, few_conflicts, 2)
        tell("2 % on shared keys", cluster, some, floors)
        print("  fast share so far", await fast_share(cluster.nodes))
        hot = await load(cluster.nodes, lambda _, __: bump("hot"), 1)
        tell("all on one key", cluster, hot, floors)
        all_latencies = sorted(took for each in hot for took in each)
        p50 = median(took for each in calm for took in each)
        p99 = percentile(all_latencies, 0.99)
        print(f"  p99 of all {p99:.0f} ms is {p99 / p50:.1f} times the uncontended p50 of {p50:.0f} ms")
    finally:
        cluster.kill()


def few_conflicts(region: int, client: int) -> Ask:
    dice = Random(f"{region}/{client}")

    async def ask(at: AsyncClient, _: int) -> object:
        shared = dice.random() < 0.02
        return await bump("some/0" if shared else f"own/{region}/{client}")(at, 0)

    return ask


async def use(urls: list[str], keys: list[str]) -> None:
    for url in urls:
        async with AsyncClient(url, timeout=20) as client:
            for key in keys:
                await bump(key)(client, 0)


async def floors_of(nodes: list[RegionNode]) -> list[float]:
    floors = []
    for node in nodes:
        async with AsyncClient(node.url) as client:
            floors.append(told(await client.status())["floor_ms"])
    return floors


def tell(title: str, cluster: DemoCluster, took: list[list[float]], floors: list[float]) -> None:
    all_answered(title, {node.datacenter: len(each) for node, each in zip(cluster.nodes, took, strict=True)})
    for node, each in zip(cluster.nodes, took, strict=True):
        least = cluster.plan.floor_ms(node.datacenter, cluster.plan.names)
        above_floor(f"{title}, {node.datacenter}", each, least or 0.0)
    print(title)
    for node, each, floor in zip(cluster.nodes, took, floors, strict=True):
        each = sorted(each)
        print(
            f"  {node.datacenter:15} floor {floor:6.1f}  p50 {median(each):6.1f}  p99 {percentile(each, 0.99):6.1f}"
            f"  over the floor {median(each) - floor:5.1f} ms  {len(each)} transactions"
        )


async def near() -> None:
    cluster = cluster_of(3, wan=False)
    try:
        for clients in (1, 8, 32, 128):
            await use([cluster.nodes[0].url], [f"k{c}" for c in range(clients)])
            rates: dict[str, list[float]] = {"transactions": [], "single writes": []}
            for _ in range(3):
                for name, ask in (("transactions", a_txn), ("single writes", a_put)):
                    done = await load(cluster.nodes[:1], lambda _, __, ask=ask: ask, clients)  # type: ignore[misc]
                    check_rate(name, clients, done[0])
                    rates[name].append(len(done[0]) / SECONDS)
            txns, puts = (median(rates[name]) for name in rates)
            print(f"{clients:4} clients: {txns:7.0f} transactions/s, {puts:7.0f} writes/s, {txns / puts:.2f}")
    finally:
        cluster.kill()


def check_rate(what: str, clients: int, took: list[float]) -> None:
    all_answered(what, {"the node": len(took)})
    mean_ms, most_ms = fmean(took), max(took)
    sendable(what, operations=len(took), in_flight=clients, mean_ms=mean_ms, most_ms=most_ms, seconds=SECONDS)


def a_txn(client: AsyncClient, number: int) -> Awaitable[object]:
    return bump(f"k{number}")(client, number)


def a_put(client: AsyncClient, number: int) -> Awaitable[object]:
    return client.put(f"put/{number}", b"1")


async def killed() -> None:
    cluster = cluster_of(3, wan=False)
    waits: list[float] = []
    try:
        for attempt in range(6):
            victim, witness = cluster.nodes[attempt % 3], cluster.nodes[(attempt + 1) % 3]
            await use([witness.url, victim.url], ["shared"])
            async with AsyncClient(victim.url, timeout=5) as doomed, AsyncClient(witness.url, timeout=20) as client:
                jobs = [asyncio.create_task(quietly(bump("shared"), doomed)) for _ in range(20)]
                await asyncio.sleep(0.004 * attempt)
                victim.kill()
                began = time.monotonic()
                await bump("shared")(client, 0)
                waits.append((time.monotonic() - began) * 1000)
                await asyncio.gather(*jobs)
            cluster.perform(DemoOrder(verb="revive", region=victim.datacenter, others=()))
        print("waits after a kill, ms:", " ".join(f"{wait:.0f}" for wait in waits))
    finally:
        cluster.kill()


async def quietly(ask: Ask, client: AsyncClient) -> None:
    try:
        await ask(client, 0)
    except EpoxyError:
        return


def main() -> None:
    measures = {"wan": wan, "near": near, "killed": killed}
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.txn", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("measure", choices=measures)
    asyncio.run(measures[parser.parse_args().measure]())


if __name__ == "__main__":
    main()
