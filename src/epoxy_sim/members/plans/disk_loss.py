"""Plans in which a machine comes back under its old name with an empty disk.

Its vote was one of the few that an acknowledged write had. If the others accept it under its old id, it votes for
another value.
"""

from random import Random

from msgspec.structs import replace

from epoxy.model.quorum import QuorumPolicy
from epoxy_sim.keys.plan import Ask, ClientPlan, Fault, FaultKind, MembersChangePlan, Plan, Step
from epoxy_sim.members.plans.stragglers import three_founders

END_US = 2_000_000


def disk_loss(seed: int, policy: QuorumPolicy | None) -> Plan:
    dice = Random(f"lost/{seed}")
    falls_silent, loses, deaf = dice.sample((1, 2, 3), k=3)
    replaced = tuple(sorted((falls_silent, deaf, 4)))
    wanted = dice.choice(((1, 2, 3), replaced, (*replaced, 5)))  # what one does about it, or nothing
    n = max(3, *wanted)
    take_us = dice.randrange(60_000, 400_000)
    lost_us = take_us + dice.randrange(5_000, 100_000)
    heal_us = lost_us + dice.randrange(-3_000, 50_000)
    return replace(
        three_founders(seed, n, policy, dice, END_US),
        clients=(
            ClientPlan(home=falls_silent, steps=(Step(at_us=take_us, ask=Ask.RESERVE, key=0, value=1),)),
            ClientPlan(home=deaf, steps=(Step(at_us=heal_us + 100_000, ask=Ask.RESERVE, key=0, value=2),)),
            ClientPlan(home=loses, steps=(Step(at_us=heal_us + 200_000, ask=Ask.RESERVE, key=0, value=3),)),
        ),
        faults=(
            Fault(at_us=50_000, kind=FaultKind.PARTITION, machines=(deaf,)),
            Fault(at_us=50_000, kind=FaultKind.CRASH_ON_ANSWER, machines=(falls_silent,)),
            Fault(at_us=lost_us, kind=FaultKind.LOSE_DISK, machines=(loses,)),
            Fault(at_us=max(lost_us, heal_us), kind=FaultKind.HEAL, machines=(deaf,)),
            Fault(at_us=END_US, kind=FaultKind.RESTART, machines=(falls_silent,)),
        ),
        changes=(MembersChangePlan(at_us=dice.choice((10_000, heal_us)), home=deaf, members=wanted),),
    )
