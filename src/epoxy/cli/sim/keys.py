"""`epoxy sim per-key`, `mutable`, `membership` and `as-described`: single keys in virtual time."""

from collections.abc import Iterator

from epoxy.cli.sim import parameters as options
from epoxy.cli.sim import results
from epoxy.cli.sim.campaigns import campaign_command
from epoxy_sim.campaign import Tally
from epoxy_sim.keys.campaign import AS_DESCRIBED, Setup
from epoxy_sim.keys.describe import condense, describe
from epoxy_sim.keys.plan import FaultKind
from epoxy_sim.keys.shrink import shrink
from epoxy_sim.members.plans.churn import MEMBERSHIP

SUFFERED = ("lost", "duplicated", "delayed")
"""What became of messages is counted beside the faults, and shown beside the messages."""

ENDINGS = [kind.value for kind in (FaultKind.RESTART, FaultKind.HEAL, FaultKind.RESUME, FaultKind.FAST_DISK)]
"""The ends of faults are in the plan as well. Nobody wants to read them twice."""


def rows(tally: Tally, seconds: float) -> Iterator[tuple[str, str]]:
    yield "virtual time", results.virtual_time(tally, seconds)
    suffered = {name: tally.faults[name] for name in SUFFERED if name in tally.faults}
    yield "messages", f"{tally.messages:,} ({results.counts(suffered)})"
    yield "operations", f"{tally.operations:,}"
    yield "committed writes", f"{results.counts(tally.paths)}{fast_share(tally)}"
    faults = {kind: times for kind, times in tally.faults.items() if kind not in (*SUFFERED, *ENDINGS)}
    yield "faults", results.counts(faults)
    yield "keys judged", results.counts(tally.verdicts)


def fast_share(tally: Tally) -> str:
    return f" (fast share {tally.fast_share:.1%})" if tally.fast_share is not None else ""


STAGE = results.Stage(
    setup=Setup,
    shrink=shrink,
    describe=describe,
    condense=condense,
    left=lambda best: f"{best.n} replicas, {best.size} steps and faults",
    rows=rows,
    more=lambda report: {"history": report.history},
)

per_key = campaign_command(
    STAGE,
    "per-key",
    options.n_option,
    options.mutant_option,
    options.policy_option,
    options.minutes_option,
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
    STAGE,
    "mutable",
    options.n_option,
    options.mutant_option,
    options.policy_option,
    options.minutes_option,
    workload="mutable",
    seeds="0..1000",
    short="Mutable keys: overwrites, counters, deletes.",
    text="""Mutable keys: overwrites, compare-and-set counters, deletes, and reservations among them.

    \b
    Examples:
      epoxy sim mutable --seeds 0..2000
      epoxy sim mutable --mutant no-behind
    """,
)
membership = campaign_command(
    STAGE,
    MEMBERSHIP,
    options.policy_option,
    options.mutant_option,
    options.minutes_option,
    workload=MEMBERSHIP,
    seeds="0..500",
    short="Members come and go, under load and faults.",
    text="""Members come and go: growing, shrinking, replacing, two changes at once, a change that is given up; with
    writers on the same keys all the while, and crashes of everybody, the coordinator too.

    \b
    Examples:
      epoxy sim membership --seeds 0..5000
      epoxy sim membership --mutant early-promotion
    """,
)
as_described = campaign_command(
    STAGE,
    AS_DESCRIBED,
    options.n_option,
    options.policy_option,
    options.minutes_option,
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
