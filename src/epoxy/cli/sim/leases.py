"""`epoxy sim leases` and `leases-mutants`: values that end, and their holders, in virtual time."""

from epoxy.cli.sim import parameters as options
from epoxy.cli.sim.campaigns import campaign_command, faults_command, mutant_option, size_option
from epoxy_sim.leases.campaign import LeaseSetup

leases = campaign_command(
    LeaseSetup,
    "leases",
    *(mutant_option(LeaseSetup), size_option("Replicas"), options.policy_option, options.minutes_option),
    seeds="0..500",
    short="Leases: one holder at a time, never ended early.",
    text="""Clients acquire locks with a time to live, renew them, release them or leave them to their end; others put,
    touch and count values that end. Every replica and every client has a clock of its own, within 1 % of the others;
    machines are suspended and restarted, networks part, holders stand still. No two clients believe in one lease,
    tokens rise from holder to holder, nothing ends early, and all that is to end does.

    \b
    Examples:
      epoxy sim leases --seeds 0..5000
      epoxy sim leases --mutant clocks-beyond-bound
      epoxy sim leases --replay 4711
    """,
)
leases_mutants = faults_command(
    LeaseSetup,
    short="The planted faults of leases.",
    text="""The planted faults of leases: each breaks one rule by name, and every one must be caught.

    \b
    Examples:
      epoxy sim leases-mutants
      epoxy sim leases-mutants --check no-margin wall-clock
    """,
)
