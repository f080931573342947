"""`epoxy sim ordered` and `ordered-mutants`: transactions in virtual time, and without time."""

from epoxy.cli.sim.campaigns import campaign_command, faults_command, mutant_option, size_option
from epoxy_sim.txn.campaign import TxnSetup

ordered = campaign_command(
    TxnSetup,
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
