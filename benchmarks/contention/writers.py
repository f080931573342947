"""Few writers of one key, far from each other: one that writes now and then beside one that writes all the time, and
closed loops."""

import asyncio
import time
from collections.abc import Sequence

from benchmarks.columns import Part
from benchmarks.contention.asker import Answer, closed_loop, failed, paced
from benchmarks.contention.bounds import (
    account,
    at_least,
    at_most,
    early,
    middle_and_tail,
    none,
    p50,
    shares,
    told,
    took,
    way_ms,
)
from benchmarks.contention.part import Setting, Sheet, say
from benchmarks.contention.world import World, running
from benchmarks.peers.wan import FIVE

OWNER, OWNERS_RATE = "us-east-1", 5.0
DISTANT, DISTANT_RATE = ("ap-northeast-1", "eu-west-1"), 0.7
DISTANT_S, DISTANT_ABOVE_MS = 20.0, 20.0

FIELDS = (("us-east-1", "eu-west-1"), ("us-east-1", "eu-west-1", "ap-northeast-1"), FIVE)
LOOP_S, WARM_S = 15.0, 3.0
LEAST_SHARE = 0.5


async def distant(setting: Setting) -> Part:
    sheet = Sheet(setting)
    rows: list[list[str]] = []
    async with running(FIVE, setting.folder / "distant") as world:
        for region in DISTANT:
            say(f"    {region} beside {OWNER} at {OWNERS_RATE:g} a second")
            rows.append(await beside(world, region, setting, sheet))
    head = ["distant writer", "to the owner + its floor, ms", "p50, p99, ms", "written", "failed"]
    sheet.show(
        f"{OWNER} writes a key {OWNERS_RATE:g} times a second, another region {DISTANT_RATE:g} times",
        [*head, f"p50, p99 of {OWNER}, ms", "failed there"],
        rows,
    )
    return sheet.part()


async def beside(world: World, region: str, setting: Setting, sheet: Sheet) -> list[str]:
    key = world.key("distant")
    before = (await world.settled(key, OWNER)).version
    until = time.perf_counter() + setting.seconds(DISTANT_S)
    owners, others = await asyncio.gather(
        paced(world.overwriting(OWNER, key), OWNERS_RATE, until),
        paced(world.overwriting(region, key), DISTANT_RATE, until),
    )
    accounted = account([*owners, *others], before, await world.version(key, OWNER))
    way, times = way_ms(region, OWNER, FIVE), took(others)
    faults, near = failed(others), failed(owners)
    what = f"{region} beside an owner at {OWNERS_RATE:g} writes a second"
    claim = f"{what}: p50 above the round trip to the owner + its floor"
    sheet.must(
        none(f"{what}: failed writes", sum(faults.values()) + sum(near.values()), told(merged(faults, near))),
        at_most(claim, DISTANT_ABOVE_MS, p50(times) - way, " ms"),
        none(f"{what}: acknowledged sooner than possible", early([*owners, *others], FIVE)),
        none(f"{what}: versions told twice or missing", accounted.again + accounted.missing),
    )
    mine = took(owners)
    return [
        region,
        f"{way:.1f}",
        middle_and_tail(times),
        str(len(times)),
        told(faults),
        middle_and_tail(mine),
        told(near),
    ]


def merged(one: dict[str, int], other: dict[str, int]) -> dict[str, int]:
    return {word: one.get(word, 0) + other.get(word, 0) for word in {*one, *other}}


async def loops(setting: Setting) -> Part:
    sheet = Sheet(setting)
    rows: list[list[str]] = []
    async with running(FIVE, setting.folder / "loops") as world:
        for field in FIELDS:
            say(f"    closed loops from {len(field)} regions")
            rows += await looping(world, field, setting, sheet)
    sheet.show(
        "One client in each region overwrites the same key in a closed loop",
        ["regions", "region", "a second", "of an even share", "p50, p99, ms", "failed"],
        rows,
    )
    return sheet.part()


async def looping(world: World, field: Sequence[str], setting: Setting, sheet: Sheet) -> list[list[str]]:
    key = world.key("loops")
    before = (await world.settled(key, field[0])).version
    seconds = setting.seconds(LOOP_S)
    until = time.perf_counter() + setting.seconds(WARM_S) + seconds
    found = await asyncio.gather(*(closed_loop(world.overwriting(region, key), until) for region in field))
    answers = [answer for each in found for answer in each]
    accounted = account(answers, before, await world.version(key, field[0]))
    counted = {region: within(each, until - seconds, until) for region, each in zip(field, found, strict=True)}
    done = {region: len(took(each)) for region, each in counted.items()}
    of_even, faults = shares(done), failed(answers)
    least = min(of_even, key=lambda region: of_even[region])
    what = f"closed loops from {len(field)} regions"
    sheet.must(
        at_least(f"{what}: the least region, of an even share", LEAST_SHARE, of_even[least], "x", least),
        none(f"{what}: failed writes", sum(faults.values()), told(faults)),
        none(f"{what}: acknowledged sooner than possible", early(answers, FIVE)),
        none(f"{what}: versions told twice or missing", accounted.again + accounted.missing),
    )
    return [
        [
            str(len(field)),
            region,
            f"{done[region] / seconds:.1f}",
            f"{of_even[region]:.2f}x",
            middle_and_tail(took(each)),
            told(failed(each)),
        ]
        for region, each in counted.items()
    ]


def within(answers: Sequence[Answer], begin_s: float, end_s: float) -> list[Answer]:
    return [answer for answer in answers if begin_s <= answer.ended_s < end_s]
