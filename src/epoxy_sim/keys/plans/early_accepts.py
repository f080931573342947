"""Plans in which a home crashes between an Accept and the sync of its own vote, and comes back.

The home asks one of the others for a vote and not the other, and forgets its own. It starts again, while the one that
voted is away, or there for a while, and writes the same key. Then it falls silent behind an acknowledgement or a
message, and the two others read and write that key: what one of them voted for in the earlier start meets what the
other voted for in the later one. In some plans that comes twice. In others, among five, a rival of the home wins with
the second vote of the home.
"""

from random import Random
from typing import Any

from epoxy.model.quorum import QuorumPolicy
from epoxy.model.writes import Consistency
from epoxy.protocol.effects import Timing
from epoxy_sim.keys.plan import Ask, ClientPlan, Fault, FaultKind, Plan, Step, Weather

EVERY, WHICH = 14, 6
"""So many seeds have one such plan."""

SIZES = (3, 3, 3, 3, 3, 4, 5)
FIRST_US, ROUND_US, END_US = 30_000, 150_000, 500_000
FOLLOWED_BY = (FaultKind.CRASH_ON_ANSWER, FaultKind.CRASH_ON_ANSWER, FaultKind.CRASH_ON_SEND)
ASKS = {
    "per-key": (Ask.RESERVE,),
    "mutable": (Ask.PUT, Ask.PUT, Ask.EXCHANGE, Ask.INCREMENT, Ask.RESERVE),
}


def has_early_accepts(seed: int) -> bool:
    return seed % EVERY == WHICH


def early_accepts(seed: int, workload: str, n: int | None, policy: QuorumPolicy | None) -> Plan:
    dice = Random(f"early/{workload}/{seed}")
    if n is None and dice.random() < 0.2:
        return second_vote(dice, seed, workload)
    size = n if n is not None else dice.choice(SIZES)
    home, witness, *rest = dice.sample(range(1, size + 1), k=size)
    clients, faults = [first(dice, workload, home)], list[Fault]()
    begins_us = FIRST_US
    for _ in range(dice.choice((1, 1, 2))):
        clients += draw_clients(dice, ASKS[workload], home, (witness, *rest), begins_us)
        faults += draw_faults(dice, home, witness, tuple(rest), begins_us)
        begins_us += ROUND_US
    return Plan(
        seed=seed,
        n=size,
        policy=policy if policy is not None else dice.choice((QuorumPolicy.OPTIMAL, *QuorumPolicy)),
        timing=Timing(hedge_ms=dice.choice((4.0, 10.0)), round_timeout_ms=20.0),
        places=tuple(dice.choice((0.0, 0.3, 1.0)) for _ in range(size)),
        weather=Weather(commit_loss=dice.choice((0.0, 0.5, 1.0)), jitter=dice.choice((0.1, 1.0))),
        skew=(1.0,) * size,
        faults_end_us=END_US,
        clients=tuple(clients),
        faults=tuple(sorted(faults, key=lambda fault: fault.at_us)),
        early=True,
    )


def first(dice: Random, workload: str, home: int) -> ClientPlan:
    """Sometimes there is a version already."""
    is_over = workload == "mutable" and dice.random() < 0.5
    ask = Ask.PUT if is_over else Ask.READ
    return ClientPlan(home=home, steps=(Step(at_us=0, ask=ask, key=0, value=1),))


def draw_clients(
    dice: Random, asks: tuple[Ask, ...], home: int, others: tuple[int, ...], begins_us: int
) -> list[ClientPlan]:
    def writer(at: int, at_us: int, value: int) -> ClientPlan:
        step = Step(at_us=at_us, ask=dice.choice(asks), key=0, value=value)
        return ClientPlan(home=at, steps=(step,))

    clients = [writer(home, begins_us, 100), writer(home, begins_us + dice.randrange(15_000, 60_000), 200)]
    if dice.random() < 0.3:
        clients.append(writer(dice.choice(others), begins_us - dice.randrange(8_000), 400))
    for i, other in enumerate(others):
        at_us = begins_us + dice.randrange(50_000, 120_000)
        read = Step(at_us=at_us, ask=Ask.READ, key=0, value=0, consistency=Consistency.LINEARIZABLE)
        clients.append(ClientPlan(home=other, steps=(read,)) if dice.random() < 0.5 else writer(other, at_us, 300 + i))
    return clients


def draw_faults(dice: Random, home: int, witness: int, rest: tuple[int, ...], begins_us: int) -> list[Fault]:
    """Only the witness is asked. The disk is slow until the crash, which comes with the first message or soon after."""

    def fault(at_us: int, kind: FaultKind, *machines: int, count: int = 1) -> Fault:
        return Fault(at_us=at_us, kind=kind, machines=machines, count=count)

    crash_us = begins_us + dice.randrange(200, 5_000)
    back_us = crash_us + dice.randrange(500, 10_000)
    end_us = back_us + dice.randrange(20_000, 80_000)
    faults = [
        fault(begins_us - 1_000, FaultKind.CUT, home, *rest),
        fault(begins_us - 1_000, FaultKind.SLOW_DISK, home),
        fault(crash_us, FaultKind.CRASH, home),
        fault(back_us, FaultKind.HEAL, home),
        fault(back_us, FaultKind.FAST_DISK, home),
        fault(back_us + 1, FaultKind.RESTART, home),
        fault(end_us, FaultKind.HEAL, home),
    ]
    if dice.random() < 0.8:
        away = FaultKind.PARTITION if dice.random() < 0.7 else FaultKind.PAUSE
        away_us = back_us + dice.choice((2, dice.randrange(15_000)))
        faults += [fault(away_us, away, witness), fault(end_us, FaultKind.RESUME, witness)]
    follows = dice.choice(FOLLOWED_BY)
    faults.append(fault(back_us + dice.randrange(5_000), follows, home, count=dice.choice((1, 1, 2, 6, 9))))
    faults.append(fault(begins_us + ROUND_US - 10_000, FaultKind.RESTART, home))
    return faults


def second_vote(dice: Random, seed: int, workload: str) -> Plan:
    """Of five. The home asks the witness and forgets its vote; then it votes for a rival, which has a quorum with it,
    and crashes behind its answer. The three others find one vote for each of the two. (The witness is out of reach of
    the home, which would promise a ballot of its own.)"""
    home, witness, rival, voter, deaf = dice.sample(range(1, 6), k=5)
    crash_us = FIRST_US + dice.randrange(300, 2_500)
    back_us = crash_us + dice.randrange(500, 4_000)
    race_us = back_us + dice.randrange(10_000, 20_000)
    over_us = race_us + dice.randrange(5_000, 10_000)
    faults = [
        (FIRST_US - 1_000, FaultKind.CUT, home, rival, voter, deaf),
        (FIRST_US - 1_000, FaultKind.SLOW_DISK, home),
        (crash_us, FaultKind.CRASH, home),
        (back_us, FaultKind.HEAL, home),
        (back_us, FaultKind.FAST_DISK, home),
        (back_us, FaultKind.CUT, home, witness),
        (back_us, FaultKind.RESTART, home),
        (race_us - 1_000, FaultKind.CUT, rival, witness, deaf),
        (race_us, FaultKind.CRASH_ON_ANSWER, rival),
        (over_us, FaultKind.HEAL, rival),
        (over_us, FaultKind.CRASH, home),
        (over_us + 60_000, FaultKind.RESTART, rival, home),
    ]
    clients = [
        put(dice, workload, home, FIRST_US, 1),
        put(dice, workload, rival, race_us, 2),
        *(look(each, over_us + 2_000) for each in (witness, voter, deaf)),
    ]
    return of_steps(seed, 5, faults, clients)


def put(dice: Random, workload: str, home: int, at_us: int, value: int) -> ClientPlan:
    return ClientPlan(home=home, steps=(Step(at_us=at_us, ask=dice.choice(ASKS[workload]), key=0, value=value),))


def look(home: int, at_us: int) -> ClientPlan:
    step = Step(at_us=at_us, ask=Ask.READ, key=0, value=0, consistency=Consistency.LINEARIZABLE)
    return ClientPlan(home=home, steps=(step,))


def of_steps(seed: int, size: int, faults: list[tuple[Any, ...]], clients: list[ClientPlan]) -> Plan:
    """In one building, where commits that are not answered are lost."""
    return Plan(
        seed=seed,
        n=size,
        policy=QuorumPolicy.OPTIMAL,
        timing=Timing(hedge_ms=10.0, round_timeout_ms=20.0),
        places=(0.0,) * size,
        weather=Weather(commit_loss=0.5),
        skew=(1.0,) * size,
        faults_end_us=END_US,
        clients=tuple(clients),
        faults=tuple(Fault(at_us=at_us, kind=kind, machines=tuple(machines)) for at_us, kind, *machines in faults),
        early=True,
    )
