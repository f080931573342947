"""No quorum in reach: two of five regions are cut off from the others. How long until a client is told, and whether the
answer is definite."""

import asyncio
import time
from collections.abc import Sequence

from benchmarks.columns import Part
from benchmarks.contention.asker import Answer
from benchmarks.contention.bounds import at_most
from benchmarks.contention.part import Setting, Sheet, say
from benchmarks.contention.world import World, running
from benchmarks.findings import Verdict
from benchmarks.peers.wan import FIVE

FEW = ("ap-northeast-1", "sa-east-1")
REFUSED_MS = 2500.0
LATER_S = 3.0
"""Until the nodes know: a peer is found missing after about two seconds. What is asked then is not put forward."""

BACK_MS = 5000.0
"""For a write to succeed after the links are back: the pause before peers connect again is in it."""

Asked = tuple[str, Answer]
"""What was asked for, and what came of it."""


async def minority(setting: Setting) -> Part:
    sheet = Sheet(setting)
    async with running(FIVE, setting.folder / "minority") as world:
        key = world.key("minority")
        await world.settled(key, FIVE[0])
        say(f"    {' and '.join(FEW)} are cut off")
        with world.apart(FEW):
            first = asyncio.gather(*(everything(world, region, key) for region in FEW))
            await asyncio.sleep(LATER_S)
            later = await asyncio.gather(*(everything(world, region, key) for region in FEW))
            at_once = await first
        back = await returned(world)
    judge(sheet, flat(at_once), flat(later), back)
    return sheet.part()


async def everything(world: World, region: str, key: str) -> list[Asked]:
    """At the same time, each on a connection of its own."""
    asked = {
        "a fresh name": world.reserving(region, "minority"),
        "an overwrite": world.overwriting(region, key),
        "a linearizable read": world.reading(region, key),
    }
    answers = await asyncio.gather(*(make() for make in asked.values()))
    return list(zip(asked, answers, strict=True))


def flat(found: Sequence[Sequence[Asked]]) -> list[Asked]:
    return [each for of_region in found for each in of_region]


async def returned(world: World) -> float:
    """Milliseconds from the healing until a fresh name is reserved there."""
    began = time.perf_counter()
    reserve = world.reserving(FEW[0], "minority")
    while not (await reserve()).ok and time.perf_counter() - began < 3 * BACK_MS / 1e3:
        await asyncio.sleep(0.05)
    return (time.perf_counter() - began) * 1e3


def judge(sheet: Sheet, at_once: Sequence[Asked], later: Sequence[Asked], back_ms: float) -> None:
    what = "two of five regions cut off"
    slowest = max(answer.took_ms for _, answer in later)
    unclear = [f"{words} in {answer.region}" for words, answer in later if answer.ok or not answer.definite]
    claim = f"{what}, {LATER_S:g} s later: the last refusal"
    sheet.must(
        at_most(claim, REFUSED_MS, slowest, " ms"),
        Verdict(
            claim=f"{what}, {LATER_S:g} s later: refusals that are not definite",
            wanted="0",
            found=f"{len(unclear)} of {len(later)}",
            held=not unclear,
        ),
        at_most(f"{what}, at once: the last answer", REFUSED_MS, max(answer.took_ms for _, answer in at_once), " ms"),
        at_most(f"{what}: back again, until a name is reserved", BACK_MS, back_ms, " ms"),
    )
    for words, answers in (("at once", at_once), (f"{LATER_S:g} s later", later)):
        sheet.show(
            f"Two of five regions cut off, asked {words}",
            ["asked for", "region", "after, ms", "answer", "definite"],
            [
                [
                    kind,
                    answer.region,
                    f"{answer.took_ms:,.0f}",
                    answer.code or "done",
                    "yes" if answer.definite else "no",
                ]
                for kind, answer in answers
            ],
        )
