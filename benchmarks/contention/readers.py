"""A writer, and linearizable readers of its key in all other regions."""

import asyncio
import time

from benchmarks.columns import Part
from benchmarks.contention.asker import failed, paced
from benchmarks.contention.bounds import at_most, early, middle_and_tail, none, p50, p99, stale, told, took, worst
from benchmarks.contention.part import Setting, Sheet, say
from benchmarks.contention.world import World, running
from benchmarks.peers.wan import FIVE
from benchmarks.stats import epoxy_floor

WRITER, RATES = "ap-northeast-1", (2.0, 5.0)
READS = 5.0
"""A second, in each other region."""

SECONDS = 24.0
WRITER_TIMES, READ_TIMES = 1.1, 2.5
"""Times the floor: the writer's p50, the reads' p99."""


async def readers(setting: Setting) -> Part:
    sheet = Sheet(setting)
    rows: list[list[str]] = []
    async with running(FIVE, setting.folder / "readers") as world:
        for rate in RATES:
            say(f"    {WRITER} writes {rate:g} times a second, all others read")
            rows += await reading(world, rate, setting, sheet)
    head = ["writes a second", "region", "what", "floor, ms", "p50, p99, ms", "most", "done", "failed"]
    sheet.show(f"{WRITER} writes a key that all other regions read linearizably, {READS:g} times a second", head, rows)
    return sheet.part()


async def reading(world: World, rate: float, setting: Setting, sheet: Sheet) -> list[list[str]]:
    key = world.key("read")
    await world.settled(key, WRITER)
    until = time.perf_counter() + setting.seconds(SECONDS)
    others = [region for region in FIVE if region != WRITER]
    writes, *reads = await asyncio.gather(
        paced(world.overwriting(WRITER, key), rate, until),
        *(paced(world.reading(region, key), READS, until) for region in others),
    )
    floors = {region: epoxy_floor(region, FIVE) for region in FIVE}
    slowest = {region: p99(took(found)) / floors[region] for region, found in zip(others, reads, strict=True)}
    everything = [read for found in reads for read in found]
    faults = failed([*writes, *everything])
    what = f"{WRITER} writes {rate:g} times a second, 4 regions read linearizably"
    where, times = worst(slowest)
    sheet.must(
        at_most(f"{what}: the writer's p50", WRITER_TIMES, p50(took(writes)) / floors[WRITER], "x its floor"),
        at_most(f"{what}: the reads' p99, worst region", READ_TIMES, times, "x its floor", where),
        none(f"{what}: failed", sum(faults.values()), told(faults)),
        none(f"{what}: reads that saw less than was acknowledged", stale(everything, writes)),
        none(f"{what}: writes sooner than possible", early(writes, FIVE)),
    )
    rows = []
    for region, words, found in [
        (WRITER, "writes", writes),
        *((r, "reads", f) for r, f in zip(others, reads, strict=True)),
    ]:
        times_ms = took(found)
        rows.append(
            [
                f"{rate:g}",
                region,
                words,
                f"{floors[region]:.1f}",
                middle_and_tail(times_ms),
                f"{max(times_ms, default=0.0):.1f}",
                str(len(times_ms)),
                told(failed(found)),
            ]
        )
    return rows
