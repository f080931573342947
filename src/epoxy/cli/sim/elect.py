"""`epoxy sim elect`, `elect-as-described` and `elect-mutants`: elections in virtual time."""

from epoxy.cli.sim.campaigns import campaign_command, faults_command, mutant_option, size_option
from epoxy_sim.elect.campaign import ElectSetup
from epoxy_sim.elect.mutants import AS_DESCRIBED

elect = campaign_command(
    ElectSetup,
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
    ElectSetup,
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
