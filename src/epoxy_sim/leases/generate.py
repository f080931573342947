"""From a seed to a plan: a few locks with those who want them, values that end, and clocks that do not agree."""

from random import Random

from msgspec.structs import replace

from epoxy.model.quorum import QuorumPolicy
from epoxy.model.writes import Consistency
from epoxy_sim.keys.generate import draw_faults, draw_timing, draw_weather, with_near
from epoxy_sim.keys.plan import ClockStep, Fault, Weather, has_embedded_store
from epoxy_sim.leases.plan import BOUND, ClientPause, LeaseAsk, LeaseClientPlan, LeasePlan, LeaseStep

SIZES = (3, 3, 3, 5, 5, 1, 2)
TTLS_MS = (150, 400, 1_000, 3_000, 10_000, 30_000)
"""From shorter than a round under faults takes to long enough for one percent of it to be longer than a round."""

CALM_SEEDS = 5
"""In one run of so many nothing breaks."""

ASKS = (
    *(LeaseAsk.PUT, LeaseAsk.PUT, LeaseAsk.KEEP, LeaseAsk.ADD, LeaseAsk.ADD, LeaseAsk.TOUCH),
    *(LeaseAsk.CREATE, LeaseAsk.DELETE, LeaseAsk.READ, LeaseAsk.READ),
)
READS = (Consistency.LINEARIZABLE, Consistency.LINEARIZABLE, Consistency.OPTIMISTIC, Consistency.SKIP_CACHE)


def generate(seed: int, *, n: int | None = None, policy: QuorumPolicy | None = None) -> LeasePlan:
    dice = Random(f"leases/{seed}")
    size = n if n is not None else dice.choice(SIZES)
    slowest_ms = dice.choice((2.0, 20.0, 100.0))
    is_calm = seed % CALM_SEEDS == CALM_SEEDS - 1
    ttls_ms = tuple(dice.choice(TTLS_MS) for _ in range(2))
    until_us = dice.randrange(1_000_000, 3_000_000) + 1000 * dice.choice((1, 2, 3)) * max(ttls_ms)
    clients = draw_clients(dice, size, until_us, int(slowest_ms * 1000), ttls_ms)
    rates = draw_rates(dice, size + len(clients))
    clients = with_sessions(Random(f"sessions/{seed}"), clients)
    plan = LeasePlan(
        seed=seed,
        n=size,
        policy=policy if policy is not None else dice.choice(tuple(QuorumPolicy)),
        timing=draw_timing(dice, slowest_ms),
        places=tuple(slowest_ms * dice.choice((0.0, dice.random(), 1.0)) for _ in range(size)),
        weather=Weather() if is_calm else draw_weather(dice),
        skew=rates[:size],
        faults_end_us=until_us,
        faults=() if is_calm else draw_lease_faults(dice, size, until_us),
        encoded=seed % 8 == 0,
        embedded=has_embedded_store(seed),
        suspends=dice.random() < 0.5,
        clock_steps=draw_clock_steps(dice, size, until_us),
        clients=tuple(replace(client, rate=rate) for client, rate in zip(clients, rates[size:], strict=True)),
    )
    return replace(plan, timing=with_near(plan.timing, plan.n, seed))


def draw_rates(dice: Random, count: int) -> tuple[float, ...]:
    """All clocks may be wrong, but no two differ by more than the bound."""
    slowest = dice.choice((1.0, 1.0, dice.uniform(0.9, 1.1)))
    return tuple(slowest * dice.choice((1.0, BOUND, dice.uniform(1.0, BOUND))) for _ in range(count))


def draw_lease_faults(dice: Random, n: int, until_us: int) -> tuple[Fault, ...]:
    """As of single keys, over the longer time of a lease: most near its begin or its end would be too few."""
    return tuple(sorted((*draw_faults(dice, n, until_us), *draw_faults(dice, n, until_us)), key=lambda f: f.at_us))


def draw_clock_steps(dice: Random, n: int, until_us: int) -> tuple[ClockStep, ...]:
    return tuple(
        ClockStep(
            at_us=dice.randrange(until_us),
            machine=dice.randint(1, n),
            by_ms=dice.choice((-60_000, -500, 500, 3_000, 60_000)),
        )
        for _ in range(dice.randint(0, 3))
    )


def draw_clients(
    dice: Random, n: int, until_us: int, slowest_us: int, ttls_ms: tuple[int, ...]
) -> tuple[LeaseClientPlan, ...]:
    """Holders of one lock or two, and clients of values; each with a rate to be drawn."""
    kinds = [draw_holds] * dice.randint(2, 4) + [draw_asks] * dice.randint(0, 3)
    locks, values = dice.choice((1, 1, 2)), dice.choice((1, 2))
    clients = []
    for number, draw_steps in enumerate(kinds, start=1):
        keys = locks if draw_steps is draw_holds else values
        clients.append(
            LeaseClientPlan(
                home=dice.randint(1, n),
                rate=1.0,
                distance_us=dice.choice((100, 1_000, slowest_us)),
                steps=draw_steps(dice, number, keys, until_us, ttls_ms),
                pauses=draw_pauses(dice, until_us, max(ttls_ms)),
            )
        )
    return tuple(clients)


def draw_holds(dice: Random, client: int, keys: int, until_us: int, ttls_ms: tuple[int, ...]) -> tuple[LeaseStep, ...]:
    """A lock has one time to live, whichever client holds it. Some look at it meanwhile."""
    steps = []
    for i in range(dice.randint(1, 4)):
        key = dice.randrange(keys)
        ttl_ms, is_read = ttls_ms[key % len(ttls_ms)], dice.random() < 0.2
        steps.append(
            LeaseStep(
                at_us=dice.choice((0, dice.randrange(until_us))),
                ask=LeaseAsk.READ if is_read else LeaseAsk.HOLD,
                key=key,
                lock=True,
                value=client * 100 + i,
                ttl_ms=ttl_ms,
                consistency=dice.choice(READS),
                tries=dice.choice((1, 10, 40)),
                poll_ms=ttl_ms * dice.choice((0.02, 0.1, 0.5)),
                renewals=dice.choice((0, 0, 1, 3, 6)),
                abandons=dice.random() < 0.5,
            )
        )
    return tuple(sorted(steps, key=lambda step: step.at_us))


def draw_asks(dice: Random, client: int, keys: int, until_us: int, ttls_ms: tuple[int, ...]) -> tuple[LeaseStep, ...]:
    asks = dice.sample(ASKS, k=dice.randint(3, len(ASKS)))
    times = sorted(dice.choice((dice.randrange(until_us // 8), dice.randrange(until_us))) for _ in range(10))
    return tuple(
        LeaseStep(
            at_us=at_us,
            ask=dice.choice(asks),
            key=dice.randrange(keys),
            value=(client * 100 + i) * 1000,
            ttl_ms=dice.choice((0, *ttls_ms, *ttls_ms)),
            consistency=dice.choice(READS),
        )
        for i, at_us in enumerate(times)
    )


def with_sessions(dice: Random, clients: tuple[LeaseClientPlan, ...]) -> tuple[LeaseClientPlan, ...]:
    """In one plan of four some holders have sessions."""
    if dice.random() < 0.75:
        return clients
    return tuple(
        replace(client, steps=tuple(replace(step, session=dice.random() < 0.5) for step in client.steps))
        for client in clients
    )


def draw_pauses(dice: Random, until_us: int, ttl_ms: int) -> tuple[ClientPause, ...]:
    return tuple(
        ClientPause(at_us=dice.randrange(until_us), lasts_us=dice.randrange(1, int(ttl_ms * 1500)))
        for _ in range(dice.choice((0, 0, 1, 2)))
    )
