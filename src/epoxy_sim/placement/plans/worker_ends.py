"""Workers that come back, leave or clean up in the moment in which their actors are given away."""

from random import Random

from epoxy_sim.placement.plan import AskKind, CleanUp, EnvoyFault, EnvoyFaultKind, PlacementPlan
from epoxy_sim.placement.plans.quiet import CLASSES, FUNCTIONS, HOME, MS, ask, between, made, quiet

THRESHOLD_MS = 1_000

TIMES = 10
"""How often a run tries it."""


def late_ping(dice: Random, seed: int) -> PlacementPlan:
    """A worker is cut off for about as long as it takes to be lost, and is back while its expiry waits in the queue:
    it is given actors again, which the expiry must not take from it."""
    every_ms, workers = 2_500, 3
    cuts = [
        EnvoyFault(
            at_us=between(dice, every_ms * turn, every_ms * turn + 250),
            kind=EnvoyFaultKind.CUT,
            envoy=turn % workers,
            for_us=between(dice, 0.75 * THRESHOLD_MS, 1.05 * THRESHOLD_MS),
        )
        for turn in range(1, TIMES + 1)
    ]
    steps = made((*CLASSES, *FUNCTIONS))
    until_us = every_ms * (TIMES + 2) * MS
    return quiet(seed, (HOME,) * workers, steps, until_us=until_us, threshold_ms=THRESHOLD_MS, envoy_faults=cuts)


def impatient_drain(dice: Random, seed: int) -> PlacementPlan:
    """Workers are told to leave, and told again at once: their actors clean up, and another worker waits for that."""
    every_ms = 1_500
    drains = [
        EnvoyFault(
            at_us=between(dice, every_ms * turn, every_ms * turn + 250),
            kind=EnvoyFaultKind.DRAIN,
            envoy=1 + 2 * (turn % 2),
            for_us=THRESHOLD_MS * MS,
        )
        for turn in range(1, TIMES + 1)
    ]
    until_us = every_ms * (TIMES + 2) * MS
    steps = made(range(FUNCTIONS[0], 20, FUNCTIONS[1] - FUNCTIONS[0]))
    return quiet(seed, (HOME,) * 4, steps, until_us=until_us, threshold_ms=THRESHOLD_MS, envoy_faults=drains)


def back_in_clean_up(dice: Random, seed: int) -> PlacementPlan:
    """The only worker is cut off until it is lost, and is back before the code that it cancelled has ended, which is
    long after, or never."""
    clean_up = dice.choice((CleanUp.SLOW, CleanUp.ENDLESS))
    turns = TIMES if clean_up is CleanUp.SLOW else 1
    cuts = [
        EnvoyFault(
            at_us=between(dice, 6_000 * turn, 6_000 * turn + 250),
            kind=EnvoyFaultKind.CUT,
            envoy=0,
            for_us=between(dice, 1.1 * THRESHOLD_MS, 2 * THRESHOLD_MS),
        )
        for turn in range(1, turns + 1)
    ]
    until_us = 6_000 * (turns + 1) * MS
    return quiet(
        seed,
        (HOME,),
        made(FUNCTIONS),
        until_us=until_us,
        threshold_ms=THRESHOLD_MS,
        envoy_faults=cuts,
        clean_up=clean_up,
    )


def made_anew(dice: Random, seed: int) -> PlacementPlan:
    """Actors are destroyed, and their names asked for again while they clean up."""
    steps = made((*CLASSES, *FUNCTIONS))
    for turn in range(1, TIMES + 1):
        for name in (*CLASSES, *FUNCTIONS):
            at_us = between(dice, 1_000 * turn, 1_000 * turn + 500)
            steps.append(ask(at_us, HOME, name, AskKind.DESTROY))
            steps.append(ask(at_us + between(dice, 2, 60), HOME, name, AskKind.ENSURE))
    return quiet(seed, (HOME,) * 3, steps, until_us=1_000 * (TIMES + 2) * MS, threshold_ms=THRESHOLD_MS)
