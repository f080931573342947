"""Plans in which one fault meets the consequences of another, which random faults rarely do."""

from collections.abc import Callable
from random import Random

from epoxy.protocol.elect.config import ElectTiming
from epoxy_sim.elect.plan import ElectFault, Kind

Story = Callable[[Random, int, int, int], list[ElectFault]]
"""Dice, number of nodes, when it begins, and `down_after_ms`, the unit of all times here."""


def ambush(dice: Random, n: int, timing: ElectTiming, until_ms: int) -> tuple[ElectFault, ...]:
    story = dice.choice(STORIES)
    down_ms = timing.down_after_ms
    begins = range(2 * down_ms, max(2 * down_ms + 1, until_ms - 3 * down_ms), 5 * down_ms)
    faults = [fault for at_ms in begins for fault in story(dice, n, at_ms + dice.randrange(down_ms), down_ms)]
    return tuple(sorted((fault for fault in faults if fault.at_ms < until_ms), key=lambda fault: fault.at_ms))


def fault(kind: Kind, at_ms: float, for_ms: float, *target: int) -> ElectFault:
    return ElectFault(at_ms=int(at_ms), kind=kind, target=target, for_ms=int(for_ms))


def duel(dice: Random, n: int, at_ms: int, down_ms: int) -> list[ElectFault]:
    """The primary dies, two candidates do not hear each other, and a voter restarts right after its vote."""
    one, other, *voters = dice.sample(range(1, n + 1), k=n)
    traps = [fault(Kind.CRASH_ON_VOTE, at_ms, 3 * down_ms, voter) for voter in voters]
    return [fault(Kind.CRASH, at_ms, 3 * down_ms, 0), fault(Kind.APART, at_ms, 2.5 * down_ms, one, other), *traps]


def comes_back(dice: Random, n: int, at_ms: int, down_ms: int) -> list[ElectFault]:  # noqa: ARG001
    """The primary is gone for about as long as it takes to replace it."""
    kind = dice.choice((Kind.PARTITION, Kind.ONE_WAY, Kind.PAUSE))
    return [fault(kind, at_ms, dice.uniform(0.95, 1.35) * down_ms, 0)]


def long_tail(dice: Random, n: int, at_ms: int, down_ms: int) -> list[ElectFault]:  # noqa: ARG001
    """The primary is cut off with writes that no other server has. About when it is back, its successor dies."""
    away_ms = dice.uniform(1.2, 1.4) * down_ms
    death_ms = at_ms + away_ms + dice.uniform(-0.1, 0.05) * down_ms
    return [fault(Kind.PARTITION, at_ms, away_ms, 0), fault(Kind.CRASH, death_ms, 2.5 * down_ms, 0)]


def half_deaf(dice: Random, n: int, at_ms: int, down_ms: int) -> list[ElectFault]:
    """One node does not hear the primary for long. Then the agent of another is restarted, and the primary is
    paused."""
    deaf, restarted = dice.sample(range(1, n + 1), k=2)
    then_ms = at_ms + dice.uniform(0.95, 1.5) * down_ms
    return [
        fault(Kind.APART, at_ms, 4 * down_ms, 0, deaf),
        fault(Kind.PAUSE, then_ms, 0.7 * down_ms, 0),
        fault(Kind.AGENT_CRASH, then_ms + dice.uniform(0, 0.2) * down_ms, 0.02 * down_ms, restarted),
    ]


def staggered(dice: Random, n: int, at_ms: int, down_ms: int) -> list[ElectFault]:
    """Agents lose the connection to the primary's agent one after the other; their servers do not."""
    nodes = dice.sample(range(1, n + 1), k=n)
    steps_ms = [dice.uniform(0, 0.4) * down_ms for _ in nodes[: n // 2 + 1]]
    lasts = dice.choice((1.1, 1.3, 3.0))
    return [
        fault(Kind.SILENT, at_ms + sum(steps_ms[:i]), lasts * down_ms, 0, node)
        for i, node in enumerate(nodes[: n // 2 + 1])
    ]


def amnesia(dice: Random, n: int, at_ms: int, down_ms: int) -> list[ElectFault]:
    """The primary is replaced; its successor is cut off, the old one returns, and a voter has lost its disk. The next
    disk is lost when this one has been filled again."""
    wiped = dice.randint(1, n)
    away_ms = dice.uniform(1.3, 2.0) * down_ms
    return [
        fault(Kind.PARTITION, at_ms, away_ms, 0),
        fault(Kind.WIPE, at_ms + away_ms + dice.uniform(-0.1, 0.1) * down_ms, 0.02 * down_ms, wiped),
        fault(Kind.PARTITION, at_ms + away_ms - dice.uniform(0.0, 0.05) * down_ms, 1.5 * down_ms, 0),
    ]


STORIES: tuple[Story, ...] = (duel, comes_back, long_tail, half_deaf, staggered, amnesia)
