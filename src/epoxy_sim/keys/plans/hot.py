"""Plans with many clients on one key or two: writes wait for each other, are folded, and are carried to where most are.

Several clients at each home, or most of them at one. In some plans nothing breaks, and every client must succeed; in
the others carried writes are lost, repeated and late, and replicas, owners among them, stop at any moment: between a
fold, its decision and its answers, too.
"""

from random import Random

from epoxy.model.quorum import QuorumPolicy
from epoxy.model.writes import Consistency
from epoxy.protocol.effects import Timing
from epoxy_sim.keys.plan import WORD, Ask, ClientPlan, Fault, FaultKind, Plan, Step, Weather

SIZES = (1, 2, 3, 3, 3, 3, 3, 4, 5, 5, 5, 7)
HOT_ASKS = (
    Ask.INCREMENT,
    Ask.INCREMENT,
    Ask.PUT,
    Ask.PUT,
    Ask.SWAP,
    Ask.EXCHANGE,
    Ask.DELETE,
    Ask.COUNT,
    Ask.READ,
)
READS = (Consistency.LINEARIZABLE, Consistency.LINEARIZABLE, Consistency.OPTIMISTIC)

EPISODES = (
    (FaultKind.CRASH, FaultKind.RESTART),
    (FaultKind.CRASH_ON_ANSWER, FaultKind.RESTART),
    (FaultKind.CRASH_ON_SEND, FaultKind.RESTART),
    (FaultKind.PAUSE, FaultKind.RESUME),
    (FaultKind.PAUSE, FaultKind.RESUME),
    (FaultKind.PARTITION, FaultKind.HEAL),
    (FaultKind.ONE_WAY, FaultKind.HEAL),
    (FaultKind.CUT, FaultKind.HEAL),
    (FaultKind.SLOW_DISK, FaultKind.FAST_DISK),
    (FaultKind.FSYNC_FAILS, FaultKind.RESTART),
)

APART = 1_000
"""Between the values of two puts: no sum of increments comes so far, which leaves a checker less to guess."""

FAIR_EVERY = 4
"""In one plan of so many nothing breaks."""


def hot(seed: int, n: int | None, policy: QuorumPolicy | None) -> Plan:
    dice = Random(f"hot/{seed}")
    size = n if n is not None else dice.choice(SIZES)
    is_fair = seed % FAIR_EVERY == 0
    slowest = dice.choice((0.0, 1.0, 5.0, 40.0))
    until_us = dice.randrange(500_000, 4_000_000)
    return Plan(
        seed=seed,
        n=size,
        policy=policy if policy is not None else dice.choice(tuple(QuorumPolicy)),
        timing=draw_timing(dice, slowest, is_fair=is_fair),
        places=tuple(slowest * dice.choice((0.0, dice.random(), 1.0)) for _ in range(size)),
        weather=Weather(jitter=dice.choice((0.05, 0.5))) if is_fair else draw_weather(dice),
        skew=tuple(dice.choice((1.0, 1.0, dice.uniform(0.8, 1.25))) for _ in range(size)),
        faults_end_us=until_us,
        clients=draw_clients(dice, size, until_us),
        faults=() if is_fair else draw_faults(dice, size, until_us),
        encoded=seed % 8 == 1,
    )


def draw_timing(dice: Random, slowest_ms: float, *, is_fair: bool) -> Timing:
    factor = dice.choice((4, 8)) if is_fair else dice.choice((0.5, 2, 4, 8))
    return Timing(hedge_ms=(slowest_ms + 2) * factor, round_timeout_ms=(slowest_ms + 2) * dice.choice((4, 10)))


def draw_weather(dice: Random) -> Weather:
    return Weather(
        loss=dice.choice((0.0, 0.0, 0.02, 0.1)),
        commit_loss=dice.choice((0.0, 0.0, 0.3, 1.0)),
        duplicate=dice.choice((0.0, 0.1)),
        long_delay=dice.choice((0.0, 0.0, 0.05)),
        carry_loss=dice.choice((0.0, 0.0, 0.2, 0.5)),
        carry_again=dice.choice((0.0, 0.2, 0.6)),
        carry_late=dice.choice((0.0, 0.1, 0.5)),
        jitter=dice.choice((0.05, 0.5, 3.0)),
    )


def draw_clients(dice: Random, n: int, until_us: int) -> tuple[ClientPlan, ...]:
    """They ask again as soon as they are answered, or now and then; some begin later, when the key has an owner."""
    keys = dice.choice((1, 1, 2))
    asks = dice.sample(HOT_ASKS, k=dice.randint(3, len(HOT_ASKS)))
    pace_us = dice.choice((0, 0, 1_000, 30_000, 200_000))
    homes = draw_homes(dice, n)
    steps = dice.randint(3, 8)
    return tuple(
        ClientPlan(
            home=home,
            steps=tuple(
                Step(
                    at_us=begin_us + i * pace_us,
                    ask=dice.choice(asks),
                    key=dice.randrange(keys),
                    value=WORD if dice.random() < 0.03 else (client * 100 + i) * APART,
                    consistency=dice.choice(READS),
                )
                for i in range(steps)
            ),
        )
        for client, home in enumerate(homes, start=1)
        for begin_us in [dice.choice((0, 0, dice.randrange(2_000), dice.randrange(until_us)))]
    )


def draw_homes(dice: Random, n: int) -> list[int]:
    """Evenly, or most at one home."""
    count, busiest = dice.randint(8, 24), dice.randint(1, n)
    share = dice.choice((0.0, 0.0, 0.5, 0.9))
    return [busiest if dice.random() < share else client % n + 1 for client in range(count)]


def draw_faults(dice: Random, n: int, until_us: int) -> tuple[Fault, ...]:
    faults: list[Fault] = []
    for _ in range(dice.choice((0, 1, 2, 4, 6))):
        begins, ends = dice.choice(EPISODES)
        at_us = dice.choice((dice.randrange(20_000), dice.randrange(until_us)))
        lasts_us = dice.choice((dice.randrange(30_000), dice.randrange(until_us)))
        machines = tuple(dice.sample(range(1, n + 1), k=min(n, 2 if begins is FaultKind.CUT else 1)))
        count, keep = dice.choice((1, 2, 5, 13, 40)), dice.choice((0.0, dice.random()))
        faults.append(Fault(at_us=at_us, kind=begins, machines=machines, keep=keep, count=count))
        faults.append(Fault(at_us=min(until_us, at_us + lasts_us), kind=ends, machines=machines))
    return tuple(sorted(faults, key=lambda fault: fault.at_us))
