"""Plans in which members change, with writers on the same keys all the while."""

from random import Random

from epoxy.model.quorum import QuorumPolicy
from epoxy.model.writes import Consistency
from epoxy.protocol.effects import Timing
from epoxy_sim.keys.plan import Ask, ClientPlan, Fault, FaultKind, MembersChangePlan, Plan, Step, Weather

Change = tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]
"""The first members, and those asked for one after the other."""

CHANGES: dict[str, Change] = {
    "grow 3 to 5": ((1, 2, 3), ((1, 2, 3, 4, 5),)),
    "grow 4 to 5": ((1, 2, 3, 4), ((1, 2, 3, 4, 5),)),
    "grow 2 to 3": ((1, 2), ((1, 2, 3),)),
    "grow 1 to 2": ((1,), ((1, 2),)),
    "keep one of 3": ((1, 2, 3), ((3, 4, 5),)),
    "keep none of 2": ((1, 2), ((3, 4),)),
    "shrink 5 to 3": ((1, 2, 3, 4, 5), ((1, 2, 3),)),
    "shrink 3 to 2": ((1, 2, 3), ((1, 3),)),
    "replace": ((1, 2, 3), ((1, 2, 4),)),
    "two at once": ((1, 2, 3), ((1, 2, 3, 4, 5), (2, 3, 4))),
    "there and back": ((1, 2, 3), ((1, 2, 3, 4, 5), (1, 2, 3))),
    "give up": ((1, 2, 3), ((1, 4, 5), (1, 2, 3))),
}

ASKS = {
    True: (Ask.PUT, Ask.EXCHANGE, Ask.SWAP, Ask.INCREMENT, Ask.COUNT, Ask.DELETE, Ask.READ, Ask.RESERVE),
    False: (Ask.RESERVE, Ask.RESERVE, Ask.RESERVE, Ask.READ),
}

EPISODES = (
    (FaultKind.CRASH, FaultKind.RESTART),
    (FaultKind.PARTITION, FaultKind.HEAL),
    (FaultKind.PARTITION, FaultKind.HEAL),
    (FaultKind.ONE_WAY, FaultKind.HEAL),
    (FaultKind.PAUSE, FaultKind.RESUME),
    (FaultKind.SLOW_DISK, FaultKind.FAST_DISK),
    (FaultKind.CRASH_ON_ANSWER, FaultKind.RESTART),
    (FaultKind.CRASH_ON_SEND, FaultKind.RESTART),
    (FaultKind.TRUNCATE, FaultKind.TRUNCATE),
)


def churn(seed: int, policy: QuorumPolicy | None) -> Plan:
    dice = Random(f"changing/{seed}")
    name = dice.choice(sorted(CHANGES))
    founders, wanted = CHANGES[name]
    n = max(max(members) for members in (founders, *wanted))
    slowest = dice.choice((2.0, 20.0, 50.0))
    until_us = dice.randrange(1_500_000, 5_000_000)
    return Plan(
        seed=seed,
        n=n,
        founders=founders,
        policy=policy if policy is not None else dice.choice(tuple(QuorumPolicy)),
        timing=Timing(hedge_ms=slowest * dice.choice((1, 2, 4)), round_timeout_ms=slowest * dice.choice((3, 6))),
        places=tuple(slowest * dice.choice((0.0, dice.random(), 1.0)) for _ in range(n)),
        weather=draw_weather(dice),
        skew=(1.0,) * n,
        faults_end_us=until_us,
        clients=draw_clients(dice, n, until_us),
        faults=draw_faults(dice, name, n, until_us),
        encoded=seed % 8 == 0,
        changes=draw_changes(dice, founders, wanted, until_us),
    )


def draw_weather(dice: Random) -> Weather:
    return Weather(
        loss=dice.choice((0.0, 0.0, 0.02, 0.1)),
        commit_loss=dice.choice((0.0, 0.5, 1.0, 1.0)),
        duplicate=dice.choice((0.0, 0.0, 0.1)),
        long_delay=dice.choice((0.0, 0.0, 0.05)),
        jitter=dice.choice((0.1, 1.0)),
    )


def draw_changes(
    dice: Random, founders: tuple[int, ...], wanted: tuple[tuple[int, ...], ...], until_us: int
) -> tuple[MembersChangePlan, ...]:
    """Later changes are asked for at any time after the first: during its change, or long after it."""
    begin_us = dice.randrange(until_us // 3)
    times = sorted(dice.randrange(until_us // 2) for _ in wanted[1:])
    homes = [dice.choice(founders) for _ in wanted]
    return tuple(
        MembersChangePlan(at_us=begin_us + at_us, home=home, members=members)
        for at_us, home, members in zip((0, *times), homes, wanted, strict=True)
    )


def draw_clients(dice: Random, n: int, until_us: int) -> tuple[ClientPlan, ...]:
    """Clients of a few keys, from before the change until after it. In half of the plans keys are written once, which
    shows most clearly what was lost."""
    mutable = dice.random() < 0.5
    keys = dice.choice((1, 2, 6))
    steps = dice.randint(3, 8)
    homes = [dice.randint(1, n) for _ in range(dice.randint(2, 4))]
    return tuple(
        ClientPlan(
            home=home,
            steps=tuple(
                Step(
                    at_us=dice.randrange(until_us),
                    ask=dice.choice(ASKS[mutable]),
                    key=dice.randrange(keys),
                    value=client * 100 + i,
                    consistency=dice.choice(
                        (Consistency.LINEARIZABLE, Consistency.LINEARIZABLE, Consistency.OPTIMISTIC)
                    ),
                )
                for i in range(steps)
            ),
        )
        for client, home in enumerate(homes, start=1)
    )


def draw_faults(dice: Random, name: str, n: int, until_us: int) -> tuple[Fault, ...]:
    faults: list[Fault] = []
    if name == "replace":
        faults.append(Fault(at_us=dice.randrange(until_us // 3), kind=FaultKind.CRASH, machines=(3,)))
    for _ in range(dice.choice((0, 1, 2, 3, 5))):
        begins, ends = dice.choice(EPISODES)
        at_us = dice.randrange(until_us)
        machines = tuple(sorted(dice.sample(range(1, n + 1), k=dice.randint(1, max(1, n // 2)))))
        faults.append(Fault(at_us=at_us, kind=begins, machines=machines, keep=dice.choice((0.0, dice.random()))))
        end_us = at_us + dice.choice((dice.randrange(20_000), dice.randrange(until_us)))
        faults.append(Fault(at_us=min(until_us, end_us), kind=ends, machines=machines))
    return tuple(sorted(faults, key=lambda fault: fault.at_us))
