"""Fresh keys in five and in three regions beside etcd, each region killed in turn, and answers from one node alone: the
part `distances` of `python -m benchmarks.wan`."""

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import permutations
from pathlib import Path

from msgspec import Struct

from benchmarks.findings import Counted, Emulated, Findings, Fresh, Killed, Local, Survivor
from benchmarks.load import Client, Load, Request, Sample, fresh_key, get, run_count, run_for
from benchmarks.machine import NOISE_SHARE, Quiet, Watch, commit, machine
from benchmarks.peers import epoxy, etcd
from benchmarks.peers.epoxy import EpoxyCluster
from benchmarks.peers.etcd import EtcdCluster
from benchmarks.peers.wan import FIVE, THREE
from benchmarks.plausible import above_floor, all_answered
from benchmarks.stats import (
    Summary,
    by_region,
    combine,
    epoxy_floor,
    longest_gap_ms,
    percentile,
    raft_floor,
    ratios,
    summarize,
    summarize_regions,
)
from epoxy.transport.wan.aws import rtt_ms

SETTLE_S = 0.4
"""After something changed: longer than any round trip, so that what is under way has arrived."""


class Plan(Struct, frozen=True, kw_only=True):
    """`passes` of every comparison; `seconds` of each stretch of load, `kill_seconds` before a kill and after it.
    `clients` in each region: two, so that a region's writes overlap, and the machine is far from busy. `patience_s` in
    all, to repeat what others disturbed."""

    passes: int = 3
    clients: int = 2
    seconds: float = 3.5
    kill_seconds: float = 3.5
    repeats: int = 200
    patience_s: float = 60.0
    victims: tuple[str, ...] = FIVE


FULL = Plan()
QUICK = Plan(passes=1, patience_s=10.0, seconds=1.5, kill_seconds=2.5, repeats=120, victims=("us-east-1",))


def say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


@contextlib.asynccontextmanager
async def running_epoxy(regions: Sequence[str], folder: Path, *, emulated: bool = False) -> AsyncIterator[EpoxyCluster]:
    folder.mkdir()
    cluster = EpoxyCluster(regions, folder, emulated=emulated)
    try:
        cluster.start()
        await warm_up(cluster.clients(1))
        yield cluster
    finally:
        cluster.stop()


@contextlib.asynccontextmanager
async def running_etcd(binary: Path, regions: Sequence[str], folder: Path) -> AsyncIterator[EtcdCluster]:
    folder.mkdir()
    cluster = EtcdCluster(binary, regions, folder)
    try:
        await cluster.start()
        await warm_up(cluster.clients(1))
        yield cluster
    finally:
        cluster.stop()


async def warm_up(clients: Sequence[Client]) -> None:
    """First requests pay for connections and for code that has never run."""
    await run_count(clients, 3)


# Fresh keys.


async def fresh(ours: EpoxyCluster, theirs: EtcdCluster, plan: Plan, folder: Path, quiet: Quiet) -> Fresh:
    """In turns: a stretch of ours before each leader of theirs. All our stretches of one pass are one round, enough for
    a p99."""
    regions = ours.regions
    watch = Watch(folder)
    floors = {region: epoxy_floor(region, regions) for region in regions}
    etcd_floors = {leader: {here: raft_floor(here, leader, regions) for here in regions} for leader in regions}
    before = ours.carried()
    our_rounds: list[dict[str, Summary]] = []
    their_rounds: dict[str, list[dict[str, Summary]]] = {leader: [] for leader in regions}
    for number in range(plan.passes):
        our_samples: list[Sample] = []
        for leader in regions:
            our_samples += honest("Epoxy", await stretch(ours.clients(plan.clients), plan.seconds, quiet), floors)
            await theirs.lead(leader)
            await warm_up(theirs.clients(1))
            theirs_now = await stretch(theirs.clients(plan.clients), plan.seconds, quiet)
            honest(f"etcd, leader {leader}", theirs_now, etcd_floors[leader])
            their_rounds[leader].append(summarize_regions(theirs_now))
        our_rounds.append(summarize_regions(our_samples))
        say(f"  {len(regions)} regions, fresh keys: pass {number + 1} of {plan.passes}")
    all_answered("Epoxy, links through the proxy", grown(before, ours.carried()))
    mine = combine(our_rounds)
    by_leader = {leader: combine(rounds) for leader, rounds in their_rounds.items()}
    return Fresh(
        regions=regions,
        slow=sum([epoxy.slow_writes(await ours.metrics(region)) for region in regions]),
        floors=floors,
        ours=mine,
        etcd=by_leader,
        etcd_floors=etcd_floors,
        ratios=ratios(mine, by_leader),
        conditions=watch.read(),
    )


async def stretch(clients: Sequence[Client], seconds: float, quiet: Quiet) -> list[Sample]:
    return await quiet(lambda: run_for(clients, seconds), any_failed)


def honest(what: str, samples: list[Sample], floors: Mapping[str, float]) -> list[Sample]:
    """Impossible: one of them is below the floor of its region, or a region has none."""
    seen = by_region(samples)
    all_answered(what, {region: sum(sample.ok for sample in seen.get(region, [])) for region in floors})
    for region, floor in floors.items():
        above_floor(f"{what} in {region}", [sample.took_ms for sample in seen[region] if sample.ok], floor)
    return samples


def grown(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    return {name: count - before[name] for name, count in after.items()}


def any_failed(samples: Sequence[Sample]) -> bool:
    return not all(sample.ok for sample in samples)


async def emulated(plan: Plan, folder: Path, quiet: Quiet) -> Emulated:
    watch = Watch(folder)
    floors = {region: epoxy_floor(region, FIVE) for region in FIVE}
    async with running_epoxy(FIVE, folder / "emulated", emulated=True) as cluster:
        clients = cluster.clients(plan.clients)
        rounds = [
            summarize_regions(honest("nodes' own delay", await stretch(clients, 2 * plan.seconds, quiet), floors))
            for _ in range(plan.passes)
        ]
    return Emulated(floors=floors, ours=combine(rounds), conditions=watch.read())


# A region is killed.


class Kill(Struct, frozen=True):
    """One of them: when, and what the clients elsewhere saw from well before to well after."""

    at_s: float
    began_s: float
    ended_s: float
    samples: list[Sample]


async def killed(cluster: EpoxyCluster, plan: Plan, folder: Path, quiet: Quiet) -> Killed:
    watch = Watch(folder)
    kills: dict[str, list[Kill]] = {victim: [] for victim in plan.victims}
    for number in range(plan.passes):
        for victim in plan.victims:
            kill = await quiet(partial(kill_once, cluster, victim, plan), lambda kill: any_failed(kill.samples))
            honest(
                f"without {victim}", kill.samples, {here: epoxy_floor(here, FIVE) for here in FIVE if here != victim}
            )
            kills[victim].append(kill)
        say(f"  killed: pass {number + 1} of {plan.passes}")
    return Killed(
        victims={victim: survivors(victim, of_victim) for victim, of_victim in kills.items()}, conditions=watch.read()
    )


async def kill_once(cluster: EpoxyCluster, victim: str, plan: Plan) -> Kill:
    load = Load([client for client in cluster.clients(plan.clients) if client.region != victim])
    await asyncio.sleep(SETTLE_S)
    await load.start()
    began = time.perf_counter()
    await asyncio.sleep(plan.kill_seconds)
    at = time.perf_counter()
    cluster.kill(victim)
    await asyncio.sleep(plan.kill_seconds)
    ended = time.perf_counter()
    samples = await load.stop()
    cluster.revive(victim)
    return Kill(at, began, ended, samples)


def survivors(victim: str, kills: Sequence[Kill]) -> dict[str, Survivor]:
    return {region: survivor(region, victim, kills) for region in FIVE if region != victim}


def survivor(region: str, victim: str, kills: Sequence[Kill]) -> Survivor:
    seen = [(kill, by_region(kill.samples)[region]) for kill in kills]
    before = [sample for kill, samples in seen for sample in samples if sample.ended_s <= kill.at_s]
    after = [sample for kill, samples in seen for sample in samples if sample.began_s >= kill.at_s]
    touched = [sample for kill, samples in seen for sample in samples if sample.ended_s > kill.at_s]
    return Survivor(
        floor=epoxy_floor(region, FIVE, missing=[victim]),
        before=summarize(before),
        after=summarize(after),
        failed=sum(not sample.ok for sample in touched),
        worst_ms=max(sample.took_ms for sample in touched),
        pause_before_ms=max(longest_gap_ms(samples, kill.began_s, kill.at_s) for kill, samples in seen),
        pause_after_ms=max(longest_gap_ms(samples, kill.at_s, kill.ended_s) for kill, samples in seen),
    )


# Answers from one node alone.


async def local(ours: EpoxyCluster, theirs: EtcdCluster, plan: Plan, folder: Path) -> Local:
    watch = Watch(folder)
    keys = [fresh_key() for _ in range(plan.repeats)]
    await prepare(ours.ports["us-east-1"], [epoxy.reserve(key, 201) for key in keys])
    await theirs.lead("us-east-1")  # its best
    await prepare(theirs.ports["us-east-1"], [etcd.create(key, succeeds=True) for key in keys])
    await asyncio.sleep(2 * SETTLE_S)
    mine: dict[str, Callable[[bytes], Request]] = {
        "reserving again": lambda key: epoxy.reserve(key, 200),
        "reading": lambda key: epoxy.read(key, "optimistic"),
    }
    other: dict[str, Callable[[bytes], Request]] = {
        "creating again": lambda key: etcd.create(key, succeeds=False),
        "reading, serializable": lambda key: etcd.read(key, linearizable=False),
        "reading, linearizable": lambda key: etcd.read(key, linearizable=True),
    }
    found: dict[str, list[Summary]] = {name: [] for name in (*mine, *other)}
    counts: dict[str, list[Counted]] = {name: [] for name in mine}
    for _ in range(plan.passes):
        for name, make in mine.items():
            summary, counted = await counting(ours, keys, make)
            found[name].append(summary)
            counts[name].append(counted)
        for name, make in other.items():
            found[name].append(summarize(await repeat(theirs.ports, keys[: plan.repeats // 40], make)))
    combined = combine([{name: rounds[i] for name, rounds in found.items()} for i in range(plan.passes)])
    return Local(
        ours={name: combined[name] for name in mine},
        etcd={name: combined[name] for name in other},
        counted={name: add_up(rounds) for name, rounds in counts.items()},
        conditions=watch.read(),
    )


async def prepare(port: int, requests: Sequence[Request]) -> None:
    """Eight at a time: a WAN is slow, and this is not measured."""
    left = iter(requests)
    lanes = [Client("nowhere", port, lambda: next(left)) for _ in range(8)]
    samples = await run_count(lanes, len(requests) // len(lanes))
    rest = await run_count([Client("nowhere", port, lambda: next(left))], len(requests) % len(lanes))
    if not all(sample.ok for sample in samples + rest):
        raise RuntimeError("a key that was to be measured could not be written")


async def repeat(ports: dict[str, int], keys: Sequence[bytes], make: Callable[[bytes], Request]) -> list[Sample]:
    """Region after region, so that none waits for a core."""
    samples: list[Sample] = []
    for region, port in ports.items():
        left = iter([make(key) for key in keys])
        samples += await run_count([Client(region, port, left.__next__)], len(keys))
    return samples


async def counting(
    cluster: EpoxyCluster, keys: Sequence[bytes], make: Callable[[bytes], Request]
) -> tuple[Summary, Counted]:
    messages, pieces, began = await peer_messages(cluster), passed(cluster), time.monotonic()
    samples = await repeat(cluster.ports, keys, make)
    took, busy = time.monotonic() - began, passed(cluster)
    await asyncio.sleep(SETTLE_S)
    more, before_idle = await peer_messages(cluster), passed(cluster)
    await asyncio.sleep(took)
    counted = Counted(
        requests=len(samples),
        messages=more - messages,
        pieces=busy - pieces,
        idle_pieces=passed(cluster) - before_idle,
    )
    return summarize(samples), counted


def add_up(rounds: Sequence[Counted]) -> Counted:
    return Counted(
        requests=sum(each.requests for each in rounds),
        messages=sum(each.messages for each in rounds),
        pieces=sum(each.pieces for each in rounds),
        idle_pieces=sum(each.idle_pieces for each in rounds),
    )


def passed(cluster: EpoxyCluster) -> int:
    assert cluster.proxy is not None
    return sum(counted.pieces for counted in cluster.proxy.counted().values())


async def peer_messages(cluster: EpoxyCluster) -> int:
    """That all nodes have handled for their peers."""
    return sum([epoxy.handled_for_peers(await cluster.metrics(region)) for region in cluster.regions])


# The whole.


async def proxy_adds_ms(cluster: EpoxyCluster) -> float:
    """What a round trip through the proxy takes beyond the table's: the median over all links. The answer itself, at
    home, is in it."""
    above: list[float] = []
    for here, there in permutations(cluster.regions, 2):
        question = Request(get("/healthz", cluster.announced(here)), lambda status, _: status == 200)
        samples = await run_count([Client(here, cluster.door_ports[there], partial(same, question))], 3)
        # The first waits for the proxy to connect.
        took = [sample.took_ms for sample in samples[1:] if sample.ok]
        all_answered("round trips through the proxy", {f"{here}>{there}": len(took)})
        above_floor(f"the round trip from {here} to {there} through the proxy", took, rtt_ms(here, there))
        above += [each - rtt_ms(here, there) for each in took]
    return percentile(above, 0.5)


def same(request: Request) -> Request:
    return request


async def measure(binary: Path, plan: Plan, folder: Path) -> Findings:
    quiet = Quiet(plan.patience_s)
    say("starting five regions of each")
    async with (
        running_epoxy(FIVE, folder / "epoxy-5") as ours,
        running_etcd(binary, FIVE, folder / "etcd-5") as theirs,
    ):
        adds, version = await proxy_adds_ms(ours), await theirs.version()
        five = await fresh(ours, theirs, plan, folder, quiet)
        say("answers from one node alone")
        at_home = await local(ours, theirs, plan, folder)
    say("starting three regions of each")
    async with (
        running_epoxy(THREE, folder / "epoxy-3") as ours,
        running_etcd(binary, THREE, folder / "etcd-3") as theirs,
    ):
        three = await fresh(ours, theirs, plan, folder, quiet)
    say("the nodes' own delay")
    demo = await emulated(plan, folder, quiet)
    say("killing regions")
    async with running_epoxy(FIVE, folder / "epoxy-kill") as ours:
        gone = await killed(ours, plan, folder, quiet)
    return Findings(
        when=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        commit=commit(),
        machine=machine(),
        etcd=version,
        passes=plan.passes,
        clients_each=plan.clients,
        quick=plan is QUICK,
        realtime=os.sched_getscheduler(0) == os.SCHED_RR,
        proxy_adds_ms=adds,
        stretches=len(quiet.noise),
        noisy=sum(noise > NOISE_SHARE for noise in quiet.noise),
        repeated=quiet.repeated,
        five=five,
        three=three,
        emulated=demo,
        killed=gone,
        local=at_home,
    )
