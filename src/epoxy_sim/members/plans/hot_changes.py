"""Plans with many clients on few keys while members change: owners leave, and carried writes reach members of another
epoch."""

from random import Random

from msgspec.structs import replace

from epoxy.model.quorum import QuorumPolicy
from epoxy_sim.keys.plan import MembersChangePlan, Plan
from epoxy_sim.keys.plans.hot import hot

EVERY, WHICH = 6, 5
"""In one plan of so many members change."""

CHANGES = (
    ((1, 2, 3), (2, 3, 4)),
    ((1, 2, 3), (1, 2, 3, 4, 5)),
    ((1, 2, 3, 4, 5), (3, 4, 5)),
    ((1, 2, 3), (3, 4, 5)),
)
"""The first members, and those asked for."""


def has_changes(seed: int) -> bool:
    return seed % EVERY == WHICH


def hot_changes(seed: int, policy: QuorumPolicy | None) -> Plan:
    dice = Random(f"hot changes/{seed}")
    founders, wanted = dice.choice(CHANGES)
    plan = hot(seed, max(*founders, *wanted), policy)
    asked = MembersChangePlan(
        at_us=dice.choice((0, dice.randrange(20_000), dice.randrange(plan.faults_end_us))),
        home=dice.choice(founders),
        members=wanted,
    )
    return replace(plan, founders=founders, changes=(asked,))
