"""A plan in words, for the reader of a failure."""

import re
from collections.abc import Iterator

from epoxy_sim import trace_format
from epoxy_sim.elect.plan import ElectFault, ElectPlan
from epoxy_sim.elect.simulation import NAMES

ACKED = re.compile(r"( *[\d.]+ ms)  writes? (\d+)(?: to \d+)? (?:is|are) acknowledged, on (.*)")


def condense(trace: list[str]) -> list[str]:
    """One line for a message to several nodes, and one for writes that all went well."""
    lines: list[str] = []
    for line in trace_format.condense(trace):
        now, before = ACKED.fullmatch(line), ACKED.fullmatch(lines[-1]) if lines else None
        if now and before and now[3] == before[3]:
            lines[-1] = f"{before[1]}  writes {before[2]} to {now[2]} are acknowledged, on {now[3]}"
        else:
            lines.append(line)
    return lines


def describe(plan: ElectPlan) -> Iterator[str]:
    timing = plan.timing
    yield f"{plan.n} nodes ({', '.join(NAMES[: plan.n])}), a leads first, {plan.min_replicas} replicas needed to write"
    yield (
        f"a heartbeat every {timing.hb_interval_ms} ms, lease {timing.lease_ms} ms, down after "
        f"{timing.down_after_ms} ms, election timeout {timing.election_timeout_ms} ms"
    )
    weather = plan.weather
    slowest = weather.delay_us * (1 + weather.jitter) / 1000
    yield f"messages take {weather.delay_us / 1000:g} to {slowest:g} ms, {weather.loss:.0%} are lost"
    drifting = [f"{name} runs at {rate:.3f}" for name, rate in zip(NAMES, plan.skew, strict=False) if rate != 1.0]
    if drifting:
        yield f"clocks: {', '.join(drifting)}"
    if plan.stranger:
        yield "a stranger without the secret sends messages to all nodes"
    if weather.tampering:
        yield f"a man in the middle touches {weather.tampering:.0%} of the messages"
    if plan.babble_ms:
        yield f"at {plan.babble_ms} ms all nodes hear of the last epoch there is"
    if plan.ahead:
        yield f"{NAMES[plan.n - 1]} was away since epoch 1, the others have epoch {plan.ahead}"
    if plan.odd:
        yield f"{NAMES[plan.odd - 1]} has a file that lists only the first three nodes"
    for roll in plan.rolls:
        names = ", ".join(NAMES[i - 1] for i in roll.nodes)
        order = ", ".join(NAMES[i - 1] for i in roll.order)
        yield f"from {roll.at_ms} ms: a rolling restart to {names}: {order}, {roll.gap_ms} ms apart"
    for fault in plan.faults:
        yield f"at {fault.at_ms} ms: {struck(fault)}"
    yield f"at {plan.faults_end_ms} ms: all faults end"


def struck(fault: ElectFault) -> str:
    whom = ", ".join("the primary" if i == 0 else NAMES[i - 1] for i in fault.target)
    return f"{fault.kind.value} {whom}, for {fault.for_ms} ms"
