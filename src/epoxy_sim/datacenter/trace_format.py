"""A plan in words, for the reader of a failure."""

from collections.abc import Iterator

from epoxy_sim.datacenter.plan import DatacenterPlan, DatacenterStep, NodeFault, NodeFaultKind
from epoxy_sim.keys.plan import Ask
from epoxy_sim.keys.trace_format import milliseconds

OF_ALL = (NodeFaultKind.DATABASE_DOWN, NodeFaultKind.CONFIG)
"""Faults that are not one node's."""


def describe(plan: DatacenterPlan) -> Iterator[str]:
    yield f"{plan.nodes} nodes on one database, {plan.first_nodes} of them from the beginning; seed {plan.seed}"
    others = f"{plan.n - 1} other datacenters, {milliseconds(plan.distance_us)} away" if plan.n > 1 else "no other"
    yield f"{others}; {plan.policy.value} quorums, {plan.loss:.0%} of messages lost"
    yield f"leases of {plan.lease_ms:g} ms; clocks of nodes run at {', '.join(f'{rate:.2f}' for rate in plan.rates)}"
    weather = ", ".join(
        f"{name.replace('_', ' ')} {share:.0%}"
        for name in plan.weather.__struct_fields__
        if (share := getattr(plan.weather, name))
    )
    yield f"a statement takes up to {milliseconds(plan.statement_us)} each way; {weather or 'none is lost'}"
    for number, steps in enumerate(plan.clients, start=1):
        yield f"c{number}: {'; '.join(step_words(step, plan.nodes) for step in steps)}"
    for fault in plan.faults:
        yield f"at {milliseconds(fault.at_us)}: {fault_words(fault)}"
    yield f"at {milliseconds(plan.faults_end_us)}: all faults end"


def step_words(step: DatacenterStep, nodes: int) -> str:
    asked = f"{step.ask.value} key-{step.key}"
    if step.ask is Ask.READ:
        asked = f"{step.consistency.value} {asked}"
    where = f"node {step.place}" if step.place <= nodes else "another datacenter"
    return f"{asked} at {where} (at {milliseconds(step.at_us)})"


def fault_words(fault: NodeFault) -> str:
    whom = "" if fault.kind in OF_ALL else f" of node {fault.node}"
    return f"{fault.kind.value}{whom}" + (f" for {milliseconds(fault.lasts_us)}" if fault.lasts_us else "")
