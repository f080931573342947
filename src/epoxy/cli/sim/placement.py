"""`epoxy sim placement` and `placement-mutants`: actors and envoys in virtual time."""

from epoxy.cli.sim.campaigns import campaign_command, faults_command, mutant_option, size_option
from epoxy_sim.placement.campaign import PlacementSetup

placement = campaign_command(
    PlacementSetup,
    "placement",
    mutant_option(PlacementSetup),
    size_option("Datacenters"),
    seeds="0..500",
    short="Actors: one for a name, on one envoy.",
    text="""Every datacenter asks for the same names at once, while nodes crash, networks part and envoys are killed,
    cut off and drained. One actor for a name, run by one envoy at a time, found from everywhere when faults have ended.

    \b
    Examples:
      epoxy sim placement --seeds 0..2000
      epoxy sim placement --mutant no-fence
      epoxy sim placement --replay 4711
    """,
)
placement_mutants = faults_command(
    PlacementSetup,
    short="The planted faults of placement.",
    text="""The planted faults of placement: each breaks one rule by name, and every one must be caught.

    \b
    Examples:
      epoxy sim placement-mutants
      epoxy sim placement-mutants --check no-fence same-id
    """,
)
