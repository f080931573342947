"""What must hold of nodes that share a database, as a part of the page."""

import statistics
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from benchmarks.columns import Bars, Part, Table
from benchmarks.findings import Verdict
from benchmarks.machine import Watch, commit
from benchmarks.report import share
from benchmarks.suite import datacenter
from benchmarks.suite.cold import span
from benchmarks.suite.datacenter import (
    EMBEDDED,
    HTTP,
    ONE,
    PLAIN,
    RESP,
    SHARED,
    TWO,
    TWO_PROCESSES,
    WITHIN_SHARES,
    WORKLOADS,
    Found,
    Stretch,
    for_cpu,
    over_http,
    over_http_put,
)
from benchmarks.suite.hot_claims import now
from benchmarks.suite.job import Outcome
from benchmarks.suite.makers import Makers
from benchmarks.suite.measure import Plan
from benchmarks.suite.report import faults, spread
from benchmarks.suite.results import figures
from benchmarks.suite.workloads import Workload

OF_EMBEDDED = OF_PLAIN = 0.5
OF_ONE_NODE = 1.3
"""Two nodes, where neither the database nor the machine is the limit."""

OF_ONE_PROCESS = 1.4


def datacenter_part(makers: Makers, folder: Path, plan: Plan = datacenter.PLAN) -> Part:
    folder.mkdir(parents=True, exist_ok=True)
    watch = Watch(folder)
    found = datacenter.measured(makers, folder / "nodes", plan)
    conditions = watch.read()
    return Part(
        when=now(),
        commit=commit(),
        conditions=conditions,
        verdicts=[*ratios(found), *unfailing(found)],
        tables=[rates(found), cpu(found)],
        bars=[bars(found)],
    )


def ratios(found: Found) -> Iterator[Verdict]:
    for each in RESP:
        stretches = found.get(each.name, [])
        yield from compared(each, stretches, ONE, EMBEDDED, OF_EMBEDDED)
        yield from compared(each, stretches, ONE, PLAIN, OF_PLAIN)
    for each in WITHIN_SHARES:
        stretches = found.get(each.name, [])
        yield from compared(each, stretches, TWO, ONE, OF_ONE_NODE)
        yield from compared(each, stretches, TWO_PROCESSES, EMBEDDED, OF_ONE_PROCESS)
    for each, named in zip(HTTP, (over_http, over_http_put), strict=True):
        yield from compared(each, found.get(each.name, []), named(ONE), named(EMBEDDED), OF_EMBEDDED)


def compared(
    workload: Workload, stretches: Sequence[Stretch], ours: str, theirs: str, limit: float
) -> Iterator[Verdict]:
    """Of the median round: a second, and for each second of CPU time of nodes and database."""
    present = [each for each in stretches if ours in each.outcomes and theirs in each.outcomes]
    if not present:
        return
    rate = [each.rate(ours, theirs) for each in present]
    thrift = [each.thrift(ours, theirs) for each in present]
    middle = statistics.median(rate)
    yield Verdict(
        claim=f"{workload.title}: {ours}, commits a second, to {theirs}",
        wanted=f"at least {limit:g}x",
        found=f"{middle:.2f}x ({span(rate)}); for each second of CPU time {statistics.median(thrift):.2f}x",
        held=middle >= limit,
    )


def unfailing(found: Found) -> Iterator[Verdict]:
    for each in (*WORKLOADS, *WITHIN_SHARES):
        ours = [outcomes for contender, outcomes in by_contender(found[each.name]) if contender != PLAIN]
        failed = sum(outcome.failed for outcomes in ours for outcome in outcomes)
        total = failed + sum(outcome.answered for outcomes in ours for outcome in outcomes)
        if total:
            claim = f"{each.title}: of all of ours, failed"
            yield Verdict(claim=claim, wanted="0", found=f"{failed:,} of {total:,}", held=failed == 0)


def by_contender(stretches: Sequence[Stretch]) -> Iterator[tuple[str, list[Outcome]]]:
    for contender in stretches[0].outcomes if stretches else ():
        yield contender, [each.outcomes[contender] for each in stretches]


def bars(found: Found) -> Bars:
    groups = {
        each.title: {
            contender: figures(outcomes).rate.median
            for contender, outcomes in sorted(by_contender(found[each.name]), key=place)
        }
        for each in (*WORKLOADS, *WITHIN_SHARES)
    }
    return Bars(file="bench-datacenter.svg", title="One region", label="commits a second", groups=groups)


def rates(found: Found) -> Table:
    rows = []
    for each in (*WORKLOADS, *WITHIN_SHARES):
        for number, (contender, outcomes) in enumerate(sorted(by_contender(found[each.name]), key=place)):
            one = figures(outcomes)
            rows.append(
                [
                    each.title if number == 0 else "",
                    contender,
                    spread(one.rate),
                    f"{one.p50.median:.2f}, {one.p99.median:.2f}",
                    " / ".join(f"{count / max(1, sum(one.nodes)):.0%}" for count in one.nodes),
                    faults(one),
                ]
            )
    head = ["workload", "store", "commits a second (lowest to highest)", "p50, p99, ms", "share of each node", "failed"]
    return Table(title="One region, commits", head=head, rows=rows)


ORDER = (EMBEDDED, TWO_PROCESSES, *SHARED, PLAIN)


def place(named: tuple[str, list[Outcome]]) -> int:
    """The same in every workload, whichever came first in the first round."""
    return max(number for number, name in enumerate(ORDER) if named[0].startswith(name))


def cpu(found: Found) -> Table:
    """Medians. Cores: of the machine's, in use at the same time."""
    rows = []
    for each in (*WORKLOADS, *WITHIN_SHARES):
        for number, (contender, outcomes) in enumerate(sorted(by_contender(found[each.name]), key=place)):

            def middle(of: Callable[[Outcome], float], outcomes: list[Outcome] = outcomes) -> float:
                return statistics.median(map(of, outcomes))

            rows.append(
                [
                    each.title if number == 0 else "",
                    contender,
                    f"{middle(lambda one: one.cpu_us):.0f}",
                    f"{middle(lambda one: one.database_us):.0f}",
                    f"{middle(generator_us):.0f}",
                    f"{middle(for_cpu):,.0f}",
                    f"{middle(lambda one: one.server_cpu_s / one.seconds):.2f} + "
                    f"{middle(lambda one: one.database_cpu_s / one.seconds):.2f} + "
                    f"{middle(lambda one: one.generator_cpu_s / one.seconds):.2f}",
                    share(middle(lambda one: one.others_share + one.stolen_share)),
                ]
            )
    head = ["workload", "store", "nodes, us each", "database, us each", "load generator, us each"]
    head += ["commits for each second of CPU time of nodes and database", "cores: nodes + database + generator"]
    head += ["others' work, of all cores"]
    return Table(title="One region, CPU time", head=head, rows=rows)


def generator_us(outcome: Outcome) -> float:
    return outcome.generator_cpu_s / max(1, outcome.operations) * 1e6
