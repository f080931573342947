"""`epoxy sim ordered` and `ordered-mutants`: transactions in virtual time, and without time."""

from collections.abc import Iterator

from epoxy.cli.sim import results
from epoxy.cli.sim.campaigns import campaign_command, faults_command, mutant_option, size_option
from epoxy_sim.campaign import Tally
from epoxy_sim.keys.describe import condense
from epoxy_sim.txn.campaign import TxnSetup
from epoxy_sim.txn.shrink import shrink
from epoxy_sim.txn.trace_format import describe


def rows(tally: Tally, _: float) -> Iterator[tuple[str, str]]:
    """No virtual time among them: half of the runs have none."""
    yield "messages", f"{tally.messages:,}"
    answered = tally.verdicts.get("answered", 0)
    yield "transactions", f"{tally.operations:,} asked for, {answered:,} answered in virtual time"
    decided, nothing = tally.verdicts.get("decided", 0), tally.verdicts.get("nothing", 0)
    yield "instances", f"{decided:,} decided, {nothing:,} to be nothing"
    if tally.fast_share is not None:
        yield "fast", f"{tally.fast_share:.0%} of those decided by their coordinators"
    yield "faults", results.counts(tally.faults)


STAGE = results.Stage(
    setup=TxnSetup,
    shrink=shrink,
    describe=describe,
    condense=condense,
    left=lambda best: f"{best.size} parts",
    rows=rows,
)

ordered = campaign_command(
    STAGE,
    "ordered",
    mutant_option(TxnSetup),
    size_option("Replicas"),
    seeds="0..1000",
    short="Transactions over several keys: EPaxos*.",
    text="""Transactions of the ordered engine: transfers between accounts and anything else, coordinators that crash at
    every step, partitions, slow disks. Agreement, visibility, one order of execution, strict serializability, and a
    total that never changes.

    \b
    Examples:
      epoxy sim ordered --seeds 0..5000
      epoxy sim ordered --n 5 --mutant single-ballot
      epoxy sim ordered --replay 4711
    """,
)
ordered_mutants = faults_command(
    TxnSetup,
    short="The planted faults of the ordered engine.",
    text="""The planted faults of the ordered engine: each breaks one rule by name, and every one must be caught.

    \b
    Examples:
      epoxy sim ordered-mutants
      epoxy sim ordered-mutants --check single-ballot skip-validate
    """,
)
