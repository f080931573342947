"""`epoxy sim datacenter` and `datacenter-mutants`: nodes that share a database, in virtual time."""

from epoxy.cli.sim import parameters as options
from epoxy.cli.sim.campaigns import campaign_command, faults_command, mutant_option, size_option
from epoxy_sim.datacenter.campaign import DatacenterSetup

datacenter = campaign_command(
    DatacenterSetup,
    "datacenter",
    *(mutant_option(DatacenterSetup), size_option("Datacenters"), options.policy_option, options.minutes_option),
    seeds="0..500",
    short="Nodes of one datacenter on one database.",
    text="""Two to four nodes own shards of the keys, in a database that restarts and loses connections before and after
    a commit. Nodes crash, are paused far beyond their lease and go on with their old memory, join and leave; shards are
    handed over and taken over, and the cluster has new configurations. Clients ask any node, or another datacenter. One
    owner at a time makes durable, no acknowledged write is lost, histories of keys are linearizable, and the changelog
    has every commit once, in an order in which a reader misses none.

    \b
    Examples:
      epoxy sim datacenter --seeds 0..5000
      epoxy sim datacenter --mutant reads-not-fenced
      epoxy sim datacenter --replay 4711
    """,
)
datacenter_mutants = faults_command(
    DatacenterSetup,
    short="The planted faults of a datacenter.",
    text="""The planted faults of nodes that share a database: each breaks one rule by name, and every one must be
    caught.

    \b
    Examples:
      epoxy sim datacenter-mutants
      epoxy sim datacenter-mutants --check no-batch-fence memory-kept
    """,
)
