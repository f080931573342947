"""Plans aimed at the joint epoch itself.

It is short, so a slow newcomer makes it longer. Meanwhile many names are reserved, at old members and at new ones at
about the same time, and almost all Commits are lost.
"""

from random import Random

from epoxy.model.quorum import QuorumPolicy
from epoxy.protocol.effects import Timing
from epoxy_sim.keys.plan import Ask, ClientPlan, Fault, FaultKind, MembersChangePlan, Plan, Step, Weather

CHANGES: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    ((1, 2, 3), (3, 4, 5)),
    ((1, 2, 3), (4, 5, 6)),
    ((1, 2, 3), (1, 2, 3, 4, 5)),
    ((1, 2, 3, 4, 5), (4, 5, 6)),
    ((1, 2), (2, 3, 4)),
)

END_US = 3_000_000
CHANGE_US = 100_000
KEYS = 20


def joint_epoch(seed: int, policy: QuorumPolicy | None) -> Plan:
    dice = Random(f"windows/{seed}")
    founders, wanted = dice.choice(CHANGES)
    n = max(*founders, *wanted)
    newcomers = [i for i in wanted if i not in founders]
    slowest = dice.choice((0.5, 5.0, 20.0))
    return Plan(
        seed=seed,
        n=n,
        founders=founders,
        policy=policy if policy is not None else dice.choice(tuple(QuorumPolicy)),
        timing=Timing(hedge_ms=slowest * dice.choice((1, 4)) + 1, round_timeout_ms=slowest * 4 + 5),
        places=tuple(slowest * dice.choice((0.0, dice.random(), 1.0)) for _ in range(n)),
        weather=Weather(loss=dice.choice((0.0, 0.02, 0.1)), commit_loss=1.0, jitter=dice.choice((0.1, 1.0))),
        skew=(1.0,) * n,
        faults_end_us=END_US,
        clients=draw_clients(dice, founders, wanted),
        faults=draw_faults(dice, founders, dice.choice(newcomers)),
        encoded=seed % 16 == 3,
        changes=(MembersChangePlan(at_us=CHANGE_US, home=dice.choice(founders), members=wanted),),
    )


def draw_clients(dice: Random, founders: tuple[int, ...], wanted: tuple[int, ...]) -> tuple[ClientPlan, ...]:
    """Two for each name, one at an old member and one at a new one, a moment apart."""
    clients: list[ClientPlan] = []
    for key in range(KEYS):
        at_us = dice.randrange(CHANGE_US, END_US // 2)
        for number, home in enumerate((dice.choice(founders), dice.choice(wanted))):
            later_us = number * dice.choice((0, 2_000, 20_000, 200_000))
            step = Step(at_us=at_us + later_us, ask=Ask.RESERVE, key=key, value=100 * number + key)
            clients.append(ClientPlan(home=home, steps=(step,)))
    return tuple(clients)


def draw_faults(dice: Random, founders: tuple[int, ...], newcomer: int) -> tuple[Fault, ...]:
    faults = [Fault(at_us=dice.randrange(2 * CHANGE_US), kind=FaultKind.SLOW_DISK, machines=(newcomer,))]
    if dice.random() < 0.7:
        trap = dice.choice((FaultKind.CRASH_ON_ANSWER, FaultKind.CRASH_ON_SEND))
        victim = (dice.choice(founders),)
        at_us = dice.randrange(CHANGE_US, END_US // 2)
        faults.append(Fault(at_us=at_us, kind=trap, machines=victim))
        back_us = dice.choice((END_US, dice.randrange(at_us, END_US)))
        faults.append(Fault(at_us=back_us, kind=FaultKind.RESTART, machines=victim))
    return tuple(sorted(faults, key=lambda fault: fault.at_us))
