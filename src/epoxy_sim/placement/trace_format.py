"""A plan of actors in words, for the reader of a failure."""

from collections.abc import Iterator

from epoxy_sim.keys.trace_format import EMBEDDED
from epoxy_sim.placement.plan import CleanUp, PlacementPlan
from epoxy_sim.trace_format import NAMES

NETWORK = (" -> ", " <- ")


def condense(trace: list[str]) -> list[str]:
    """Without the messages between replicas."""
    return [line for line in trace if not any(word in line for word in NETWORK)]


def describe(plan: PlacementPlan) -> Iterator[str]:
    sites = ", ".join(NAMES[i] for i in range(1, plan.sites.n + 1))
    yield f"{plan.sites.n} datacenters ({sites}); an envoy is lost after {plan.threshold_ms} ms"
    where = ", ".join(f"e{number} in {NAMES[site]}" for number, site in enumerate(plan.envoys))
    yield f"envoys: {where}; K = {plan.samples}, V = {plan.places[0]}, then {plan.places[1]}"
    yield f"{plan.slots or 'any number of'} slots, {'reserved' if plan.reserve_slots else 'counted when they start'}"
    if plan.clean_up is not CleanUp.SHORT:
        yield f"clean-up of code that is cancelled: {plan.clean_up.value}"
    if plan.sites.embedded:
        yield EMBEDDED
    for step in plan.steps:
        yield f"at {step.at_us / 1000:g} ms: {NAMES[step.site]} is asked to {step.ask.value} name {step.name}"
    for fault in plan.sites.faults:
        whom = ", ".join(NAMES[i] for i in fault.machines)
        yield f"at {fault.at_us / 1000:g} ms: {fault.kind.value} {whom}"
    for trouble in plan.envoy_faults:
        lasts_ms = trouble.for_us / 1000
        yield f"at {trouble.at_us / 1000:g} ms: {trouble.kind.value} e{trouble.envoy}, for {lasts_ms:g} ms"
    yield f"at {plan.sites.faults_end_us / 1000:g} ms: all faults end"
