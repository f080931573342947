"""Plans that crash a machine between a promise and its fsync.

One machine is the victim. It is killed in the step in which it sends or answers, restarts at once without what it had
not synced, and gets requests for the same key again, while most Commits are lost and rivals recover the key. Swarms
come here too, but once in many thousand seeds.
"""

from random import Random

from epoxy.model.quorum import QuorumPolicy
from epoxy.model.writes import Consistency
from epoxy.protocol.effects import Timing
from epoxy_sim.keys.plan import Ask, ClientPlan, Fault, FaultKind, Plan, Step, Weather

SIZES = (2, 3, 3, 3, 4, 5)
TRAPS = (FaultKind.CRASH_ON_ANSWER, FaultKind.CRASH_ON_SEND)
END_US = 400_000
ASK_EVERY_US = 30_000
POLLS = 20

WRITES = {
    "per-key": (Ask.RESERVE,),
    "mutable": (Ask.PUT, Ask.EXCHANGE, Ask.SWAP, Ask.INCREMENT, Ask.COUNT, Ask.DELETE, Ask.RESERVE),
}


def crash_points(seed: int, workload: str, n: int | None, policy: QuorumPolicy | None) -> Plan:
    dice = Random(f"ambush/{workload}/{seed}")
    size = n if n is not None else dice.choice(SIZES)
    victim = dice.randint(1, size)
    return Plan(
        seed=seed,
        n=size,
        policy=policy if policy is not None else dice.choice(tuple(QuorumPolicy)),
        timing=Timing(hedge_ms=dice.choice((2.0, 10.0)), round_timeout_ms=20.0),
        places=tuple(dice.choice((0.0, 0.3, 3.0)) for _ in range(size)),
        weather=Weather(
            loss=dice.choice((0.0, 0.0, 0.2)), commit_loss=dice.choice((0.5, 1.0)), jitter=dice.choice((0.1, 1.0))
        ),
        skew=(1.0,) * size,
        faults_end_us=END_US,
        clients=draw_clients(dice, WRITES[workload], size, victim),
        faults=draw_faults(dice, victim),
        encoded=seed % 8 == 7,
    )


def draw_clients(dice: Random, asks: tuple[Ask, ...], n: int, victim: int) -> tuple[ClientPlan, ...]:
    homes = [victim, *(dice.randint(1, n) for _ in range(dice.randint(1, 2)))]
    clients = [
        ClientPlan(
            home=home,
            steps=tuple(
                Step(at_us=begin_us + i * ASK_EVERY_US, ask=dice.choice(asks), key=0, value=number * 100 + i)
                for i in range(dice.randint(2, 4))
            ),
        )
        for number, home in enumerate(homes)
        for begin_us in [dice.randrange(0, 4 * ASK_EVERY_US) if number else 0]
    ]
    if dice.random() < 0.5:
        clients.append(draw_poller(dice, victim))
    return tuple(clients)


def draw_poller(dice: Random, victim: int) -> ClientPlan:
    """A reader at the victim that reads between any two events."""
    every_us = dice.choice((200, 1_000, 5_000))
    consistency = dice.choice((Consistency.OPTIMISTIC, Consistency.LINEARIZABLE))
    steps = (Step(at_us=i * every_us, ask=Ask.READ, key=0, value=0, consistency=consistency) for i in range(POLLS))
    return ClientPlan(home=victim, steps=tuple(steps))


def draw_faults(dice: Random, victim: int) -> tuple[Fault, ...]:
    back_us = dice.randrange(3_000, ASK_EVERY_US)
    trap = Fault(at_us=0, kind=dice.choice(TRAPS), machines=(victim,), count=dice.choice((1, 1, 2, 3, 5, 9)))
    back = Fault(at_us=back_us, kind=FaultKind.RESTART, machines=(victim,))
    if dice.random() < 0.5:
        return (trap, back)
    slow = Fault(at_us=0, kind=FaultKind.SLOW_DISK, machines=(victim,))
    return (slow, trap, Fault(at_us=back_us, kind=FaultKind.FAST_DISK, machines=(victim,)), back)
