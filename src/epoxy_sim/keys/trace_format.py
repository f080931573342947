"""A plan in words, for the reader of a failure."""

from collections.abc import Iterator

from epoxy_sim.keys.plan import WORD, Ask, Fault, FaultKind, Plan, Step, Weather
from epoxy_sim.trace_format import NAMES, letters

WEATHER = {
    "loss": "lost",
    "commit_loss": "of unanswered commits lost",
    "duplicate": "duplicated",
    "long_delay": "very late",
    "carry_loss": "of carried writes lost",
    "carry_again": "of carried writes repeated after seconds",
    "carry_late": "of carried writes late by seconds",
}

TRAPS = (FaultKind.CRASH_ON_ANSWER, FaultKind.CRASH_ON_SEND)


EMBEDDED = "disks: the embedded store on a simulated file system"


def describe(plan: Plan) -> Iterator[str]:
    places = ", ".join(f"{NAMES[i]} at {place:.3g} ms" for i, place in enumerate(plan.places, start=1))
    replicas = "1 replica" if plan.n == 1 else f"{plan.n} replicas on a line"
    yield f"{replicas} ({places}), {plan.policy.value} quorums, network seed {plan.seed}"
    yield f"hedge after {plan.timing.hedge_ms:g} ms, timeout after {plan.timing.round_timeout_ms:g} ms"
    yield f"messages: {weather(plan.weather)}"
    if plan.embedded:
        yield EMBEDDED
    skewed = [f"{NAMES[i]} runs at {rate:.2f}" for i, rate in enumerate(plan.skew, start=1) if rate != 1.0]
    if skewed:
        yield f"clocks: {', '.join(skewed)}"
    if plan.founders is not None:
        yield f"members: {letters(plan.founders)}"
    for change in plan.changes:
        members = letters(change.members)
        yield f"at {milliseconds(change.at_us)}: {NAMES[change.home]} is asked for the members {members}"
    for number, client in enumerate(plan.clients, start=1):
        yield f"c{number} at {NAMES[client.home]}: {'; '.join(map(step, client.steps))}"
    for each in plan.faults:
        yield f"at {milliseconds(each.at_us)}: {fault(each)}"
    yield f"at {milliseconds(plan.faults_end_us)}: all faults end"


def weather(dials: Weather) -> str:
    told = [f"{getattr(dials, name):.0%} {word}" for name, word in WEATHER.items() if getattr(dials, name)]
    if dials.jitter:
        told.append(f"delays up to {1 + dials.jitter:g} times")
    return ", ".join(told) or "all arrive, in time"


def step(planned: Step) -> str:
    asked = f"{planned.ask.value} key-{planned.key}"
    match planned.ask:
        case Ask.READ:
            asked = f"{planned.consistency.value} {asked}"
        case Ask.RESERVE | Ask.PUT | Ask.SWAP | Ask.EXCHANGE | Ask.CREATE | Ask.LEND | Ask.KEEP:
            asked = f"{asked} = {planned.value if planned.value != WORD else 'a word'}"
        case Ask.INCREMENT | Ask.COUNT | Ask.DELETE | Ask.TOUCH:
            pass
    return f"{asked} (at {milliseconds(planned.at_us)})"


def fault(planned: Fault) -> str:
    whom = ",".join(NAMES[i] for i in planned.machines)
    if planned.kind is FaultKind.HEAL:
        return "all partitions heal"
    told = f"{planned.kind.value} {whom}"
    if planned.kind in TRAPS:
        told += f", number {planned.count}"
    if planned.kind is FaultKind.CRASH or planned.kind in TRAPS:
        told += f", keeps {planned.keep:.0%} of what is not synced"
    return told


def milliseconds(time_us: int) -> str:
    return f"{time_us / 1000:g} ms"
