"""Plans in which many clients of few replicas want the same keys, each again as soon as it is answered: commands of
many transactions, and coordinators that take turns. Some of these are killed meanwhile, and soon come back."""

from random import Random

from epoxy.model.quorum import QuorumPolicy
from epoxy.protocol.effects import Timing
from epoxy_sim.keys.plan import Fault, FaultKind, Weather
from epoxy_sim.txn.plan import TxnClientPlan, TxnPlan, TxnStep
from epoxy_sim.txn.workload import anything, transfer

EVERY, WHICH = 22, 14
"""So many seeds have one such plan: those that no known fault depends on."""

END_US = 300_000
SIZES = (3, 3, 3, 4, 5)


def has_crowd(seed: int) -> bool:
    return seed % EVERY == WHICH


def crowd(seed: int, n: int | None) -> TxnPlan:
    dice = Random(f"ordered-crowd/{seed}")
    size = n if n is not None else dice.choice(SIZES)
    slowest = dice.choice((0.3, 2.0))
    timing = Timing(hedge_ms=slowest * dice.choice((4, 16)), round_timeout_ms=slowest * dice.choice((8, 24)) + 5)
    homes = dice.sample(range(1, size + 1), k=min(size, dice.choice((1, 2, 3, 3))))
    victims = dice.sample(homes, k=dice.choice((0, 1, 1)))
    return TxnPlan(
        seed=seed,
        n=size,
        policy=QuorumPolicy.OPTIMAL,
        timing=timing,
        places=tuple(slowest * dice.choice((0.0, dice.random(), 1.0)) for _ in range(size)),
        weather=Weather(loss=dice.choice((0.0, 0.0, 0.1)), commit_loss=0.0, jitter=dice.choice((0.1, 1.0, 5.0))),
        skew=(1.0,) * size,
        faults_end_us=END_US,
        faults=draw_faults(dice, victims),
        encoded=False,
        recover_ms=timing.round_timeout_ms * dice.choice((0.5, 1.0)),
        catchup_ms=timing.round_timeout_ms * dice.choice((1.0, 20.0)),
        turn_ms=dice.choice((0.0, 5.0, 25.0)),
        clients=draw_crowd(dice, homes),
    )


def draw_faults(dice: Random, victims: list[int]) -> tuple[Fault, ...]:
    """Most crashes come when a command has just been answered."""
    faults: list[Fault] = []
    for victim in victims:
        at_us = dice.choice((0, dice.randrange(20_000)))
        kind = dice.choice((FaultKind.CRASH_ON_ANSWER, FaultKind.CRASH_ON_ANSWER, FaultKind.CRASH_ON_SEND))
        faults.append(Fault(at_us=at_us, kind=kind, machines=(victim,), count=dice.randint(1, 12)))
        faults += [
            Fault(at_us=back_us, kind=FaultKind.RESTART, machines=(victim,))
            for back_us in range(at_us + dice.randrange(1_000, 30_000), END_US, 30_000)
        ]
        if dice.random() < 0.5:
            faults.append(Fault(at_us=0, kind=FaultKind.SLOW_DISK, machines=(victim,)))
    return tuple(sorted(faults, key=lambda fault: fault.at_us))


def draw_crowd(dice: Random, homes: list[int]) -> tuple[TxnClientPlan, ...]:
    keys = dice.choice((1, 1, 2))
    draw = dice.choice((transfer, anything))
    steps = dice.randint(2, 4)
    apart_us = dice.choice((200, 20_000))
    return tuple(
        TxnClientPlan(
            home=home,
            steps=tuple(
                TxnStep(at_us=dice.randrange(apart_us), txn=draw(dice, keys, 100 * client + i)) for i in range(steps)
            ),
        )
        for client, home in enumerate(homes * dice.randint(3, 8), start=1)
    )
