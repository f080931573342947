"""What the plans that aim at a rule begin with: a cluster in which nothing else happens."""

from collections.abc import Sequence
from random import Random

from epoxy.model.quorum import QuorumPolicy
from epoxy.protocol.effects import Timing
from epoxy_sim.keys.plan import ClusterPlan, Fault, Weather, has_embedded_store
from epoxy_sim.placement.plan import AskKind, CleanUp, EnvoyFault, PlacementPlan, PlacementStep
from epoxy_sim.placement.workload import ActorDoes

MS = 1_000

HOME_LEASE_MS = 5_000
"""The shortest that may be configured."""

MADE_US = 200 * MS
"""When the names are asked for first: workers are connected by then."""

CLASSES, FUNCTIONS = (0, 3, 6), (1, 4, 7)
"""Names, by the form of their code. Cancelled functions clean up even when they are idle."""

NEAR_MS = (0.0, 0.5, 1.0)
"""Where datacenters stand that are near to each other."""

HOME = 1
"""The datacenter that names are made in."""


def quiet(
    seed: int,
    envoys: Sequence[int],
    steps: Sequence[PlacementStep],
    *,
    until_us: int,
    threshold_ms: int,
    places_ms: Sequence[float] = NEAR_MS[:1],
    faults: Sequence[Fault] = (),
    envoy_faults: Sequence[EnvoyFault] = (),
    clean_up: CleanUp = CleanUp.SHORT,
    answers_within_ms: int = 0,
    sleep_after_s: float = 0.0,
) -> PlacementPlan:
    """Good weather, exact clocks, and as many datacenters as places."""
    slowest_ms = 1 + max(places_ms) - min(places_ms)
    n = len(places_ms)
    return PlacementPlan(
        sites=ClusterPlan(
            seed=seed,
            n=n,
            policy=QuorumPolicy.OPTIMAL,
            timing=Timing(hedge_ms=4 * slowest_ms, round_timeout_ms=10 * slowest_ms),
            places=tuple(places_ms),
            weather=Weather(jitter=0.05),
            skew=(1.0,) * n,
            faults_end_us=until_us,
            faults=tuple(sorted(faults, key=lambda fault: fault.at_us)),
            embedded=has_embedded_store(seed),
        ),
        envoys=tuple(envoys),
        rates=(1.0,) * len(envoys),
        threshold_ms=threshold_ms,
        places=(4, 4),
        samples=2,
        reserve_slots=True,
        slots=0,
        same_key=False,
        clean_up=clean_up,
        sweep_every_s=3600,
        home_lease_ms=HOME_LEASE_MS,
        sleep_after_s=sleep_after_s,
        wall_steps_ms=(0,),
        answers_within_ms=answers_within_ms,
        steps=tuple(sorted(steps, key=lambda step: (step.at_us, step.site))),
        envoy_faults=tuple(sorted(envoy_faults, key=lambda fault: fault.at_us)),
    )


def made(names: Sequence[int], site: int = HOME) -> list[PlacementStep]:
    """The names are asked for at their home, and each adds its first mark."""
    asks = [PlacementStep(at_us=MADE_US, site=site, ask=AskKind.ENSURE, name=name) for name in names]
    return asks + [call(MADE_US + 200 * MS, site, name, ActorDoes.ADD) for name in names]


def call(at_us: int, site: int, name: int, does: ActorDoes, *, again: bool = False, in_ms: int = 0) -> PlacementStep:
    return PlacementStep(at_us=at_us, site=site, ask=AskKind.CALL, name=name, does=does, again=again, in_ms=in_ms)


def ask(at_us: int, site: int, name: int, kind: AskKind) -> PlacementStep:
    return PlacementStep(at_us=at_us, site=site, ask=kind, name=name)


def between(dice: Random, first_ms: float, last_ms: float) -> int:
    """In microseconds."""
    return int(MS * dice.uniform(first_ms, last_ms))
