"""`epoxy sim store` and `store-mutants`: the embedded store on a simulated disk."""

from epoxy.cli.sim.campaigns import campaign_command, faults_command, mutant_option
from epoxy_sim.store.campaign import StoreSetup

store = campaign_command(
    StoreSetup,
    "store",
    mutant_option(StoreSetup),
    seeds="0..2000",
    short="The embedded store: power cuts, rot, lying syncs, old copies.",
    text="""The store of a node, on a simulated disk: power cuts tear, reorder and lose what was not synced; then bits
    change, files get shorter, the disk has lied, or an old copy is put back. Nothing acknowledged is lost unnoticed,
    and no read is wrong.

    \b
    Examples:
      epoxy sim store --seeds 0..10000
      epoxy sim store --mutant log-goes-first
      epoxy sim store --replay 4711
    """,
)
store_mutants = faults_command(
    StoreSetup,
    short="The planted faults of the store.",
    text="""The planted faults of the store: each breaks one rule by name, and every one must be caught.

    \b
    Examples:
      epoxy sim store-mutants
      epoxy sim store-mutants --check row-unchecked log-goes-first
    """,
)
