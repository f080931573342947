"""Plans aimed at writes that a change of members may lose.

Such a write is acknowledged shortly before or during the change, at a member that then fails before others learn of
it: so names are reserved at old members, almost all Commits are lost, and one of the old members (the straggler) fails,
often right after an acknowledgement. After the change others reserve the same names, and the straggler comes back,
sometimes connected to one old member alone.
"""

from random import Random

from msgspec.structs import replace

from epoxy.model.quorum import QuorumPolicy
from epoxy.model.writes import Consistency
from epoxy.protocol.effects import Timing
from epoxy_sim.keys.plan import Ask, ClientPlan, Fault, FaultKind, MembersChangePlan, Plan, Step, Weather

Change = tuple[tuple[int, ...], tuple[int, ...]]

CHANGES: tuple[Change, ...] = (
    ((1, 2), (2, 3)),
    ((1, 2), (3, 4)),
    ((1, 2, 3), (1, 2, 3, 4)),
    ((1, 2, 3), (1, 2, 3, 4, 5)),
    ((1, 2, 3), (3, 4, 5)),
    ((1, 2, 3), (1, 3, 4)),
    ((1, 2, 3), (1, 4, 5)),
    ((1, 2, 3), (1, 4, 5)),
    ((1, 2, 3, 4), (2, 3, 4, 5)),
    ((1, 2, 3, 4, 5), (1, 2, 3)),
    ((1, 2, 3, 4, 5), (3, 4, 5)),
)

CHANGE_US = 300_000
CHANGED_US = 2_000_000
"""When the change is over, in most plans."""

END_US = 5_000_000
"""By now the straggler is back."""


def stragglers(seed: int, policy: QuorumPolicy | None) -> Plan:
    dice = Random(f"stragglers/{seed}")
    founders, wanted = dice.choice(CHANGES)
    n = max(*founders, *wanted)
    slowest = dice.choice((0.5, 5.0, 30.0))
    straggler = dice.choice(founders)
    return Plan(
        seed=seed,
        n=n,
        founders=founders,
        policy=policy if policy is not None else dice.choice(tuple(QuorumPolicy)),
        timing=Timing(hedge_ms=slowest * dice.choice((0.5, 2, 4)) + 1, round_timeout_ms=slowest * 4 + 5),
        places=tuple(slowest * dice.choice((0.0, dice.random(), 1.0)) for _ in range(n)),
        weather=Weather(loss=dice.choice((0.0, 0.1, 0.3)), commit_loss=1.0, jitter=dice.choice((0.1, 1.0))),
        skew=(1.0,) * n,
        faults_end_us=END_US,
        clients=draw_clients(dice, founders, wanted, straggler),
        faults=draw_faults(dice, founders, straggler, n),
        encoded=seed % 8 == 7,
        changes=(MembersChangePlan(at_us=CHANGE_US, home=dice.choice(founders), members=wanted),),
    )


def last_vote_leaves(seed: int, policy: QuorumPolicy | None) -> Plan:
    """A name is reserved while newcomers learn, at a member that dies at once, with the vote of one that leaves. The
    third member was cut off, stays, and is back when the joint epoch begins."""
    dice = Random(f"unheard/{seed}")
    dies, leaves, stays = dice.sample((1, 2, 3), k=3)
    wanted = tuple(sorted(dice.choice(((stays, 4, 5), (stays, 4), (4, 5), (stays, leaves, 4), (leaves, 4, 5)))))
    n = max(3, *wanted)
    take_us = dice.randrange(150_000, 600_000)
    heal_us = take_us + dice.randrange(5_000, 200_000)
    take = ClientPlan(home=dies, steps=(Step(at_us=take_us, ask=Ask.RESERVE, key=0, value=1),))
    later = [(stays, 400_000), (4, 700_000), (wanted[-1], 1_000_000), (4, 2_000_000)]
    return replace(
        three_founders(seed, n, policy, dice, END_US),
        clients=(
            take,
            *(
                reserving(0, home, heal_us + at_us + dice.randrange(400_000), i, dice)
                for i, (home, at_us) in enumerate(later, 2)
            ),
        ),
        faults=(
            Fault(at_us=0, kind=FaultKind.PARTITION, machines=(stays,)),
            Fault(at_us=0, kind=FaultKind.CRASH_ON_ANSWER, machines=(dies,)),
            Fault(at_us=heal_us, kind=FaultKind.HEAL, machines=(stays,)),
            Fault(at_us=dice.choice((END_US, dice.randrange(heal_us, END_US))), kind=RESTART, machines=(dies,)),
        ),
        changes=(MembersChangePlan(at_us=100_000, home=leaves, members=wanted),),
    )


def three_founders(seed: int, n: int, policy: QuorumPolicy | None, dice: Random, end_us: int) -> Plan:
    """Close to each other, and every unanswered Commit is lost. Clients and faults are left to the caller."""
    return Plan(
        seed=seed,
        n=n,
        founders=(1, 2, 3),
        policy=policy if policy is not None else dice.choice((QuorumPolicy.OPTIMAL, *QuorumPolicy)),
        timing=Timing(hedge_ms=5.0, round_timeout_ms=10.0),
        places=tuple(dice.choice((0.0, 1.0)) for _ in range(n)),
        weather=Weather(commit_loss=1.0, jitter=dice.choice((0.1, 1.0))),
        skew=(1.0,) * n,
        faults_end_us=end_us,
        clients=(),
        faults=(),
        encoded=False,
    )


def draw_clients(
    dice: Random, founders: tuple[int, ...], wanted: tuple[int, ...], straggler: int
) -> tuple[ClientPlan, ...]:
    """Each name is reserved at the straggler, then elsewhere. Clients wait for their answers, so there is one for each
    name and place."""
    clients: list[ClientPlan] = []
    for key in range(dice.choice((1, 3, 6))):
        begin_us = dice.choice((dice.randrange(2 * CHANGE_US), dice.randrange(CHANGED_US), dice.randrange(END_US)))
        homes = [straggler, dice.choice(wanted), dice.choice((*founders, *wanted))]
        for number, home in enumerate(homes):
            at_us = begin_us + number * dice.choice((0, 3_000, 50_000, 400_000, 1_500_000, 2_500_000))
            clients.append(reserving(key, home, at_us, 100 * number + key, dice))
    return tuple(clients)


def reserving(key: int, home: int, at_us: int, value: int, dice: Random) -> ClientPlan:
    look = Step(at_us=at_us + 100_000, ask=Ask.READ, key=key, value=0, consistency=Consistency.LINEARIZABLE)
    take = Step(at_us=at_us, ask=Ask.RESERVE, key=key, value=value)
    return ClientPlan(home=home, steps=(take, look) if dice.random() < 0.7 else (look, take))


def draw_faults(dice: Random, founders: tuple[int, ...], straggler: int, n: int) -> tuple[Fault, ...]:
    """The straggler fails, and comes back much later: connected to all, or to some old members alone."""
    at_us = dice.randrange(CHANGE_US // 2, CHANGED_US)
    back_us = dice.choice((END_US, dice.randrange(at_us, END_US)))
    kind, ends = dice.choice(SILENCES)
    faults = [
        Fault(at_us=0 if kind is FaultKind.CRASH_ON_ANSWER else at_us, kind=kind, machines=(straggler,)),
        Fault(at_us=back_us, kind=ends, machines=(straggler,)),
    ]
    others = [i for i in founders if i != straggler]
    if len(others) > 1 and dice.random() < 0.5:
        # Another member misses everything the straggler did.
        deaf = (dice.choice(others),)
        faults.append(Fault(at_us=0, kind=FaultKind.PARTITION, machines=deaf))
        faults.append(Fault(at_us=dice.randrange(CHANGE_US, CHANGED_US), kind=FaultKind.HEAL, machines=deaf))
    if others and dice.random() < 0.6:
        side = (straggler, *dice.sample(others, k=dice.randint(1, max(1, len(others) - 1))))
        if len(side) < n:
            cut_us = max(0, back_us - dice.choice((1, 100_000)))
            faults.append(Fault(at_us=cut_us, kind=FaultKind.PARTITION, machines=tuple(sorted(side))))
            faults.append(Fault(at_us=dice.randrange(cut_us, END_US), kind=FaultKind.HEAL, machines=(straggler,)))
    return tuple(sorted(faults, key=lambda fault: fault.at_us))


RESTART = FaultKind.RESTART

SILENCES = (
    (FaultKind.CRASH_ON_ANSWER, FaultKind.RESTART),
    (FaultKind.CRASH, FaultKind.RESTART),
    (FaultKind.PAUSE, FaultKind.RESUME),
    (FaultKind.PARTITION, FaultKind.HEAL),
    (FaultKind.ONE_WAY, FaultKind.HEAL),
)
