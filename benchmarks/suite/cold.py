"""Cold keys beside another build of ours, in pairs: whether a change made every key slower that it was not made for.

Two clusters run at the same time, this build's and the baseline's. A stretch of one follows a stretch of the other, the
order turned round every time, and the ratio of each pair is kept: what the machine does to both falls out.
"""

import statistics
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from msgspec import Struct

from benchmarks.columns import Table
from benchmarks.findings import Verdict
from benchmarks.suite.job import Outcome
from benchmarks.suite.makers import Makers
from benchmarks.suite.measure import Field, Plan, generate, say, words
from benchmarks.suite.systems.base import Operation
from benchmarks.suite.systems.epoxy import Epoxy
from benchmarks.suite.workloads import CHANGING, CREATE, EPOXY, OVERWRITE, Workload, storing

BASELINE = "Epoxy, baseline"
SLOWER = 1.02
CLIENTS = 64
KEYS = 10_000
"""That are overwritten."""

WORKLOADS = (
    Workload(
        name="cold-fresh",
        title=f"fresh keys, {CLIENTS} clients",
        turns=CREATE,
        clients=CLIENTS,
        contenders=(EPOXY, BASELINE),
    ),
    Workload(
        name="cold-overwrite",
        title=f"overwrites of {KEYS:,} keys, {CLIENTS} clients",
        turns=OVERWRITE,
        clients=CLIENTS,
        contenders=(EPOXY, BASELINE),
    ),
)


class Pairs(Struct, frozen=True, kw_only=True):
    count: int = 12
    warm_s: float = 0.3
    seconds: float = 1.2


PAIRS = Pairs()


class Pair(Struct, frozen=True, kw_only=True):
    ours: Outcome
    baseline: Outcome

    @property
    def cpu(self) -> float:
        """For each commit, to the baseline's."""
        return self.ours.cpu_us / self.baseline.cpu_us

    @property
    def rate(self) -> float:
        return self.ours.rate / self.baseline.rate


def interpreter(baseline: Path) -> Path:
    """Of a checkout in which `make fast` was run. FileNotFoundError: it was not."""
    python = baseline / ".venv-fast" / "bin" / "python"
    if not python.is_file():
        raise FileNotFoundError(f"{baseline} has no compiled build: run `make fast` there")
    return python


def commit_of(baseline: Path) -> str:
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=baseline, capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or baseline.name


def measured(makers: Makers, baseline: Path, folder: Path, plan: Pairs) -> dict[str, list[Pair]]:
    """By the title of the workload."""
    systems = {EPOXY: makers.epoxy(folder / "ours"), BASELINE: Epoxy(folder / "baseline", python=interpreter(baseline))}
    with ExitStack() as stack:
        for name, system in systems.items():
            say(f"starting {name} {system.version}")
            stack.callback(system.stop)
            system.start()
        field = Field(systems)
        for name in systems:
            generate(storing(field.door(name), Operation.PUT, CHANGING, KEYS))
        return {workload.title: paired(field, workload, plan) for workload in WORKLOADS}


def paired(field: Field, workload: Workload, plan: Pairs) -> list[Pair]:
    stretches = Plan(rounds=1, warm_s=plan.warm_s, seconds=plan.seconds)
    found = []
    for number in range(plan.count):
        order = workload.contenders if number % 2 == 0 else workload.contenders[::-1]
        done = {name: field.stretch(workload, name, number, stretches) for name in order}
        found.append(Pair(ours=done[EPOXY], baseline=done[BASELINE]))
        say(f"  {workload.title}: {words(done[EPOXY])}; baseline {words(done[BASELINE])}")
    return found


def verdicts(title: str, pairs: Sequence[Pair]) -> list[Verdict]:
    cpu = statistics.median(pair.cpu for pair in pairs)
    failed = sum(pair.ours.failed for pair in pairs)
    return [
        Verdict(
            claim=f"{title}: CPU for each commit, to the baseline, median of pairs",
            wanted=f"at most {SLOWER:g}x",
            found=f"{cpu:.3f}x ({span([pair.cpu for pair in pairs])})",
            held=cpu <= SLOWER,
        ),
        Verdict(claim=f"{title}: failed", wanted="0", found=str(failed), held=failed == 0),
    ]


def span(values: Sequence[float]) -> str:
    """The middle half."""
    low, _, high = statistics.quantiles(values, n=4) if len(values) > 1 else (values[0],) * 3
    return f"middle half {low:.3f} to {high:.3f}"


def table(found: Mapping[str, Sequence[Pair]], commit: str) -> Table:
    rows = []
    for title, pairs in found.items():
        for name, outcomes in ((EPOXY, [p.ours for p in pairs]), (f"commit {commit}", [p.baseline for p in pairs])):
            rows.append(
                [
                    title,
                    name,
                    f"{statistics.median(each.cpu_us for each in outcomes):.1f}",
                    f"{statistics.median(each.rate for each in outcomes):,.0f}",
                    f"{statistics.median(each.latency.p50 for each in outcomes):.2f}, "
                    f"{statistics.median(each.latency.p99 for each in outcomes):.2f}",
                ]
            )
        rates = [pair.rate for pair in pairs]
        cpu = statistics.median(pair.cpu for pair in pairs)
        rows.append([title, "ratio of pairs", f"{cpu:.3f}x", f"{statistics.median(rates):.3f}x ({span(rates)})", ""])
    head = ["workload", "build", "CPU, us for each commit", "commits a second", "p50, p99, ms"]
    return Table(
        title=f"Cold keys, {len(next(iter(found.values())))} pairs of stretches, medians", head=head, rows=rows
    )
