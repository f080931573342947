"""Datacenters that lose their lease while actors work there: cut off, or without power."""

from random import Random

from epoxy_sim.keys.plan import Fault, FaultKind
from epoxy_sim.placement.plan import AskKind, CleanUp, EnvoyFault, EnvoyFaultKind, PlacementPlan, PlacementStep
from epoxy_sim.placement.plans.quiet import (
    CLASSES,
    FUNCTIONS,
    HOME,
    HOME_LEASE_MS,
    MS,
    NEAR_MS,
    ask,
    between,
    call,
    made,
    quiet,
)
from epoxy_sim.placement.workload import ActorDoes

NAMES = (*CLASSES[:2], *FUNCTIONS[:1])
OTHERS = (2, 3)
"""Datacenters."""

CUT_MS = 3_000
"""When it begins: leases were renewed several times by then."""

ABANDON_MS = 3_000
"""What a request may take when its home's lease is over: as long as a node waits for a lease of its own."""


def asked_elsewhere(dice: Random, names: tuple[int, ...], first_ms: int, last_ms: int) -> list[PlacementStep]:
    """All the time, so that a name is taken over as soon as that is possible."""
    return [
        call(between(dice, at_ms, at_ms + 20), dice.choice(OTHERS), name, ActorDoes.ADD, again=at_ms % 500 == 0)
        for at_ms in range(first_ms, last_ms, 50)
        for name in names
    ]


def cut_off(dice: Random, seed: int) -> PlacementPlan:
    """The home is cut off from the others for longer than its lease, in the middle of saves; its workers are not. Its
    actors go on elsewhere. One worker dies right before it, so that some requests wait there for a start; the other one
    connects again while the lease runs out, with long turns under way."""
    for_ms = dice.choice((2.0, 4.0)) * HOME_LEASE_MS
    end_ms = int(CUT_MS + for_ms)
    steps = made(NAMES)
    for name in NAMES:
        steps += [
            call(between(dice, at_ms, at_ms + 20), HOME, name, ActorDoes.ADD) for at_ms in range(2_500, 7_000, 50)
        ]
    steps += [call(between(dice, 2_500, 3_500), HOME, name, ActorDoes.LONG) for name in NAMES]
    steps += asked_elsewhere(dice, NAMES, CUT_MS + HOME_LEASE_MS - 2_000, CUT_MS + HOME_LEASE_MS + 2_000)
    cut_us = between(dice, CUT_MS, CUT_MS + 500)
    kill = EnvoyFault(
        at_us=cut_us - between(dice, 0, 500), kind=EnvoyFaultKind.KILL, envoy=0, for_us=int(MS * (for_ms + 1_000))
    )
    drop = EnvoyFault(at_us=cut_us + between(dice, 1_000, 3_500), kind=EnvoyFaultKind.DROP, envoy=1, for_us=MS)
    faults = (
        Fault(at_us=cut_us, kind=FaultKind.PARTITION, machines=(HOME,)),
        Fault(at_us=end_ms * MS, kind=FaultKind.HEAL, machines=(HOME,)),
    )
    return quiet(
        seed,
        (HOME, HOME, *OTHERS),
        steps,
        until_us=(end_ms + 2_000) * MS,
        threshold_ms=dice.choice((1_000, 5_000)),
        places_ms=NEAR_MS,
        faults=faults,
        envoy_faults=(kill, drop),
        clean_up=dice.choice((CleanUp.SHORT, CleanUp.FULL)),
        answers_within_ms=HOME_LEASE_MS + ABANDON_MS,
    )


def power_cut(dice: Random, seed: int) -> PlacementPlan:
    """The home and its workers are gone for longer than its lease, after many saves; one name was destroyed right
    before that. All are asked for elsewhere."""
    destroyed, *kept = NAMES
    cut_us, for_us = between(dice, CUT_MS, CUT_MS + 500), 2 * HOME_LEASE_MS * MS
    steps = made(NAMES)
    for name in kept:
        steps += [
            call(between(dice, at_ms, at_ms + 50), HOME, name, ActorDoes.ADD) for at_ms in range(1_000, 2_500, 100)
        ]
    steps.append(ask(cut_us - between(dice, 100, 400), HOME, destroyed, AskKind.DESTROY))
    steps += asked_elsewhere(dice, tuple(kept), CUT_MS + HOME_LEASE_MS, CUT_MS + HOME_LEASE_MS + 2_000)
    steps += [ask(cut_us + between(dice, 6_000, 8_000), site, destroyed, AskKind.ENSURE) for site in OTHERS]
    faults = (
        Fault(at_us=cut_us, kind=FaultKind.CRASH, machines=(HOME,)),
        Fault(at_us=cut_us + for_us, kind=FaultKind.RESTART, machines=(HOME,)),
    )
    kill = EnvoyFault(at_us=cut_us, kind=EnvoyFaultKind.KILL, envoy=0, for_us=for_us)
    return quiet(
        seed,
        (HOME, *OTHERS),
        steps,
        until_us=cut_us + for_us + 2_000 * MS,
        threshold_ms=1_000,
        places_ms=NEAR_MS,
        faults=faults,
        envoy_faults=(kill,),
    )


def alarms(dice: Random, seed: int) -> PlacementPlan:
    """Many alarms, of actors that run and of such that sleep. Nothing fails."""
    steps = made(CLASSES)
    for at_ms in range(1_000, 6_000, 500):
        name = dice.choice(CLASSES)
        steps.append(call(between(dice, at_ms, at_ms + 400), HOME, name, ActorDoes.ALARM, in_ms=dice.randrange(4_000)))
    sleep_after_s = dice.choice((0.0, 0.5))
    return quiet(seed, (HOME,) * 2, steps, until_us=12_000 * MS, threshold_ms=1_000, sleep_after_s=sleep_after_s)
