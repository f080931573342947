"""A plan in words, for the reader of a failure."""

from collections.abc import Iterator

from epoxy_sim.keys.trace_format import EMBEDDED, fault, milliseconds, weather
from epoxy_sim.leases.plan import LeaseAsk, LeaseClientPlan, LeasePlan, LeaseStep, key_of
from epoxy_sim.trace_format import NAMES


def describe(plan: LeasePlan) -> Iterator[str]:
    places = ", ".join(f"{NAMES[i]} at {place:.3g} ms" for i, place in enumerate(plan.places, start=1))
    yield f"{plan.n} replicas on a line ({places}), {plan.policy.value} quorums, network seed {plan.seed}"
    yield f"hedge after {plan.timing.hedge_ms:g} ms, timeout after {plan.timing.round_timeout_ms:g} ms"
    yield f"messages: {weather(plan.weather)}"
    if plan.embedded:
        yield EMBEDDED
    yield f"clocks: {', '.join(f'{NAMES[i]} runs at {rate:.4f}' for i, rate in enumerate(plan.skew, start=1))}"
    if plan.suspends:
        yield "timers stand still while a machine pauses"
    for number, client in enumerate(plan.clients, start=1):
        yield f"c{number} {client_words(client)}"
    for step in plan.clock_steps:
        yield f"at {milliseconds(step.at_us)}: the calendar of {NAMES[step.machine]} is set by {step.by_ms} ms"
    for each in plan.faults:
        yield f"at {milliseconds(each.at_us)}: {fault(each)}"
    yield f"at {milliseconds(plan.faults_end_us)}: all faults end"


def client_words(client: LeaseClientPlan) -> str:
    where = f"at {NAMES[client.home]}, {milliseconds(client.distance_us)} away, clock at {client.rate:.4f}"
    pauses = [f"stands still for {milliseconds(p.lasts_us)} (at {milliseconds(p.at_us)})" for p in client.pauses]
    return f"{where}: {'; '.join([*map(step_words, client.steps), *pauses])}"


def step_words(step: LeaseStep) -> str:
    asked = f"{step.ask.value} {key_of(step).decode()}"
    match step.ask:
        case LeaseAsk.READ:
            asked = f"{step.consistency.value} {asked}"
        case LeaseAsk.HOLD:
            ending = "abandon" if step.abandons else "release"
            tries = f"{step.tries} tries each {step.poll_ms:g} ms"
            asked = f"{asked} with a session" if step.session else asked
            asked = f"{asked} for {step.ttl_ms} ms, {tries}, {step.renewals} renewals, then {ending}"
        case LeaseAsk.PUT | LeaseAsk.CREATE | LeaseAsk.TOUCH | LeaseAsk.ADD:
            asked = f"{asked} for {step.ttl_ms} ms" if step.ttl_ms else f"{asked} for ever"
        case LeaseAsk.KEEP | LeaseAsk.DELETE:
            pass
    return f"{asked} (at {milliseconds(step.at_us)})"
