"""What must hold of one hot key, and of cold keys beside another build; as a part of the page."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.columns import Bars, Part, Table
from benchmarks.findings import Verdict
from benchmarks.machine import Watch, commit
from benchmarks.report import share
from benchmarks.suite import cold, hot
from benchmarks.suite.claims import at_least, even_share, rate, ratio
from benchmarks.suite.hot import ADD_ALONE, ADD_SPREAD, HOT, PLAN, SET_ALONE, SET_SPREAD, Found, wrong
from benchmarks.suite.makers import Makers
from benchmarks.suite.measure import Plan
from benchmarks.suite.report import faults, spread
from benchmarks.suite.results import Figures, figures
from benchmarks.suite.workloads import EPOXY, EPOXY_HTTP_PUT, EPOXY_INCR, ETCD, ETCD_LOOP, Workload

OF_ETCD, LEAST_SHARE = 1.0, 0.8
OURS = (EPOXY, EPOXY_INCR, EPOXY_HTTP_PUT)
Measured = Mapping[str, Mapping[str, Figures]]


def hot_part(makers: Makers, names: Sequence[str], folder: Path, plan: Plan = PLAN) -> Part:
    folder.mkdir(parents=True, exist_ok=True)
    watch = Watch(folder)
    found = hot.measured(makers, names, folder / "hot", plan)
    conditions = watch.read()
    by = {
        name: {contender: figures([each.outcome for each in all_of]) for contender, all_of in contenders.items()}
        for name, contenders in found.items()
    }
    verdicts = [*against_etcd(by), *fair(by), *unfailing(by), *sound(found), *no_sooner(by, min(conditions.fsync_ms))]
    return Part(
        when=now(),
        commit=commit(),
        conditions=conditions,
        verdicts=verdicts,
        tables=[table(by, found)],
        bars=[bars(by)],
    )


def cold_part(makers: Makers, baseline: Path, folder: Path, plan: cold.Pairs = cold.PAIRS) -> Part:
    folder.mkdir(parents=True, exist_ok=True)
    watch = Watch(folder)
    found = cold.measured(makers, baseline, folder / "cold", plan)
    return Part(
        when=now(),
        commit=commit(),
        conditions=watch.read(),
        verdicts=[verdict for name, pairs in found.items() for verdict in cold.verdicts(name, pairs)],
        tables=[cold.table(found, cold.commit_of(baseline))],
    )


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")


def against_etcd(by: Measured) -> Iterator[Verdict]:
    """INCR is held against both: a loop of compare-and-set, which is what a client of etcd has to do, and a plain put,
    which does less."""
    for sets, adds in ((SET_SPREAD, ADD_SPREAD), (SET_ALONE, ADD_ALONE)):
        put = by.get(sets.name, {}).get(ETCD)
        loop = by.get(adds.name, {}).get(ETCD_LOOP)
        for workload, mine, rival, words in (
            (sets, EPOXY, put, "etcd's put"),
            (sets, EPOXY_HTTP_PUT, put, "etcd's put"),
            (adds, EPOXY_INCR, put, "etcd's put"),
            (adds, EPOXY_INCR, loop, "etcd's compare-and-set loop"),
        ):
            ours = by.get(workload.name, {}).get(mine)
            if ours is not None and rival is not None:
                yield at_least(
                    f"{claim(workload, mine)}: a second, to {words}", ratio(rate(ours), rate(rival)), OF_ETCD
                )


def claim(workload: Workload, contender: str) -> str:
    return f"{workload.title}, {contender}"


def each_of_ours(by: Measured) -> Iterator[tuple[Workload, str, Figures]]:
    for workload in HOT:
        for contender, found in by[workload.name].items():
            if contender in OURS:
                yield workload, contender, found


def fair(by: Measured) -> Iterator[Verdict]:
    for workload, contender, found in each_of_ours(by):
        if not workload.one_node:
            what = f"{claim(workload, contender)}: the least lucky node, of an even share"
            yield at_least(what, even_share(found.nodes), LEAST_SHARE)


def unfailing(by: Measured) -> Iterator[Verdict]:
    for workload, contender, found in each_of_ours(by):
        words = f"{found.failed:,} of {found.failed + found.answered:,}" + (
            f" ({faults(found)})" if found.failed else ""
        )
        yield Verdict(claim=f"{claim(workload, contender)}: failed", wanted="0", found=words, held=found.failed == 0)


def sound(found: Found) -> Iterator[Verdict]:
    """etcd is checked as well: so is the check."""
    for workload in HOT:
        for contender, stretches in found[workload.name].items():
            bad = wrong(stretches, adds=workload in (ADD_SPREAD, ADD_ALONE))
            words = "the sum" if workload in (ADD_SPREAD, ADD_ALONE) else "the version"
            yield Verdict(
                claim=f"{claim(workload, contender)}: {words} is that of the acknowledged ones, none is told twice",
                wanted="yes",
                found="yes" if not bad.count else f"{bad.lost} lost, {bad.invented} too many, {bad.again} told twice",
                held=not bad.count,
            )


def no_sooner(by: Measured, fsync_ms: float) -> Iterator[Verdict]:
    """A commit waits for a sync; one that is sooner was not committed."""
    for workload, contender, found in each_of_ours(by):
        if found.p50.low < fsync_ms:
            yield Verdict(
                claim=f"{claim(workload, contender)}: p50, not below one sync",
                wanted=f"{fsync_ms:.2f} ms",
                found=f"{found.p50.low:.2f} ms",
                held=False,
            )


def bars(by: Measured) -> Bars:
    groups = {each.title: {name: rate(one) for name, one in by[each.name].items()} for each in HOT}
    return Bars(file="bench-hot.svg", title="Writes of one hot key", label="a second", groups=groups)


def table(by: Measured, found: Found) -> Table:
    rows = []
    for workload in HOT:
        first = next((one for name, one in by[workload.name].items() if name in (EPOXY, EPOXY_INCR)), None)
        for number, (contender, one) in enumerate(by[workload.name].items()):
            beside = first is not None and contender not in OURS and rate(one)
            tries = sum(each.outcome.retries for each in found[workload.name][contender])
            rows.append(
                [
                    workload.title if number == 0 else "",
                    contender,
                    spread(one.rate),
                    f"**{ratio(rate(first), rate(one)):.2f}x**" if beside and first is not None else "",
                    f"{one.p50.median:.2f}, {one.p99.median:.2f}",
                    f"{even_share(one.nodes):.2f}" if len(one.nodes) > 1 else "",
                    f"{one.cpu_us.median:.0f}",
                    share(one.generator_share),
                    faults(one) + (f"; {tries / max(1, one.answered):.1f} lost tries for each" if tries else ""),
                ]
            )
    head = ["workload", "system", "a second (lowest to highest)", "ours to it", "p50, p99, ms"]
    head += ["least lucky node, of an even share", "CPU of servers, us each", "generator, of a core", "failed"]
    return Table(title="One hot key, three nodes on one machine", head=head, rows=rows)
