"""A plan in words, for the person who has to understand why it failed."""

import re
from collections.abc import Iterator

from epoxy_sim.keys.plan import Ask, Fault, FaultKind, Plan, Step, Weather
from epoxy_sim.keys.simulation import Failure
from epoxy_sim.trace_format import NAMES, letters

WEATHER = {
    "loss": "lost",
    "commit_loss": "of unanswered commits lost",
    "duplicate": "duplicated",
    "long_delay": "very late",
}

TRAPS = (FaultKind.CRASH_ON_ANSWER, FaultKind.CRASH_ON_SEND)


def describe(plan: Plan) -> list[str]:
    return list(lines(plan))


JUDGED_LATE = ("linearizability", "optimistic read")
BLAMED = re.compile(r"#(\d+) ")
SENT = re.compile(r"(?P<when> *[\d.]+ ms)  (?P<sender>\w) -> (?P<to>\w): (?P<what>.*)")
ANSWERED = re.compile(r" *[\d.]+ ms  (?P<to>\w) <- (?P<sender>\w): ")


def condense(trace: list[str]) -> list[str]:
    """One line for a message that goes to several replicas, and a loss noted at the message it befell."""
    told: list[str] = []
    for line in trace:
        if not told or not (joined := joined_with(told[-1], line)):
            told.append(line)
        else:
            told[-1] = joined
    return told


def until_blamed(trace: list[str], failure: Failure) -> list[str]:
    """A history is judged when all is over. What happened after the last operation it is blamed on does not matter."""
    blamed = [f"operation {number}:" for number in BLAMED.findall(failure.detail)]
    ends = [at for at, line in enumerate(trace) if any(operation in line for operation in blamed)]
    return trace[: ends[-1] + 1] if ends and failure.rule in JUDGED_LATE else trace


def joined_with(before: str, line: str) -> str | None:
    """The two lines as one, if the second only adds a receiver or a loss to the first."""
    sent = SENT.fullmatch(line)
    if sent is None or not before.startswith(f"{sent['when']}  "):
        return None
    answered = ANSWERED.match(before)
    if sent["what"] == "lost" and answered and (answered["to"], answered["sender"]) == (sent["to"], sent["sender"]):
        return f"{before} (lost)"
    way, colon, what = before.partition(": ")
    if colon and f" {sent['sender']} -> " in way:
        if sent["what"] == "lost" and way.endswith(sent["to"]):
            return f"{way} (lost): {what}"
        if sent["what"] == what:
            return f"{way}, {sent['to']}: {what}"
    return None


def lines(plan: Plan) -> Iterator[str]:
    places = ", ".join(f"{NAMES[i]} at {place:.3g} ms" for i, place in enumerate(plan.places, start=1))
    replicas = "1 replica" if plan.n == 1 else f"{plan.n} replicas on a line"
    yield f"{replicas} ({places}), {plan.policy.value} quorums, network seed {plan.seed}"
    yield f"hedge after {plan.timing.hedge_ms:g} ms, timeout after {plan.timing.round_timeout_ms:g} ms"
    yield f"messages: {weather(plan.weather)}"
    skewed = [f"{NAMES[i]} runs at {rate:.2f}" for i, rate in enumerate(plan.skew, start=1) if rate != 1.0]
    if skewed:
        yield f"clocks: {', '.join(skewed)}"
    if plan.founders is not None:
        yield f"members: {letters(plan.founders)}"
    for wish in plan.wishes:
        yield f"at {milliseconds(wish.at_us)}: somebody asks {NAMES[wish.home]} for the members {letters(wish.members)}"
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
        case Ask.RESERVE | Ask.PUT | Ask.SWAP:
            asked = f"{asked} = {planned.value}"
        case Ask.INCREMENT | Ask.DELETE:
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
