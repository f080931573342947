"""From a seed to a plan: swarms, ambushes on coordinators, changes of members, and every other seed a walk without
time."""

from random import Random

from epoxy.model.quorum import QuorumPolicy
from epoxy.protocol.effects import Timing
from epoxy_sim.keys import plan as per_key
from epoxy_sim.keys.generate import draw_faults, draw_timing, draw_weather
from epoxy_sim.keys.plan import Fault, FaultKind, Weather
from epoxy_sim.txn.churn import changing
from epoxy_sim.txn.plan import AnyPlan, TxnClientPlan, TxnPlan, TxnStep, WalkPlan
from epoxy_sim.txn.workload import anything, draw_clients, transfer

SIZES = (1, 2, 3, 3, 3, 4, 5, 5, 5, 6, 7)
AMBUSHED = (3, 3, 4, 5, 5, 5, 6, 7)
END_US = 400_000


def generate(seed: int, *, n: int | None = None) -> AnyPlan:
    """Members change in every eighth, unless it is said how many there are."""
    if seed % 2:
        return WalkPlan(seed=seed, n=n)
    if seed % 4:
        return ambush(seed, n)
    return swarm(seed, n) if seed % 8 == 0 or n is not None else changing(seed)


def swarm(seed: int, n: int | None) -> TxnPlan:
    dice = Random(f"ordered/{seed}")
    size = n if n is not None else dice.choice(SIZES)
    until_us = dice.randrange(500_000, 3_000_000)
    slowest = dice.choice((2.0, 20.0, 100.0))
    timing = draw_timing(dice, slowest)
    return TxnPlan(
        seed=seed,
        world=per_key.Plan(
            seed=seed,
            n=size,
            policy=dice.choice(tuple(QuorumPolicy)),
            timing=timing,
            places=tuple(slowest * dice.choice((0.0, dice.random(), 1.0)) for _ in range(size)),
            weather=draw_weather(dice),
            skew=tuple(dice.choice((1.0, 1.0, dice.uniform(0.8, 1.25))) for _ in range(size)),
            faults_end_us=until_us,
            clients=(),
            faults=draw_faults(dice, size, until_us),
            encoded=seed % 8 == 0,
        ),
        recover_ms=timing.round_timeout_ms * dice.choice((0.5, 1.0, 2.0)),
        catchup_ms=timing.round_timeout_ms * dice.choice((0.5, 5.0, 50.0)),
        clients=draw_clients(dice, size, until_us, int(slowest * 1000)),
    )


def ambush(seed: int, n: int | None) -> TxnPlan:
    """Coordinators are killed after the k-th message they send, for every k, while others ask for the same keys; most
    Commits are lost, so that everything has to be recovered. Some come back, without what was not synced."""
    dice = Random(f"ordered-ambush/{seed}")
    size = n if n is not None else dice.choice(AMBUSHED)
    victims = dice.sample(range(1, size + 1), k=dice.randint(1, max(1, size // 2)))
    slowest = dice.choice((0.3, 3.0))
    timing = Timing(hedge_ms=slowest * dice.choice((2, 8)), round_timeout_ms=slowest * dice.choice((4, 12)) + 2)
    return TxnPlan(
        seed=seed,
        world=per_key.Plan(
            seed=seed,
            n=size,
            policy=QuorumPolicy.OPTIMAL if dice.random() < 0.8 else QuorumPolicy.FAST_PAXOS,
            timing=timing,
            places=tuple(slowest * dice.choice((0.0, dice.random(), 1.0)) for _ in range(size)),
            weather=Weather(
                loss=dice.choice((0.0, 0.0, 0.1, 0.3)), commit_loss=0.0, jitter=dice.choice((0.1, 1.0, 5.0))
            ),
            skew=(1.0,) * size,
            faults_end_us=END_US,
            clients=(),
            faults=lay_traps(dice, victims),
            encoded=False,
        ),
        recover_ms=timing.round_timeout_ms * dice.choice((0.5, 1.0)),
        catchup_ms=timing.round_timeout_ms * dice.choice((1.0, 20.0)),
        clients=draw_rivals(dice, size, victims, int(slowest * 1000)),
    )


def lay_traps(dice: Random, victims: list[int]) -> tuple[Fault, ...]:
    faults: list[Fault] = []
    for victim in victims:
        at_us = dice.choice((0, 0, dice.randrange(END_US // 2)))
        kind = dice.choice((FaultKind.CRASH_ON_SEND, FaultKind.CRASH_ON_SEND, FaultKind.CRASH_ON_ANSWER))
        faults.append(Fault(at_us=at_us, kind=kind, machines=(victim,), count=dice.randint(1, 12)))
        back_us = dice.choice((END_US, at_us + dice.randrange(5_000, END_US // 2)))
        faults.append(Fault(at_us=back_us, kind=FaultKind.RESTART, machines=(victim,)))
        if dice.random() < 0.3:
            faults.append(Fault(at_us=0, kind=FaultKind.SLOW_DISK, machines=(victim,)))
    return tuple(sorted(faults, key=lambda fault: fault.at_us))


def draw_rivals(dice: Random, n: int, victims: list[int], slowest_us: int) -> tuple[TxnClientPlan, ...]:
    keys = dice.choice((1, 1, 2))
    draw = dice.choice((transfer, anything))
    homes = [*victims, *(dice.randint(1, n) for _ in range(dice.randint(1, 3)))]
    pace_us = dice.choice((5_000, 30_000))
    apart_us = dice.choice((200, slowest_us, 4 * slowest_us))
    return tuple(
        TxnClientPlan(
            home=home,
            steps=tuple(
                TxnStep(at_us=i * pace_us + dice.randrange(apart_us), txn=draw(dice, keys, 100 * client + i))
                for i in range(dice.randint(2, 5))
            ),
        )
        for client, home in enumerate(homes, start=1)
    )
