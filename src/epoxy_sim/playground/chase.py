"""Runs of the simulator one at a time, and the shortest trace of a failure, for a page that shows them as they come.

The runs are those of `epoxy sim`, seed by seed. Seeds with the embedded store are left out: it needs files and threads.
"""

import re
from collections.abc import Iterator

from msgspec import Struct

from epoxy_sim.keys.plan import has_embedded_store
from epoxy_sim.members.campaign import Setup
from epoxy_sim.playground.rules import MUTANTS
from epoxy_sim.simulation import Failure
from epoxy_sim.trace_format import until_blamed

WORKLOADS = ("per-key", "mutable", "hot")

SHRINK_EVENTS = 120_000
"""Simulated events that the search for a shorter trace may cost: some ten seconds in a browser."""

MAX_SEED = 1_000_000_000
"""Seeds are for people to type."""

MAX_TRACE_LINES = 400
"""A shrunk trace has some dozens."""

LINE = re.compile(r" *(?P<ms>[\d.]+) ms  (?P<what>.*)")
SENT = re.compile(r"(?P<sender>\w) (?P<way>->|<-) (?P<to>\w(?: \(lost\))?(?:, \w(?: \(lost\))?)*): (?P<text>.*)")


class SeedResult(Struct, frozen=True, kw_only=True):
    """One run. `skipped`: it has the embedded store, and was not run."""

    seed: int
    skipped: bool = False
    failure: Failure | None = None
    replicas: int = 0
    messages: int = 0
    operations: int = 0
    virtual_ms: float = 0.0


class TraceLine(Struct, frozen=True, kw_only=True):
    """`to`: the receivers of a message, and of those the `lost` ones. No sender: an event of another kind."""

    ms: float
    text: str
    sender: str = ""
    to: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    is_reply: bool = False


class ShortestTrace(Struct, frozen=True, kw_only=True):
    """`plan`: the smallest plan that fails in this way, in words. `complete`: nothing more could be left out."""

    failure: Failure
    plan: tuple[str, ...]
    trace: tuple[TraceLine, ...]
    left_off: int
    runs: int
    complete: bool
    command: str


def setup_of(workload: str | None, mutant: str | None) -> Setup:
    """A planted fault has the workload in which it shows."""
    chosen = workload if mutant is None else getattr(MUTANTS[mutant], "workload", None)
    return Setup(workload=chosen or WORKLOADS[0], mutant=mutant)


def run_seed(seed: int, *, workload: str | None = None, mutant: str | None = None) -> SeedResult:
    if has_embedded_store(seed):
        return SeedResult(seed=seed, skipped=True)
    setup = setup_of(workload, mutant)
    with setup.planted():
        report = setup.run(setup.plan(seed))
    return SeedResult(
        seed=seed,
        failure=report.failure,
        replicas=report.plan.n,
        messages=report.messages,
        operations=report.operations,
        virtual_ms=report.virtual_us / 1000,
    )


def shortest(seed: int, *, workload: str | None = None, mutant: str | None = None) -> ShortestTrace | None:
    """None: this seed holds."""
    setup = setup_of(workload, mutant)
    with setup.planted():
        plan = setup.plan(seed)
        failure = setup.run(plan).failure
        if failure is None:
            return None
        shrunk = setup.shrink(plan, failure.rule, limit_events=SHRINK_EVENTS)
    found = shrunk.report.failure
    assert found is not None, "the smallest plan fails, too"
    lines = setup.condense(until_blamed(shrunk.report.trace or [], found))
    return ShortestTrace(
        failure=found,
        plan=tuple(setup.describe(shrunk.report.plan)),
        trace=tuple(trace_lines(lines[-MAX_TRACE_LINES:])),
        left_off=max(0, len(lines) - MAX_TRACE_LINES),
        runs=shrunk.runs,
        complete=shrunk.complete,
        command=setup.replay_command(seed),
    )


def trace_lines(lines: list[str]) -> Iterator[TraceLine]:
    for line in lines:
        timed = LINE.fullmatch(line)
        ms, what = (float(timed["ms"]), timed["what"]) if timed is not None else (0.0, line)
        sent = SENT.fullmatch(what)
        if sent is None:
            yield TraceLine(ms=ms, text=what)
            continue
        receivers = sent["to"].split(", ")
        to = tuple(receiver[0] for receiver in receivers)
        lost = tuple(receiver[0] for receiver in receivers if receiver.endswith("(lost)"))
        is_reply = sent["way"] == "<-"
        text = sent["text"]
        if is_reply and text.endswith(" (lost)"):
            text, lost = text.removesuffix(" (lost)"), (sent["sender"],)
        if is_reply:  # written as "asker <- answerer"
            yield TraceLine(ms=ms, text=text, sender=to[0], to=(sent["sender"],), lost=lost, is_reply=True)
        else:
            yield TraceLine(ms=ms, text=text, sender=sent["sender"], to=to, lost=lost)
