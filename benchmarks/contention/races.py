"""Regions that reserve one fresh name at the same moment. One wins; the others are told who."""

import asyncio
from collections.abc import Mapping, Sequence

from msgspec import Struct

from benchmarks.columns import Part
from benchmarks.contention.asker import Answer
from benchmarks.contention.bounds import at_most, none, p50
from benchmarks.contention.feed import Feed, following
from benchmarks.contention.part import Setting, Sheet, say
from benchmarks.contention.world import World, running
from benchmarks.peers.wan import FIVE
from benchmarks.stats import epoxy_floor

FIELDS = (("us-east-1", "eu-west-1"), ("us-east-1", "eu-west-1", "ap-northeast-1"), FIVE)
RACES = 16
"""Of each field."""

KIND = "race"
WINNER_TIMES, ANY_TIMES, TOLD_MS = 2.5, 5.0, 5.0
"""Times its floor; and how long after its home knows a loser may be told, which two busy cores blur."""

PAUSE_S = 0.35
"""After a race: what is left of it has arrived."""


class Race(Struct, frozen=True, kw_only=True):
    """`known_s`: when each home's feed of changes showed the name."""

    answers: list[Answer]
    known_s: dict[str, float]


class Tally(Struct, kw_only=True):
    """Of many races of one field: multiples of the floors of winners and losers, what was no answer, and what cannot
    be: two winners, or a loser that was told another value. `lag_ms`: from the moment the loser's home knew until it
    was told."""

    racers: int
    winners: list[float] = []
    losers: list[float] = []
    lag_ms: list[float] = []
    failed: int = 0
    split: int = 0
    early: int = 0


async def races(setting: Setting) -> Part:
    sheet = Sheet(setting)
    tallies = []
    async with running(FIVE, setting.folder / "races") as world:
        feeds = {region: await following(world.cluster.ports[region], KIND) for region in FIVE}
        for field in FIELDS:
            say(f"    {len(field)} racers")
            tally = Tally(racers=len(field))
            for _ in range(setting.count(RACES)):
                add(tally, await race(world, field, feeds))
            tallies.append(tally)
        for feed in feeds.values():
            feed.close()
    judge(sheet, tallies)
    return sheet.part()


async def race(world: World, field: Sequence[str], feeds: Mapping[str, Feed]) -> Race:
    key = world.key(KIND)
    askers = [world.asker(region) for region in field]
    await asyncio.gather(*(asker.connected() for asker in askers))
    answers = list(await asyncio.gather(*(asker.reserve(key, asker.region) for asker in askers)))
    await asyncio.sleep(PAUSE_S)
    for asker in askers:
        asker.close()
    known = {region: feeds[region].seen_s[key] for region in field if key in feeds[region].seen_s}
    return Race(answers=answers, known_s=known)


def add(tally: Tally, race: Race) -> None:
    winners = [answer for answer in race.answers if answer.status == 201]
    losers = [answer for answer in race.answers if answer.code == "taken"]
    tally.failed += len(race.answers) - len(winners) - len(losers)
    tally.split += len(winners) > 1 or any(loser.value != winners[0].region for loser in losers if winners)
    tally.winners += [multiple(answer) for answer in winners]
    tally.losers += [multiple(answer) for answer in losers]
    tally.early += sum(multiple(answer) < 1 - 1.0 / epoxy_floor(answer.region, FIVE) for answer in winners)
    tally.lag_ms += [
        (loser.ended_s - race.known_s[loser.region]) * 1e3 for loser in losers if loser.region in race.known_s
    ]


def multiple(answer: Answer) -> float:
    return answer.took_ms / epoxy_floor(answer.region, FIVE)


def judge(sheet: Sheet, tallies: Sequence[Tally]) -> None:
    for tally in tallies:
        what = f"{tally.racers} regions race for one fresh name"
        everyone = tally.winners + tally.losers
        sheet.must(
            at_most(f"{what}: the winner, p50", WINNER_TIMES, p50(tally.winners), "x its floor"),
            at_most(f"{what}: the slowest of all", ANY_TIMES, max(everyone, default=float("inf")), "x its floor"),
            none(f"{what}: without an answer", tally.failed),
            none(f"{what}: two winners, or another's value told", tally.split),
            none(f"{what}: winners sooner than possible", tally.early),
        )
        if tally.lag_ms:
            claim = f"{what}: the loser is told after its home knows, p50"
            sheet.must(at_most(claim, TOLD_MS, p50(tally.lag_ms), " ms", f"most {max(tally.lag_ms):.0f}"))
    sheet.show(
        "Races for one fresh name, as multiples of each region's floor",
        ["racers", "races", "winner p50, most", "losers p50, most", "told after home knows, p50, most, ms"],
        [
            [
                str(tally.racers),
                str(len(tally.winners)),
                spread(tally.winners, "x"),
                spread(tally.losers, "x"),
                spread(tally.lag_ms, ""),
            ]
            for tally in tallies
        ],
    )


def spread(values: Sequence[float], unit: str) -> str:
    return f"{p50(values):.1f}{unit}, {max(values):.1f}{unit}" if values else ""
