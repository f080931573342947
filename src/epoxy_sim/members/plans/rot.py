"""Plans in which rows of a disk rot, while members change.

A write is acknowledged by few: almost all Commits are lost, and one member was cut off. Then what one of the two others
holds of it rots: its committed row, or its vote. If it answers as if it had none, or believes the first to answer, the
write is lost.
"""

from random import Random

from msgspec.structs import replace

from epoxy.model.quorum import QuorumPolicy
from epoxy.model.writes import Consistency
from epoxy_sim.keys.plan import Ask, ClientPlan, Fault, FaultKind, MembersChangePlan, Plan, Step
from epoxy_sim.members.plans.stragglers import three_founders

END_US = 2_000_000


def rot(seed: int, policy: QuorumPolicy | None) -> Plan:
    return KINDS[seed % len(KINDS)](seed, policy)


def rotten_values(seed: int, policy: QuorumPolicy | None) -> Plan:
    """One writes twice; the second is missed by the one that is cut off. A third write comes with the rot: by a state
    in memory it may succeed before the repair does."""
    dice = Random(f"rot/{seed}")
    writes, hears, deaf = dice.sample((1, 2, 3), k=3)
    ask = dice.choice((Ask.RESERVE, Ask.PUT, Ask.PUT))
    first_us = dice.randrange(60_000, 200_000)
    cut_us, second_us = first_us + 60_000, first_us + 70_000
    rots_us = second_us + dice.randrange(1_000, 60_000)
    rots = dice.choice((writes, writes, hears))
    heal_us = rots_us + dice.choice((-5_000, dice.randrange(60_000), dice.randrange(60_000), 400_000))
    silent_us = rots_us + dice.randrange(1_000, 30_000)
    wanted = dice.choice(((1, 2, 3), (1, 2, 3, 4), (1, 2, 3, 4, 5)))
    other = hears if rots == writes else writes
    silence = (
        Fault(at_us=silent_us, kind=FaultKind.CRASH, machines=(other,)),
        Fault(at_us=silent_us + 500_000, kind=FaultKind.RESTART, machines=(other,)),
    )
    crash = (
        Fault(at_us=rots_us - 500, kind=FaultKind.CRASH, machines=(rots,)),
        Fault(at_us=rots_us + 500, kind=FaultKind.RESTART, machines=(rots,)),
    )
    return replace(
        three_founders(seed, max(3, *wanted), policy, dice, END_US),
        clients=(
            ClientPlan(home=writes, steps=(step(first_us, ask, 1), step(second_us, Ask.PUT, 2))),
            ClientPlan(home=rots, steps=tuple(step(rots_us + 3_000 * i, Ask.READ, 0) for i in range(12))),
            ClientPlan(home=rots, steps=(step(rots_us + dice.randrange(3_000), Ask.PUT, 5),)),
            ClientPlan(home=deaf, steps=(step(heal_us + 20_000, ask, 3), step(heal_us + 25_000, Ask.PUT, 4))),
            ClientPlan(home=4 if 4 in wanted else deaf, steps=(step(1_500_000, Ask.READ, 0),)),
        ),
        faults=tuple(
            sorted(
                (
                    Fault(at_us=cut_us, kind=FaultKind.PARTITION, machines=(deaf,)),
                    Fault(at_us=rots_us, kind=FaultKind.ROT, machines=(rots,)),
                    Fault(at_us=max(rots_us, heal_us), kind=FaultKind.HEAL, machines=(deaf,)),
                    *dice.choice((silence, silence, ())),
                    *dice.choice((crash, ())),
                ),
                key=lambda fault: fault.at_us,
            )
        ),
        changes=(MembersChangePlan(at_us=dice.choice((10_000, rots_us)), home=deaf, members=wanted),),
    )


def rotten_votes(seed: int, policy: QuorumPolicy | None) -> Plan:
    """As with a lost disk: the one that has the vote answers as if it had none. It is replaced, or nothing is done."""
    dice = Random(f"rotten votes/{seed}")
    falls_silent, loses, deaf = dice.sample((1, 2, 3), k=3)
    wanted = tuple(sorted((falls_silent, deaf, 4)))
    take_us = dice.randrange(60_000, 400_000)
    lost_us = take_us + dice.randrange(5_000, 100_000)
    heal_us = lost_us + dice.randrange(-3_000, 50_000)
    crash = (
        Fault(at_us=lost_us - 500, kind=FaultKind.CRASH, machines=(loses,)),
        Fault(at_us=lost_us + 500, kind=FaultKind.RESTART, machines=(loses,)),
    )
    return replace(
        three_founders(seed, 4, policy, dice, END_US),
        clients=(
            ClientPlan(home=falls_silent, steps=(Step(at_us=take_us, ask=Ask.RESERVE, key=0, value=1),)),
            ClientPlan(home=deaf, steps=(Step(at_us=heal_us + 100_000, ask=Ask.RESERVE, key=0, value=2),)),
            ClientPlan(home=loses, steps=(Step(at_us=heal_us + 200_000, ask=Ask.RESERVE, key=0, value=3),)),
        ),
        faults=(
            Fault(at_us=50_000, kind=FaultKind.PARTITION, machines=(deaf,)),
            Fault(at_us=50_000, kind=FaultKind.CRASH_ON_ANSWER, machines=(falls_silent,)),
            crash[0],
            Fault(at_us=lost_us, kind=FaultKind.ROT_VOTES, machines=(loses,)),
            crash[1],
            Fault(at_us=max(lost_us + 1_000, heal_us), kind=FaultKind.HEAL, machines=(deaf,)),
            Fault(at_us=END_US, kind=FaultKind.RESTART, machines=(falls_silent,)),
        ),
        changes=(MembersChangePlan(at_us=END_US - 100_000, home=deaf, members=wanted),),
    )


def left_with_one(seed: int, policy: QuorumPolicy | None) -> Plan:
    """Of the two others, one has missed the last write, and the other is down when the row rots."""
    dice = Random(f"left with one/{seed}")
    writes, hears, deaf = dice.sample((1, 2, 3), k=3)
    first_us = dice.randrange(60_000, 200_000)
    cut_us, second_us = first_us + 60_000, first_us + 70_000
    rots_us = second_us + 40_000
    wanted = dice.choice(((1, 2, 3), (1, 2, 3, 4)))
    return replace(
        three_founders(seed, max(wanted), policy, dice, END_US),
        clients=(
            ClientPlan(home=writes, steps=(step(first_us, Ask.PUT, 1), step(second_us, Ask.PUT, 2))),
            ClientPlan(home=deaf, steps=(step(rots_us + dice.randrange(40_000, 200_000), Ask.PUT, 3),)),
        ),
        faults=(
            Fault(at_us=cut_us, kind=FaultKind.PARTITION, machines=(deaf,)),
            Fault(at_us=rots_us - 1_000, kind=FaultKind.CRASH, machines=(hears,)),
            Fault(at_us=rots_us, kind=FaultKind.ROT, machines=(writes,)),
            Fault(at_us=rots_us + 500, kind=FaultKind.HEAL, machines=(deaf,)),
            Fault(at_us=rots_us + 600_000, kind=FaultKind.RESTART, machines=(hears,)),
        ),
        changes=(MembersChangePlan(at_us=END_US - 500_000, home=deaf, members=wanted),),
    )


def written_meanwhile(seed: int, policy: QuorumPolicy | None) -> Plan:
    """The repair waits for the further of the two others, while a write needs only the nearer one."""
    dice = Random(f"written meanwhile/{seed}")
    writes, near, far = dice.sample((1, 2, 3), k=3)
    rots_us = dice.randrange(200_000, 300_000)
    places = {writes: 0.0, near: 0.0, far: dice.choice((2.0, 4.0))}
    wanted = dice.choice(((1, 2, 3), (1, 2, 3, 4)))
    plan = three_founders(seed, max(wanted), policy, dice, END_US)
    return replace(
        plan,
        timing=replace(plan.timing, hedge_ms=30.0, round_timeout_ms=60.0),
        places=tuple(places.get(i, 0.0) for i in range(1, max(wanted) + 1)),
        weather=replace(plan.weather, commit_loss=0.0),
        clients=(
            ClientPlan(home=writes, steps=(step(100_000, Ask.PUT, 1), step(130_000, Ask.PUT, 2))),
            ClientPlan(home=writes, steps=(step(rots_us + 100, Ask.READ, 0), step(rots_us + 60_000, Ask.READ, 0))),
            ClientPlan(home=writes, steps=(step(rots_us + dice.randrange(20_000, 24_000), Ask.PUT, 3),)),
            ClientPlan(home=near, steps=(step(rots_us + 100_000, Ask.PUT, 4),)),
        ),
        faults=(Fault(at_us=rots_us, kind=FaultKind.ROT, machines=(writes,)),),
        changes=(MembersChangePlan(at_us=END_US - 500_000, home=near, members=wanted),),
    )


def step(at_us: int, ask: Ask, value: int) -> Step:
    return Step(at_us=at_us, ask=ask, key=0, value=value, consistency=Consistency.LINEARIZABLE)


KINDS = (rotten_values, rotten_votes, left_with_one, written_meanwhile)
