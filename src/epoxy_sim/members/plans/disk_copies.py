"""Plans in which a disk is not what it was, and the operator replaces its machine by an empty one under a new id."""

from random import Random

from msgspec.structs import replace

from epoxy.model.quorum import QuorumPolicy
from epoxy_sim.keys.plan import OF_COPIES, MembersChangePlan, Plan
from epoxy_sim.keys.plans import disk_copies

NEW = 4


def replaced_copies(seed: int, policy: QuorumPolicy | None) -> Plan:
    dice = Random(f"replaced-copies/{seed}")
    plan = disk_copies.disk_copies(seed, "per-key", NEW - 1, policy)
    (struck,) = {fault.machines[0] for fault in plan.faults if fault.kind in OF_COPIES}
    others = [i for i in plan.first_members if i != struck]
    begins_us = dice.randrange(disk_copies.LAST_US + 700_000, disk_copies.END_US)
    return replace(
        plan,
        n=NEW,
        founders=plan.first_members,
        places=(*plan.places, 0.0),
        skew=(*plan.skew, 1.0),
        changes=(MembersChangePlan(at_us=begins_us, home=others[0], members=(*others, NEW)),),
    )
