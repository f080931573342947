"""`epoxy sim per-key`, `mutable`, `hot`, `membership`, `rot` and `as-described`: single keys in virtual time."""

from epoxy.cli.sim import parameters as options
from epoxy.cli.sim.campaigns import campaign_command
from epoxy_sim.keys.generate import HOT
from epoxy_sim.keys.mutants import AS_DESCRIBED
from epoxy_sim.members.campaign import Setup
from epoxy_sim.members.mutants import MEMBERSHIP, ROT

CHOICES = (options.n_option, options.mutant_option, options.policy_option, options.minutes_option)

per_key = campaign_command(
    Setup,
    "per-key",
    *CHOICES,
    workload="per-key",
    seeds="0..1000",
    short="Immutable keys: races for fresh names.",
    text="""Immutable keys: races for fresh names, mixed keys, reads of all three kinds.

    \b
    Examples:
      epoxy sim per-key --seeds 0..2000
      epoxy sim per-key --n 3 --policy optimal --mutant two-fast-votes
      epoxy sim per-key --replay 4711 --n 3
    """,
)
mutable = campaign_command(
    Setup,
    "mutable",
    *CHOICES,
    workload="mutable",
    seeds="0..1000",
    short="Mutable keys: overwrites, counters, deletes.",
    text="""Mutable keys: overwrites, get-and-set, adds, compare-and-set counters, deletes, and reservations among them.

    \b
    Examples:
      epoxy sim mutable --seeds 0..2000
      epoxy sim mutable --mutant no-behind
    """,
)
hot = campaign_command(
    Setup,
    HOT,
    *CHOICES,
    workload=HOT,
    seeds="0..500",
    short="Many clients on one key or two: folds, carried writes.",
    text="""Many clients on one key or two: writes that wait for each other are folded, and carried to its owner,
    under faults, with carried writes lost, repeated and late by seconds, and while members change. In every fourth seed
    nothing breaks, and every client must succeed.

    \b
    Examples:
      epoxy sim hot --seeds 0..2000
      epoxy sim hot --n 3 --mutant lineage-not-searched
      epoxy sim hot --replay 12
    """,
)
membership = campaign_command(
    Setup,
    MEMBERSHIP,
    *(options.policy_option, options.mutant_option, options.minutes_option),
    workload=MEMBERSHIP,
    seeds="0..500",
    short="Members come and go, under load and faults.",
    text="""Members come and go: growing, shrinking, replacing, two changes at once, a change that is given up; with
    writers on the same keys all the while, and crashes of all members, the coordinator included.

    \b
    Examples:
      epoxy sim membership --seeds 0..5000
      epoxy sim membership --mutant early-promotion
    """,
)
rot = campaign_command(
    Setup,
    ROT,
    *(options.policy_option, options.mutant_option, options.minutes_option),
    workload=ROT,
    seeds="0..500",
    short="Rows of the disks rot, while members change.",
    text="""Committed values, promises and votes rot on the disks, under load and while members change: what rotted is
    never served, values are repaired from a quorum of the others, and a node without its votes ends.

    \b
    Examples:
      epoxy sim rot --seeds 0..2000
      epoxy sim rot --mutant repaired-from-one
    """,
)
as_described = campaign_command(
    Setup,
    AS_DESCRIBED,
    *(options.n_option, options.policy_option, options.minutes_option),
    workload="per-key",
    mutant=AS_DESCRIBED,
    seeds="0..2000",
    short="The protocol as first described: it fails, and this shows how.",
    text="""The protocol as it was first described, which loses acknowledged writes. Exits 1 and shows how.

    \b
    Example:
      epoxy sim as-described
    """,
)
