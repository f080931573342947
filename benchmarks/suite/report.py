"""The results as tables, for a terminal and for docs/benchmarks.md: `python -m benchmarks.suite.report` renews the page
and the plots from the last result."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from benchmarks.machine import ROOT
from benchmarks.report import PAGE, promises, share, table
from benchmarks.suite import plots
from benchmarks.suite.claims import even_share, verdicts
from benchmarks.suite.results import Curve, Figures, Growth, Held, Holding, Loaded, Overload, Results, Spread
from benchmarks.suite.workloads import EMPTY, EPOXY, OURS, WORKLOADS, loaded_reads

RESULT = ROOT / "benchmarks" / "results" / "bench.json"
BEGIN, END = "<!-- bench: made by benchmarks.suite -->\n", "<!-- /bench -->\n"
TITLES = {workload.name: workload.title for workload in (*WORKLOADS, loaded_reads(()))}


def text(results: Results) -> str:
    return "\n".join(sections(results))


def sections(results: Results) -> Iterator[str]:
    yield circumstances(results)
    found = list(verdicts(results))
    if found:
        yield "### What was promised\n"
        yield promises(found)
    if results.workloads:
        yield "### Side by side\n"
        yield workload_table(results.workloads)
        yield "### Where the writes went\n"
        yield node_table(results.workloads)
    if results.loaded is not None:
        yield from loaded_sections(results.loaded)
    if results.growth is not None:
        yield from growth_sections(results.growth)


def circumstances(results: Results) -> str:
    machine = results.machine
    packages = ", ".join(f"{name} {version}" for name, version in machine.packages.items())
    versions = ", ".join(f"{name} {version}" for name, version in results.versions.items())
    stolen = [figures.stolen_share for by in results.workloads.values() for figures in by.values()]
    others = [figures.others_share for by in results.workloads.values() for figures in by.values()]
    taken = f" The host took {span(stolen)} of both cores in a stretch, other work {span(others)}." if stolen else ""
    quick = " A quick run: a look, not a result." if results.quick else ""
    return (
        f"{results.when}, commit {results.commit}. {machine.cores} cores, Linux {machine.kernel}, "
        f"Python {machine.python}, {packages}. {versions}. {results.rounds} rounds, {results.seconds:g} s each. "
        f"One fsync before and after: {results.fsync_ms[0]:.2f}, {results.fsync_ms[1]:.2f} ms.{taken}{quick}\n"
    )


def span(shares: Sequence[float]) -> str:
    return f"{share(min(shares))} to {share(max(shares))}"


def workload_table(workloads: dict[str, dict[str, Figures]]) -> str:
    rows: list[list[str]] = []
    for name, by in workloads.items():
        first = True
        for contender, figures in by.items():
            rows.append([TITLES[name] if first else "", contender, *cells(figures, by, contender)])
            first = False
    head = (
        "workload",
        "system",
        "a second (lowest to highest)",
        "ours to it",
        "p50, p99, ms",
        "CPU of servers, us each",
        "ours to it",
        "generator, us each (of a core)",
        "wrong answers",
    )
    return table(head, rows)


def cells(figures: Figures, by: dict[str, Figures], contender: str) -> list[str]:
    ours = by.get(EPOXY)
    rival = ours if contender not in OURS else None
    return [
        spread(figures.rate),
        f"**{rival.rate.median / figures.rate.median:.2f}x**" if rival and figures.rate.median else "",
        f"{figures.p50.median:.2f}, {figures.p99.median:.2f}",
        f"{figures.cpu_us.median:.1f}",
        f"{rival.cpu_us.median / figures.cpu_us.median:.2f}x" if rival and figures.cpu_us.median else "",
        f"{figures.generator_us:.1f} ({share(figures.generator_share)})",
        faults(figures),
    ]


def spread(value: Spread) -> str:
    return f"{value.median:,.0f} ({value.low:,.0f} to {value.high:,.0f})"


def faults(figures: Figures) -> str:
    return ", ".join(f"{count:,} {word}" for word, count in figures.faults.items()) or "0"


def node_table(workloads: dict[str, dict[str, Figures]]) -> str:
    """Of those that several nodes take."""
    rows = [
        (
            TITLES[name],
            contender,
            " / ".join(f"{count / max(1, sum(figures.nodes)):.0%}" for count in figures.nodes),
            " / ".join(f"{p50:.1f}" for p50 in figures.node_p50),
            f"{even_share(figures.nodes):.2f}",
        )
        for name, by in workloads.items()
        if name in ("fresh-64", "fresh-256", "overwrite-256", "hot-key")
        for contender, figures in by.items()
        if len(figures.nodes) > 1
    ]
    return table(
        ("workload", "system", "answered by each node", "p50 at each, ms", "least busy, to an even share"), rows
    )


def loaded_sections(loaded: Loaded) -> Iterator[str]:
    keys = max(held.keys for held in loaded.held.values())
    yield f"### {keys:,} keys in every system\n"
    yield workload_table(loaded.workloads)
    yield held_table(loaded.held)


def held_table(held: dict[str, Held]) -> str:
    rows = [
        (name, str(one.nodes), f"{one.memory_per_key:,.0f}", f"{one.disk_per_key:,.0f}", f"{one.took_s:.0f} s", one.how)
        for name, one in held.items()
    ]
    head = ("system", "nodes", "memory, bytes for each key and node", "disk, bytes", "loaded in", "how")
    return table(head, rows)


def growth_sections(growth: Growth) -> Iterator[str]:
    yield "### As it grows\n"
    for name, title, _ in plots.pictures(growth):
        yield f"![{title}](img/{name})\n"
    for words, curve in (
        ("clients", growth.clients),
        ("bytes of a value, 64 clients", growth.sizes),
        ("replicas, 64 clients", growth.replicas),
    ):
        if curve:
            yield curve_table(words, curve)
    if growth.keys:
        yield keys_table(growth.keys)
    if growth.overload:
        yield overload_table(growth.overload)
    if growth.lines:
        rows = [(name, f"{one.bytes_each / 1024:,.1f} KiB") for name, one in growth.lines.items()]
        yield table(
            ("system", f"memory of the servers for each of {next(iter(growth.lines.values())).count} connections"), rows
        )


def curve_table(words: str, curve: Curve) -> str:
    contenders = list(dict.fromkeys(contender for by in curve.values() for contender in by))
    head = [words]
    for contender in contenders:
        head += [f"{contender}, commits a second", "p50, p99, ms", "CPU, us each"]
    rows = []
    for place, by in curve.items():
        row = [f"{place:,}"]
        for contender in contenders:
            one = by[contender]
            row += [spread(one.rate), f"{one.p50.median:.1f}, {one.p99.median:.1f}", f"{one.cpu_us.median:.0f}"]
        rows.append(row)
    return table(head, rows)


def keys_table(found: Sequence[Holding]) -> str:
    rows = []
    for one in found:
        alone, alone_empty = one.alone[EPOXY], one.alone[EMPTY]
        busy, busy_empty = one.busy[EPOXY], one.busy[EMPTY]
        rows.append(
            (
                f"{one.held.keys:,}",
                f"{alone.p50.median:.2f} ({alone_empty.p50.median:.2f})",
                f"{busy.p50.median:.2f} ({busy_empty.p50.median:.2f})",
                f"{busy.rate.median:,.0f} ({busy_empty.rate.median:,.0f})",
                f"{one.reads.rate.median:,.0f}",
                " (".join(megabytes(each.anonymous, one.held.nodes) for each in (one.memory, one.memory_empty)) + ")",
                f"{one.held.disk_per_key:,.0f}",
                f"{one.start_s:.1f}, {one.start_after_kill_s:.1f}",
            )
        )
    head = (
        "keys stored (in brackets: none)",
        "p50 of a commit, 1 client, ms",
        "64 clients, ms",
        "commits a second, 64 clients",
        "local reads a second",
        "memory of a node, MB",
        "disk, bytes for each key and node",
        "start of a node, and after a kill, s",
    )
    return table(head, rows)


def megabytes(size: int, nodes: int) -> str:
    return f"{size / nodes / 1e6:.0f}"


def overload_table(found: Sequence[Overload]) -> str:
    rows = [
        (
            f"{one.under_way:,}",
            spread(one.figures.rate),
            f"{one.figures.p50.median:.1f}, {one.figures.p99.median:.1f}",
            share(one.busy_share),
            faults(one.figures),
        )
        for one in found
    ]
    return table(
        (
            "requests under way",
            "commits a second",
            "p50, p99, ms",
            "refused with BUSY, tried again after 0.1 s",
            "wrong answers",
        ),
        rows,
    )


def replaced(page: str, middle: str) -> str:
    """The page with what stands between the marks renewed. ValueError: there are no marks."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError("the page has no place for these figures")
    return f"{before}{BEGIN}\n{middle}\n{END}{after}"


def save(results: Results, path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(results)) + b"\n")


def renew(result: Path = RESULT, page: Path = PAGE, pictures: Path = plots.FOLDER) -> None:
    results = msgspec.json.decode(result.read_bytes(), type=Results)
    if results.growth is not None:
        plots.write(results.growth, pictures)
    page.write_text(replaced(page.read_text("utf-8"), text(results)), "utf-8")


if __name__ == "__main__":
    renew()
