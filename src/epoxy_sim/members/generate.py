"""From a seed to a plan in which members change: the kinds of plan in turn, and in some seeds disks that are not
what they were."""

from msgspec.structs import replace

from epoxy.model.quorum import QuorumPolicy
from epoxy_sim.keys.plan import Plan, has_embedded_store, sends_early
from epoxy_sim.keys.plans.disk_copies import has_disk_copies
from epoxy_sim.members.plans.churn import churn
from epoxy_sim.members.plans.copying import copying
from epoxy_sim.members.plans.disk_copies import replaced_copies
from epoxy_sim.members.plans.disk_loss import disk_loss
from epoxy_sim.members.plans.joint_epoch import joint_epoch
from epoxy_sim.members.plans.stragglers import last_vote_leaves, stragglers

KINDS = (churn, stragglers, copying, joint_epoch, last_vote_leaves, disk_loss)


def generate(seed: int, policy: QuorumPolicy | None = None) -> Plan:
    draw = replaced_copies if has_disk_copies(seed) else KINDS[seed % len(KINDS)]
    return replace(draw(seed, policy), embedded=has_embedded_store(seed), early=sends_early(seed))
