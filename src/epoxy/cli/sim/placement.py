"""`epoxy sim placement` and `placement-mutants`: actors and envoys in virtual time."""

from collections.abc import Iterator

from epoxy.cli.sim import results
from epoxy.cli.sim.campaigns import campaign_command, faults_command, mutant_option, size_option
from epoxy_sim.campaign import Tally
from epoxy_sim.placement.campaign import PlacementSetup
from epoxy_sim.placement.shrink import shrink
from epoxy_sim.placement.trace_format import condense, describe


def rows(tally: Tally, seconds: float) -> Iterator[tuple[str, str]]:
    yield "virtual time", results.virtual_time(tally, seconds)
    yield "messages", f"{tally.messages:,}"
    yield "answers", results.counts(tally.paths)
    yield "faults", results.counts(tally.faults)


STAGE = results.Stage(
    setup=PlacementSetup,
    shrink=shrink,
    describe=describe,
    condense=condense,
    left=lambda best: f"{best.size} steps and faults",
    rows=rows,
)

placement = campaign_command(
    STAGE,
    "placement",
    mutant_option(PlacementSetup),
    size_option("Datacenters"),
    seeds="0..500",
    short="Actors: one for a name, on one envoy.",
    text="""Every datacenter asks for the same names at once, while nodes crash, networks part and envoys are killed,
    cut off and drained. One actor for a name, run by one envoy at a time, found by everybody when all is calm.

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
