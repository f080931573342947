"""The results as tables, for a terminal and for docs/benchmarks.md."""

from collections.abc import Iterator

import msgspec

from benchmarks.machine import ROOT
from benchmarks.report import share, table
from benchmarks.suite.results import Figures, Results, Spread
from benchmarks.suite.workloads import EPOXY, OURS, WORKLOADS

RESULT = ROOT / "benchmarks" / "results" / "bench.json"


def text(results: Results) -> str:
    return "\n".join(sections(results))


def sections(results: Results) -> Iterator[str]:
    yield circumstances(results)
    yield workload_table(results)


def circumstances(results: Results) -> str:
    machine = results.machine
    packages = ", ".join(f"{name} {version}" for name, version in machine.packages.items())
    versions = ", ".join(f"{name} {version}" for name, version in results.versions.items())
    return (
        f"{results.when}, commit {results.commit}. {machine.cores} cores, Linux {machine.kernel}, "
        f"Python {machine.python}, {packages}. {versions}. {results.rounds} rounds of {results.seconds:g} s. "
        f"One fsync before and after: {results.fsync_ms[0]:.2f}, {results.fsync_ms[1]:.2f} ms.\n"
    )


def workload_table(results: Results) -> str:
    rows: list[list[str]] = []
    titles = {workload.name: workload.title for workload in WORKLOADS}
    for name, by in results.workloads.items():
        for contender, found in by.items():
            rows.append([titles[name] if contender == next(iter(by)) else "", contender, *cells(found, by, contender)])
    head = (
        "workload",
        "system",
        "a second (spread)",
        "ours to it",
        "p50, p99, ms",
        "CPU of servers, us each",
        "ours to it",
        "generator: us each, of a core",
        "wrong",
        "stolen, others",
    )
    return table(head, rows)


def cells(found: Figures, by: dict[str, Figures], contender: str) -> list[str]:
    ours = by.get(EPOXY)
    compared = ours is not None and contender not in OURS
    return [
        spread(found.rate),
        f"**{ours.rate.median / found.rate.median:.2f}x**" if compared and ours and found.rate.median else "",
        f"{found.p50.median:.2f}, {found.p99.median:.2f}",
        f"{found.cpu_us.median:.0f}",
        f"{ours.cpu_us.median / found.cpu_us.median:.2f}x" if compared and ours and found.cpu_us.median else "",
        f"{found.generator_us:.1f}, {share(found.generator_share)}",
        str(found.failed),
        f"{share(found.stolen_share)}, {share(found.others_share)}",
    ]


def spread(value: Spread) -> str:
    return f"{value.median:,.0f} ({value.low:,.0f} to {value.high:,.0f})"


def write(results: Results) -> None:
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_bytes(msgspec.json.format(msgspec.json.encode(results)) + b"\n")
