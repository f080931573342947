"""Plans in which everything depends on what newcomers copy: most members of the new configuration are new, and Commits
arrive everywhere, so that no vote in flight restores what a learner has missed."""

from random import Random

from epoxy.model.quorum import QuorumPolicy
from epoxy.model.writes import Consistency
from epoxy.protocol.effects import Timing
from epoxy_sim.keys.plan import Ask, ClientPlan, Fault, FaultKind, MembersChangePlan, Plan, Step, Weather

CHANGES: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    ((1,), (2,)),
    ((1,), (1, 2, 3)),
    ((1, 2), (3, 4)),
    ((1, 2, 3), (3, 4, 5)),
    ((1, 2, 3), (4, 5)),
)

END_US = 3_000_000
CHANGE_US = 400_000


def copying(seed: int, policy: QuorumPolicy | None) -> Plan:
    dice = Random(f"copying/{seed}")
    founders, wanted = dice.choice(CHANGES)
    n = max(*founders, *wanted)
    slowest = dice.choice((0.2, 2.0, 10.0))
    return Plan(
        seed=seed,
        n=n,
        founders=founders,
        policy=policy if policy is not None else dice.choice(tuple(QuorumPolicy)),
        timing=Timing(hedge_ms=slowest * 4 + 1, round_timeout_ms=slowest * 6 + 5),
        places=tuple(slowest * dice.random() for _ in range(n)),
        weather=Weather(
            commit_loss=dice.choice((0.0, 0.5, 1.0) if len(founders) == 1 else (0.0, 0.0, 0.5)),
            duplicate=dice.choice((0.0, 0.1)),
            long_delay=dice.choice((0.0, 0.1)),
            jitter=dice.choice((0.1, 1.0)),
        ),
        skew=(1.0,) * n,
        faults_end_us=END_US,
        clients=draw_clients(dice, founders),
        faults=draw_faults(dice, founders, wanted),
        encoded=seed % 8 == 5,
        changes=(MembersChangePlan(at_us=CHANGE_US, home=dice.choice(founders), members=wanted),),
    )


def draw_clients(dice: Random, founders: tuple[int, ...]) -> tuple[ClientPlan, ...]:
    """One client reserves names one after the other, each once, all the time; another reads some of them."""
    count = dice.choice((8, 16))
    every_us = dice.choice((20_000, 60_000, 150_000))
    begin_us = CHANGE_US - dice.randrange(8 * every_us)
    keys = dice.sample(range(count), k=count)
    home = dice.choice(founders)
    takes = tuple(
        Step(at_us=max(0, begin_us + i * every_us), ask=Ask.RESERVE, key=key, value=key) for i, key in enumerate(keys)
    )
    looks = tuple(
        Step(at_us=END_US // 2, ask=Ask.READ, key=key, value=0, consistency=Consistency.LINEARIZABLE)
        for key in keys[:3]
    )
    return ClientPlan(home=home, steps=takes), ClientPlan(home=home, steps=looks)


def draw_faults(dice: Random, founders: tuple[int, ...], wanted: tuple[int, ...]) -> tuple[Fault, ...]:
    """Learners are killed while they learn, and changelogs are truncated while they read them."""
    newcomers = [i for i in wanted if i not in founders]
    faults: list[Fault] = []
    if dice.random() < 0.5:
        faults.append(Fault(at_us=0, kind=FaultKind.SLOW_DISK, machines=tuple(newcomers)))
    for _ in range(dice.choice((0, 0, 4, 12))):
        at_us = dice.randrange(CHANGE_US, END_US // 2)
        faults.append(Fault(at_us=at_us, kind=FaultKind.TRUNCATE, machines=founders))
    for _ in range(dice.choice((0, 1, 3, 6))):
        at_us = dice.randrange(CHANGE_US, END_US // 2)
        learner = (dice.choice(newcomers),)
        back_us = at_us + dice.choice((1_000, 20_000, 200_000))
        faults.append(Fault(at_us=at_us, kind=FaultKind.CRASH, machines=learner, keep=dice.random()))
        faults.append(Fault(at_us=back_us, kind=FaultKind.RESTART, machines=learner))
    return tuple(sorted(faults, key=lambda fault: fault.at_us))
