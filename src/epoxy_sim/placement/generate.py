"""A plan from a seed: every datacenter asks for the same few names, mostly at once, while nodes and envoys fail.

Every fourth seed aims at the moment in which one rule counts instead (`plans/`)."""

from random import Random

from msgspec.structs import replace

from epoxy.model.quorum import QuorumPolicy
from epoxy_sim.keys import generate as per_key
from epoxy_sim.keys.plan import ClusterPlan, Fault, FaultKind, has_embedded_store
from epoxy_sim.placement.plan import AskKind, CleanUp, EnvoyFault, EnvoyFaultKind, PlacementPlan, PlacementStep
from epoxy_sim.placement.plans.lost_homes import alarms, cut_off, power_cut
from epoxy_sim.placement.plans.worker_ends import back_in_clean_up, impatient_drain, late_ping, made_anew
from epoxy_sim.placement.workload import ActorDoes

SIZES = (1, 2, 3, 3, 3, 4, 5)
RATES = (1.0, 0.99, 1.01)

ENVOY_FAULTS = (EnvoyFaultKind.KILL, EnvoyFaultKind.CUT, EnvoyFaultKind.DROP, EnvoyFaultKind.DRAIN, EnvoyFaultKind.FAIL)

STANDSTILLS = (EnvoyFaultKind.STOP, EnvoyFaultKind.BLOCK, EnvoyFaultKind.SUSPEND)

HOUR_MS = 3_600_000

DOES = (
    *(ActorDoes.ADD, ActorDoes.ADD, ActorDoes.ADD, ActorDoes.READ, ActorDoes.READ, ActorDoes.NOTHING),
    *(ActorDoes.BREAK, ActorDoes.ALARM, ActorDoes.SLEEP),
)

HOME_LEASE_MS = 5_000
"""The shortest that may be configured."""

ALONE = 0.2
"""Share of the runs with one envoy in each datacenter."""

WALL_STEPS_MS = (0, 0, -HOUR_MS, HOUR_MS, -1_500)
"""How far an operator or a dead battery sets a wall clock between two starts."""

ASKS = (AskKind.ENSURE, AskKind.ENSURE, AskKind.ENSURE, AskKind.CREATE, AskKind.GET, AskKind.DESTROY)


AIMED = (late_ping, impatient_drain, back_in_clean_up, made_anew, cut_off, power_cut, alarms)
AIMED_EVERY = 4


def generate(seed: int, *, n: int | None = None) -> PlacementPlan:
    turn, place = divmod(seed, AIMED_EVERY)
    if n is None and place == AIMED_EVERY - 1:
        return AIMED[turn % len(AIMED)](Random(f"placement/aimed/{seed}"), seed)
    return swarm(seed, n)


def swarm(seed: int, n: int | None) -> PlacementPlan:
    dice = Random(f"placement/plan/{seed}")
    size = n if n is not None else dice.choice(SIZES)
    threshold_ms = dice.choice((1_000, 2_000, 5_000))
    until_us = threshold_ms * 1_000 * dice.randint(2, 6)
    envoys = tuple(dice.randint(1, size) for _ in range(dice.choice((1, size, 2 * size, 2 * size))))
    more = Random(f"placement/more/{seed}")
    made = PlacementPlan(
        sites=replace(draw_sites(dice, seed, size, until_us), embedded=has_embedded_store(seed)),
        envoys=envoys,
        rates=tuple(dice.choice(RATES) for _ in envoys),
        threshold_ms=threshold_ms,
        places=(dice.choice((1, 4, 8)), dice.choice((1, 4, 8))),
        samples=dice.choice((1, 2, 2, 3)),
        reserve_slots=dice.random() < 0.7,
        slots=dice.choice((0, 0, 1, 3)),
        steps=with_calls(more, draw_steps(dice, size, until_us), until_us),
        envoy_faults=with_twins(
            more, draw_envoy_faults(dice, len(envoys), threshold_ms, until_us), len(envoys), threshold_ms, until_us
        ),
        clean_up=CleanUp.SHORT,
        same_key=more.random() < 0.3,
        home_lease_ms=HOME_LEASE_MS,
        sleep_after_s=more.choice((0.0, 0.0, 0.5, 3.0)),
        sweep_every_s=more.choice((threshold_ms // 1000, HOUR_MS // 1000)),
        wall_steps_ms=tuple(more.choice(WALL_STEPS_MS) for _ in range(5)),
    )
    dice = Random(f"placement/standstills/{seed}")
    made = replace(made, envoy_faults=with_standstills(dice, made.envoy_faults, len(envoys), threshold_ms, until_us))
    made = with_moves(dice, with_power_cut(dice, made))
    return alone(made) if more.random() < ALONE else made


def alone(made: PlacementPlan) -> PlacementPlan:
    """With one envoy in a datacenter, whose code takes long to end."""
    envoys = tuple(sorted(set(made.envoys)))
    faults = [each for each in made.envoy_faults if each.envoy < len(envoys) and each.kind is not EnvoyFaultKind.TWIN]
    return replace(
        made, envoys=envoys, rates=made.rates[: len(envoys)], clean_up=CleanUp.SLOW, envoy_faults=tuple(faults)
    )


def draw_sites(dice: Random, seed: int, n: int, until_us: int) -> ClusterPlan:
    places = tuple(dice.uniform(0, dice.choice((1, 40))) for _ in range(n))
    slowest_ms = 1 + max(places) - min(places)
    return ClusterPlan(
        seed=seed,
        n=n,
        policy=dice.choice(list(QuorumPolicy)),
        timing=per_key.draw_timing(dice, slowest_ms),
        places=places,
        weather=per_key.draw_weather(dice),
        skew=tuple(dice.choice(RATES) for _ in range(n)),
        faults_end_us=until_us,
        faults=per_key.draw_faults(dice, n, until_us) if dice.random() < 0.7 else (),
        encoded=False,
    )


def draw_steps(dice: Random, n: int, until_us: int) -> tuple[PlacementStep, ...]:
    """Rounds in which all sites ask, almost at once or spread out."""
    names = dice.randint(1, 3)
    asks = ASKS if dice.random() < 0.5 else ASKS[:3]
    steps = []
    for _ in range(dice.randint(1, 5)):
        at_us, name = dice.randrange(until_us), dice.randrange(names)
        apart_us = dice.choice((1, 1_000, 100_000, until_us // 3))
        steps += [
            PlacementStep(at_us=at_us + dice.randrange(apart_us), site=site, ask=dice.choice(asks), name=name)
            for site in range(1, n + 1)
        ]
    return tuple(sorted(steps, key=lambda step: (step.at_us, step.site)))


def draw_envoy_faults(dice: Random, envoys: int, threshold_ms: int, until_us: int) -> tuple[EnvoyFault, ...]:
    """They last a moment, about as long as the threshold, or long."""
    faults = [
        EnvoyFault(
            at_us=dice.randrange(until_us),
            kind=dice.choice(ENVOY_FAULTS),
            envoy=dice.randrange(envoys),
            for_us=int(threshold_ms * 1_000 * dice.choice((0.01, 0.5, 0.9, 1.1, 3.0))),
        )
        for _ in range(dice.randint(0, 8))
    ]
    return tuple(sorted(faults, key=lambda fault: fault.at_us))


def with_calls(dice: Random, steps: tuple[PlacementStep, ...], until_us: int) -> tuple[PlacementStep, ...]:
    """Requests to the actors of these names, from any site."""
    sites, names = [step.site for step in steps], [step.name for step in steps]
    does = dice.sample(DOES, k=dice.randint(3, len(DOES)))
    calls = [
        PlacementStep(
            at_us=dice.randrange(until_us),
            site=dice.choice(sites),
            ask=AskKind.CALL,
            name=dice.choice(names),
            does=each,
            again=dice.random() < 0.6 and each is not ActorDoes.BREAK,
            in_ms=dice.choice((0, 500, 5_000, 20_000)),
        )
        for each in (dice.choice(does) for _ in range(dice.randint(0, 40)))
    ]
    return tuple(sorted((*steps, *calls), key=lambda step: (step.at_us, step.site)))


def with_standstills(
    dice: Random, faults: tuple[EnvoyFault, ...], envoys: int, threshold_ms: int, until_us: int
) -> tuple[EnvoyFault, ...]:
    """Shorter than a lease, about as long, and longer than a node waits."""
    stills = [
        EnvoyFault(
            at_us=dice.randrange(until_us),
            kind=dice.choice(STANDSTILLS),
            envoy=dice.randrange(envoys),
            for_us=int(threshold_ms * 1_000 * dice.choice((0.3, 0.8, 0.9, 1.0, 1.1, 1.5, 3.0))),
        )
        for _ in range(dice.choice((0, 1, 2, 3)))
    ]
    return tuple(sorted((*faults, *stills), key=lambda fault: fault.at_us))


def with_power_cut(dice: Random, made: PlacementPlan) -> PlacementPlan:
    """Of one datacenter with all its workers, for about as long as its lease lasts, in one run of three."""
    sites, until_us = made.sites, made.sites.faults_end_us
    if dice.random() > 1 / 3:
        return made
    site, at_us = dice.randint(1, sites.n), dice.randrange(until_us)
    for_us = int(1_000 * made.home_lease_ms * dice.choice((0.5, 1.1, 2.0)))
    cut = Fault(at_us=at_us, kind=FaultKind.CRASH, machines=(site,))
    back = Fault(at_us=min(until_us, at_us + for_us), kind=FaultKind.RESTART, machines=(site,))
    kills = [
        EnvoyFault(at_us=at_us, kind=EnvoyFaultKind.KILL, envoy=number, for_us=for_us)
        for number, where in enumerate(made.envoys)
        if where == site
    ]
    faults = tuple(sorted((*sites.faults, cut, back), key=lambda fault: fault.at_us))
    all_kills = tuple(sorted((*made.envoy_faults, *kills), key=lambda fault: fault.at_us))
    return replace(made, sites=replace(sites, faults=faults), envoy_faults=all_kills)


def with_moves(dice: Random, made: PlacementPlan) -> PlacementPlan:
    """Of some names to other datacenters, in one run of three."""
    if dice.random() > 1 / 3:
        return made
    n, until_us = made.sites.n, made.sites.faults_end_us
    moves = [
        PlacementStep(
            at_us=dice.randrange(until_us),
            site=dice.randint(1, n),
            ask=AskKind.MOVE,
            name=dice.choice(made.steps).name,
            to=dice.randint(1, n),
        )
        for _ in range(dice.randint(1, 4))
    ]
    return replace(made, steps=tuple(sorted((*made.steps, *moves), key=lambda step: (step.at_us, step.site))))


def with_twins(
    dice: Random, faults: tuple[EnvoyFault, ...], envoys: int, threshold_ms: int, until_us: int
) -> tuple[EnvoyFault, ...]:
    twins = [
        EnvoyFault(
            at_us=dice.randrange(until_us),
            kind=EnvoyFaultKind.TWIN,
            envoy=dice.randrange(envoys),
            for_us=int(threshold_ms * 1_000 * dice.choice((0.1, 1.1, 3.0))),
        )
        for _ in range(dice.choice((0, 0, 1, 2)))
    ]
    return tuple(sorted((*faults, *twins), key=lambda fault: fault.at_us))
