"""A plan in words, for the person who has to understand why it failed."""

from collections.abc import Iterator

from epoxy_sim.keys.plan import Fault
from epoxy_sim.trace_format import NAMES, letters
from epoxy_sim.txn.client import say
from epoxy_sim.txn.plan import AnyPlan, TxnMembersChange, TxnPlan, WalkPlan


def describe(plan: AnyPlan) -> list[str]:
    if isinstance(plan, WalkPlan):
        return [f"a walk without time, {plan.steps} steps: messages in any order, timers at any moment, crashes"]
    return list(lines(plan))


def lines(plan: TxnPlan) -> Iterator[str]:
    world = plan.world
    yield f"{world.n} replicas ({NAMES[1 : world.n + 1]}), {world.policy.value} quorums"
    yield (
        f"the fast round waits {world.timing.hedge_ms:g} ms, others {world.timing.round_timeout_ms:g} ms; recovered "
        f"after {plan.recover_ms:g} ms; caught up every {plan.catchup_ms:g} ms"
    )
    yield f"replicas at {', '.join(f'{place:g}' for place in world.places)} ms; {world.weather}"
    for number, client in enumerate(plan.clients, start=1):
        for step in client.steps:
            yield f"at {step.at_us / 1000:g} ms client {number} at {NAMES[client.home]}: {say(step.txn)}"
    if plan.changes:
        yield f"members: {letters(plan.founders)}; {plan.hearing:.0%} of news is heard, none by {letters(plan.deaf)}"
    for change in plan.changes:
        yield f"at {change.at_us / 1000:g} ms: {changed(change)}"
    for fault in world.faults:
        yield f"at {fault.at_us / 1000:g} ms: {told(fault)}"
    yield f"at {world.faults_end_us / 1000:g} ms: all faults end"


def changed(change: TxnMembersChange) -> str:
    wiped = f", of whom {letters(change.wiped)} come back with empty disks" if change.wiped else ""
    return f"members {letters(change.members)}{wiped}{', and given up' if change.given_up else ''}"


def told(fault: Fault) -> str:
    whom = ", ".join(NAMES[i] for i in fault.machines)
    return f"{fault.kind.value} {whom}" + (f" ({fault.count})" if fault.count > 1 else "")
