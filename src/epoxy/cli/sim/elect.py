"""`epoxy sim elect`, `elect-as-described` and `elect-mutants`: elections in virtual time."""

from collections.abc import Iterator

from epoxy.cli.sim import results
from epoxy.cli.sim.campaigns import campaign_command, faults_command, mutant_option, size_option
from epoxy_sim.campaign import Tally
from epoxy_sim.elect.campaign import ElectSetup
from epoxy_sim.elect.mutants import AS_DESCRIBED
from epoxy_sim.elect.shrink import shrink
from epoxy_sim.elect.trace_format import condense, describe


def rows(tally: Tally, seconds: float) -> Iterator[tuple[str, str]]:
    yield "virtual time", results.virtual_time(tally, seconds)
    yield "messages", f"{tally.messages:,}"
    yield "writes", f"{tally.operations:,} tried, {tally.paths.get('acknowledged', 0):,} acknowledged"
    elected, opened = tally.verdicts.get("elections", 0), tally.verdicts.get("openings", 0)
    yield "primaries", f"{elected:,} elected, {opened:,} opened"
    yield "faults", results.counts(tally.faults)


STAGE = results.Stage(
    setup=ElectSetup,
    shrink=shrink,
    describe=describe,
    condense=condense,
    left=lambda best: f"{best.n} nodes, {best.size} faults",
    rows=rows,
)

elect = campaign_command(
    STAGE,
    "elect",
    mutant_option(ElectSetup),
    size_option("Nodes"),
    seeds="0..1000",
    short="Elections: one primary, leases, fencing.",
    text="""Elections over servers that replicate by themselves: kills, restarts with and without a disk, pauses,
    partitions, clocks that drift, planned handovers.

    \b
    Examples:
      epoxy sim elect --seeds 0..5000
      epoxy sim elect --n 3 --mutant 5-no-lease
      epoxy sim elect --replay 4711
    """,
)
as_described = campaign_command(
    STAGE,
    AS_DESCRIBED,
    size_option("Nodes"),
    seeds="0..1000",
    mutant=AS_DESCRIBED,
    short="Elections as first described: they break.",
    text="""Elections as the original text has them. Exits 1 and shows how they break.

    \b
    Example:
      epoxy sim elect-as-described --n 3
    """,
)
elect_mutants = faults_command(
    ElectSetup,
    short="The planted faults of elections.",
    text="""The planted faults of elections: each breaks one rule by name, and every one must be caught.

    \b
    Examples:
      epoxy sim elect-mutants
      epoxy sim elect-mutants --check 5-no-lease 6-offsets-alone
    """,
)
