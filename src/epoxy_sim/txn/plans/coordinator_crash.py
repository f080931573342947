"""Plans that kill coordinators after the k-th message they send, for every k, while others ask for the same keys.

Everything they began has to be recovered. Some come back, without what was not synced.
"""

from random import Random

from epoxy.model.quorum import QuorumPolicy
from epoxy.protocol.effects import Timing
from epoxy_sim.keys.plan import Fault, FaultKind, Weather
from epoxy_sim.txn.plan import TxnClientPlan, TxnPlan, TxnStep
from epoxy_sim.txn.workload import anything, transfer

SIZES = (3, 3, 4, 5, 5, 5, 6, 7)
END_US = 400_000


def coordinator_crash(seed: int, n: int | None) -> TxnPlan:
    dice = Random(f"ordered-ambush/{seed}")
    size = n if n is not None else dice.choice(SIZES)
    victims = dice.sample(range(1, size + 1), k=dice.randint(1, max(1, size // 2)))
    slowest = dice.choice((0.3, 3.0))
    timing = Timing(hedge_ms=slowest * dice.choice((2, 8)), round_timeout_ms=slowest * dice.choice((4, 12)) + 2)
    return TxnPlan(
        seed=seed,
        n=size,
        policy=QuorumPolicy.OPTIMAL if dice.random() < 0.8 else QuorumPolicy.FAST_PAXOS,
        timing=timing,
        places=tuple(slowest * dice.choice((0.0, dice.random(), 1.0)) for _ in range(size)),
        weather=Weather(loss=dice.choice((0.0, 0.0, 0.1, 0.3)), commit_loss=0.0, jitter=dice.choice((0.1, 1.0, 5.0))),
        skew=(1.0,) * size,
        faults_end_us=END_US,
        faults=draw_crashes(dice, victims),
        encoded=False,
        recover_ms=timing.round_timeout_ms * dice.choice((0.5, 1.0)),
        catchup_ms=timing.round_timeout_ms * dice.choice((1.0, 20.0)),
        clients=draw_rivals(dice, size, victims, int(slowest * 1000)),
    )


def draw_crashes(dice: Random, victims: list[int]) -> tuple[Fault, ...]:
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
