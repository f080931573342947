"""One hot key, clients in every region, ours and etcd's behind the same delay proxy, one after the other."""

import asyncio
import time
from collections.abc import Mapping, Sequence

import msgspec

from benchmarks.columns import Part
from benchmarks.contention.asker import Answer, closed_loop, failed
from benchmarks.contention.bounds import (
    above_way,
    account,
    at_least,
    at_most,
    early,
    none,
    number,
    owner_of,
    p50,
    p99,
    told,
    took,
    way_ms,
    worst,
)
from benchmarks.contention.part import Setting, Sheet, say
from benchmarks.contention.world import running
from benchmarks.findings import Verdict
from benchmarks.load import Client, Request, Sample, post, run_for
from benchmarks.peers.etcd import EtcdCluster, text
from benchmarks.peers.wan import FIVE
from benchmarks.plausible import above_floor
from benchmarks.stats import by_region, percentile, raft_floor

EACH = 10
"""Clients in each region."""

WARM_S = 4.0
"""Until hints and queues are what they will be; longer than a hint lives."""

SECONDS = 15.0
ABOVE_MS = 15.0
LEADER = "us-east-1"
"""Of etcd: the best for these regions, which has the lowest mean."""

OF_ETCD = 1.0


async def hot(setting: Setting) -> Part:
    sheet = Sheet(setting)
    rate = await ours(setting, sheet)
    if setting.etcd is None:
        say("    no etcd here: nothing stands beside it")
        return sheet.part()
    theirs, rows = await etcds(setting)
    sheet.show(
        f"etcd with its leader in {LEADER}, the same clients and delays", ["region", "a second", "p50, ms"], rows
    )
    claim = f"hot key, 5 regions, {EACH} clients each: writes a second, to etcd with its leader in {LEADER}"
    words = f"{rate:.0f} to {theirs:.0f}"
    sheet.must(at_least(claim, OF_ETCD, rate / theirs, "x", words))
    return sheet.part()


async def ours(setting: Setting, sheet: Sheet) -> float:
    """Writes a second."""
    seconds = setting.seconds(SECONDS)
    async with running(FIVE, setting.folder / "hot", proxied=True) as world:
        key = world.key("hot")
        before = (await world.settled(key, FIVE[0])).version
        began = time.perf_counter()
        until = began + setting.seconds(WARM_S) + seconds
        loops = [closed_loop(world.overwriting(region, key), until) for region in FIVE for _ in range(EACH)]
        answers = [answer for found in await asyncio.gather(*loops) for answer in found]
        after = await world.version(key, FIVE[0])
    counted = [answer for answer in answers if until - seconds <= answer.ended_s < until]
    middle = {region: p50(took(of(counted, region))) for region in FIVE}
    owner = owner_of(middle, FIVE)
    where, above = worst(above_way(middle, owner, FIVE))
    accounted = account(answers, before, after)
    faults = failed(answers)
    what = f"hot key, 5 regions, {EACH} clients each"
    sheet.must(
        at_most(
            f"{what}: p50 above the round trip to the owner + its floor, worst region",
            ABOVE_MS,
            above,
            " ms",
            f"{where}, owner {owner}",
        ),
        none(f"{what}: failed writes", sum(faults.values()), told(faults)),
        none(f"{what}: acknowledged sooner than possible", early(answers, FIVE)),
        none(f"{what}: versions told twice", accounted.again),
        Verdict(
            claim=f"{what}: the version grew by what was acknowledged",
            wanted="yes",
            found=f"by {accounted.grew_by}, {accounted.acknowledged} acknowledged, {accounted.indefinite} unknown",
            held=accounted.missing == 0,
        ),
    )
    rows = region_rows(counted, owner, seconds)
    sheet.show(
        f"One hot key, 5 regions, {EACH} clients in each; owner, as the figures tell: {owner}",
        ["region", "to the owner + its floor, ms", "p50, ms", "above", "p99, ms", "a second", "failed"],
        rows,
    )
    return sum(answer.ok for answer in counted) / seconds


def of(answers: Sequence[Answer], region: str) -> list[Answer]:
    return [answer for answer in answers if answer.region == region]


def region_rows(answers: Sequence[Answer], owner: str, seconds: float) -> list[list[str]]:
    rows = []
    for region in FIVE:
        mine = of(answers, region)
        times, way = took(mine), way_ms(region, owner, FIVE)
        rows.append(
            [
                region,
                f"{way:.1f}",
                number(p50(times)),
                number(p50(times) - way),
                number(p99(times)),
                f"{len(times) / seconds:.1f}",
                told(failed(mine)),
            ]
        )
    return rows


async def etcds(setting: Setting) -> tuple[float, list[list[str]]]:
    assert setting.etcd is not None
    folder, seconds = setting.folder / "hot-etcd", setting.seconds(SECONDS)
    folder.mkdir()
    cluster = EtcdCluster(setting.etcd, FIVE, folder)
    try:
        await cluster.start()
        await cluster.lead(LEADER)
        clients = [Client(region, cluster.ports[region], putting) for region in FIVE for _ in range(EACH)]
        await run_for(clients, setting.seconds(WARM_S))
        samples = await run_for(clients, seconds)
    finally:
        cluster.stop()
    return etcd_rate(by_region(samples), seconds)


def etcd_rate(seen: Mapping[str, Sequence[Sample]], seconds: float) -> tuple[float, list[list[str]]]:
    rows, total = [], 0.0
    for region, samples in seen.items():
        times = [sample.took_ms for sample in samples if sample.ok]
        above_floor(f"etcd in {region}", times, raft_floor(region, LEADER, FIVE))
        total += len(times) / seconds
        rows.append([region, f"{len(times) / seconds:.1f}", f"{percentile(times, 0.5):.1f}"])
    return total, rows


PUT = post("/v3/kv/put", msgspec.json.encode({"key": text(b"hot"), "value": text(b"us-east-1/12345")}))


def putting() -> Request:
    return Request(PUT, lambda status, _: status == 200)
