"""Failures that are no crashes: a replica that stopped, a link or one direction of it cut, a disk that takes 300 ms to
sync. Every region reads and writes meanwhile; what counts is how many requests are slow."""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from msgspec import Struct

from benchmarks.columns import Part
from benchmarks.contention.asker import Answer, failed, paced
from benchmarks.contention.bounds import SLOW_MS, SLOW_TIMES, at_most, none, slow_count, told
from benchmarks.contention.part import Setting, Sheet, say
from benchmarks.contention.world import World, running
from benchmarks.peers.wan import FIVE
from benchmarks.stats import epoxy_floor

VICTIM, OTHER = "us-east-1", "us-west-2"
"""The victim is in the nearest quorum of every region, the other in that of most."""

BEFORE_S, DURING_S, AFTER_S = 2.0, 9.0, 2.0
RATE = 5.0
"""Reads, and writes, a second in each region."""

MOST_SLOW = 2


class Failure(Struct, frozen=True, kw_only=True):
    """`lost`: whose replicas a region cannot count on, by region. `excused`: what cannot be quick, all requests at a
    stopped node and the writes at a node with a slow disk, which waits for its own sync."""

    name: str
    begin: Callable[[World], AbstractContextManager[None]]
    lost: Callable[[str], tuple[str, ...]]
    excused: frozenset[tuple[str, str]] = frozenset()


def of_the_link(region: str) -> tuple[str, ...]:
    return {VICTIM: (OTHER,), OTHER: (VICTIM,)}.get(region, ())


def of_the_victim(region: str) -> tuple[str, ...]:
    return () if region == VICTIM else (VICTIM,)


FAILURES = (
    Failure(
        name=f"{VICTIM} is stopped (SIGSTOP)",
        begin=lambda world: world.stopped(VICTIM),
        lost=of_the_victim,
        excused=frozenset({(VICTIM, "reads"), (VICTIM, "writes")}),
    ),
    Failure(name=f"the link {VICTIM} - {OTHER} is cut", begin=lambda world: world.cut(VICTIM, OTHER), lost=of_the_link),
    Failure(
        name=f"{VICTIM} to {OTHER} is cut, one direction",
        begin=lambda world: world.cut(VICTIM, OTHER, both_ways=False),
        lost=of_the_link,
    ),
    Failure(
        name=f"the disk of {VICTIM} takes 300 ms to sync",
        begin=lambda world: world.slow_disk(VICTIM),
        lost=of_the_victim,
        excused=frozenset({(VICTIM, "writes")}),
    ),
)


class Seen(Struct, frozen=True, kw_only=True):
    region: str
    kind: str
    floor: float
    usual: int
    slow: int
    most_ms: float
    count: int
    excused: bool
    faults: dict[str, int]


async def gray(setting: Setting) -> Part:
    sheet = Sheet(setting)
    rows: list[list[str]] = []
    async with running(FIVE, setting.folder / "gray", slow=[VICTIM]) as world:
        for failure in FAILURES:
            say(f"    {failure.name}")
            seen = await failing(world, failure, setting)
            judge(sheet, failure, seen)
            rows += [shown(failure, one) for one in seen if one.slow or one.faults]
            await asyncio.sleep(setting.seconds(AFTER_S))
    sheet.show(
        f"Requests slower than {SLOW_TIMES:g} times the floor of those left and {SLOW_MS:g} ms; where there are none, "
        "no row",
        ["failure", "region", "what", "floor of those left, ms", "slow", "of", "slowest, ms", "slow before", "failed"],
        rows,
    )
    return sheet.part()


async def failing(world: World, failure: Failure, setting: Setting) -> list[Seen]:
    key = world.key("gray")
    await world.settled(key, OTHER)
    before, during = setting.seconds(BEFORE_S), setting.seconds(DURING_S)
    began = time.perf_counter()
    until = began + before + during
    loops = [paced(world.reading(region, key), RATE, until) for region in FIVE]
    loops += [paced(world.reserving(region, "gray"), RATE, until) for region in FIVE]
    under_way = asyncio.gather(*loops)
    await asyncio.sleep(before)
    with failure.begin(world):
        await asyncio.sleep(until - time.perf_counter())
    found = await under_way
    return [
        watched(failure, region, kind, answers, began + before, until)
        for (region, kind), answers in zip(
            [(region, kind) for kind in ("reads", "writes") for region in FIVE], found, strict=True
        )
    ]


def watched(failure: Failure, region: str, kind: str, answers: Sequence[Answer], begin_s: float, end_s: float) -> Seen:
    """Of the requests that were under way or begun while it lasted; those that began before are counted apart."""
    floor = epoxy_floor(region, FIVE, missing=failure.lost(region))
    touched = [answer for answer in answers if answer.ended_s > begin_s and answer.began_s < end_s]
    earlier = [answer for answer in answers if answer.ended_s <= begin_s]
    return Seen(
        region=region,
        kind=kind,
        floor=floor,
        usual=slow_count(earlier, epoxy_floor(region, FIVE)),
        slow=slow_count(touched, floor),
        most_ms=max((answer.took_ms for answer in touched), default=0.0),
        count=len(touched),
        excused=(region, kind) in failure.excused,
        faults=failed(touched),
    )


def judge(sheet: Sheet, failure: Failure, seen: Sequence[Seen]) -> None:
    for kind in ("reads", "writes"):
        judged = [one for one in seen if one.kind == kind and not one.excused]
        worst = max(judged, key=lambda one: one.slow)
        sheet.must(
            at_most(
                f"{failure.name}: slow {kind}, worst region",
                MOST_SLOW,
                worst.slow,
                "",
                f"{worst.region} of {worst.count}",
            ),
        )
    lost = {one.region: one.faults for one in seen if not one.excused and one.faults}
    count = sum(sum(faults.values()) for faults in lost.values())
    sheet.must(none(f"{failure.name}: failed", count, "; ".join(f"{here} {told(each)}" for here, each in lost.items())))


def shown(failure: Failure, one: Seen) -> list[str]:
    return [
        failure.name,
        one.region,
        one.kind,
        f"{one.floor:.1f}",
        f"{one.slow}{' (not judged)' if one.excused else ''}",
        str(one.count),
        f"{one.most_ms:.0f}",
        str(one.usual),
        told(one.faults),
    ]
