"""A plan in words, for the reader of a failure."""

from collections.abc import Iterator

from epoxy_sim.keys.plan import Fault
from epoxy_sim.keys.trace_format import EMBEDDED
from epoxy_sim.trace_format import NAMES, letters
from epoxy_sim.txn.client import say
from epoxy_sim.txn.plan import AnyPlan, TxnMembersChange, WalkPlan


def describe(plan: AnyPlan) -> Iterator[str]:
    if isinstance(plan, WalkPlan):
        yield f"a walk without time, {plan.steps} steps: messages in any order, timers at any moment, crashes"
        return
    yield f"{plan.n} replicas ({NAMES[1 : plan.n + 1]}), {plan.policy.value} quorums"
    yield (
        f"the fast round waits {plan.timing.hedge_ms:g} ms, others {plan.timing.round_timeout_ms:g} ms; recovered "
        f"after {plan.recover_ms:g} ms; caught up every {plan.catchup_ms:g} ms"
    )
    yield f"replicas at {', '.join(f'{place:g}' for place in plan.places)} ms; {plan.weather}"
    if plan.embedded:
        yield EMBEDDED
    for number, client in enumerate(plan.clients, start=1):
        for step in client.steps:
            yield f"at {step.at_us / 1000:g} ms client {number} at {NAMES[client.home]}: {say(step.txn)}"
    if plan.changes:
        members = letters(plan.first_members)
        yield f"members: {members}; {plan.hearing:.0%} of configurations are heard of, none by {letters(plan.deaf)}"
    for change in plan.changes:
        yield f"at {change.at_us / 1000:g} ms: {changed(change)}"
    for fault in plan.faults:
        yield f"at {fault.at_us / 1000:g} ms: {struck(fault)}"
    yield f"at {plan.faults_end_us / 1000:g} ms: all faults end"


def changed(change: TxnMembersChange) -> str:
    wiped = f"; {letters(change.wiped)} with empty disks" if change.wiped else ""
    return f"members {letters(change.members)}{wiped}{', and given up' if change.given_up else ''}"


def struck(fault: Fault) -> str:
    whom = ", ".join(NAMES[i] for i in fault.machines)
    return f"{fault.kind.value} {whom}" + (f" ({fault.count})" if fault.count > 1 else "")
