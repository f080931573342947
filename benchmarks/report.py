"""A WAN run as tables, for a terminal and for docs/benchmarks.md: `python -m benchmarks.report` renews the page from
the last result."""

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from benchmarks.findings import Findings, Fresh, Killed, Local, Verdict, verdicts
from benchmarks.machine import ROOT, Conditions
from benchmarks.stats import Summary, mean_p50

RESULT = ROOT / "benchmarks" / "results" / "wan.json"
PAGE = ROOT / "docs" / "benchmarks.md"
REALTIME = ", all processes of both systems and the proxy before other work of the machine (SCHED_RR)"
BEGIN, END = "<!-- wan: made by benchmarks.report -->\n", "<!-- /wan -->\n"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def ms(value: float) -> str:
    return f"{value:.1f}"


def text(findings: Findings) -> str:
    """All of it."""
    return "\n".join(sections(findings))


def sections(findings: Findings) -> Iterator[str]:
    yield circumstances(findings)
    yield "### What was promised\n"
    yield promises(list(verdicts(findings)))
    for name, fresh in (("Five", findings.five), ("Three", findings.three)):
        yield f"### {name} regions, fresh keys\n"
        yield fresh_table(fresh)
        yield ratio_words(fresh)
        yield etcd_table(fresh)
    yield "### Five regions with the delay that nodes emulate themselves\n"
    yield floor_table(findings.emulated.ours, findings.emulated.floors)
    yield "### A region killed\n"
    yield killed_table(findings.killed)
    yield "### Answers from one node alone\n"
    yield local_table(findings.local)


def circumstances(findings: Findings) -> str:
    machine = findings.machine
    packages = ", ".join(f"{name} {version}" for name, version in machine.packages.items())
    rows = [
        (
            name,
            f"{part.seconds:.0f} s",
            share(part.busy_share),
            share(part.others_share),
            share(part.stolen_share),
            syncs(part),
        )
        for name, part in (
            ("5 regions, fresh keys", findings.five.conditions),
            ("answers from one node alone", findings.local.conditions),
            ("3 regions, fresh keys", findings.three.conditions),
            ("nodes' own delay", findings.emulated.conditions),
            ("a region killed", findings.killed.conditions),
        )
    ]
    return (
        f"{findings.when}, commit {findings.commit}. {machine.cores} cores, Linux {machine.kernel}, "
        f"Python {machine.python}, {packages}; etcd {findings.etcd}. {findings.passes} passes, "
        f"{findings.clients_each} clients in each region{REALTIME if findings.realtime else ''}. "
        f"A round trip through the proxy takes {findings.proxy_adds_ms:.1f} ms more than the table says. "
        f"Of {findings.stretches} stretches of load, {findings.repeated} were repeated because others used the machine "
        f"and {findings.noisy} are noisy all the same.\n\n"
        + table(
            ("part", "took", "cores busy", "with others' work", "stolen by the host", "one fsync before, after"), rows
        )
    )


def share(value: float) -> str:
    return f"{value:.0%}" if value >= 0.01 else f"{value:.1%}"


def syncs(conditions: Conditions) -> str:
    before, after = conditions.fsync_ms
    return f"{before:.2f}, {after:.2f} ms"


def promises(found: Sequence[Verdict]) -> str:
    rows = [(each.claim, each.wanted, each.found, "yes" if each.held else "**no**") for each in found]
    return table(("what", "wanted", "found", "held"), rows)


def floor_table(found: dict[str, Summary], floors: dict[str, float]) -> str:
    rows = [
        (
            region,
            ms(floors[region]),
            ms(summary.p50),
            f"+{summary.p50 - floors[region]:.1f}",
            ms(summary.p99),
            f"+{summary.p99 - floors[region]:.1f}",
            str(summary.count),
        )
        for region, summary in found.items()
    ]
    return table(("region", "floor, ms", "p50", "above floor", "p99", "above floor", "writes"), rows)


def fresh_table(fresh: Fresh) -> str:
    ordered = {region: fresh.ours[region] for region in fresh.regions}
    return floor_table(ordered, fresh.floors)


def ratio_words(fresh: Fresh) -> str:
    found = fresh.ratios
    return (
        f"{sum(one.count for one in fresh.ours.values())} writes, {fresh.slow} of them beyond the fast round. "
        f"Mean over regions: ours {found.ours:.1f} ms; etcd with its best leader ({found.best_leader}) "
        f"{found.best:.1f} ms, with leaders on average {found.average:.1f} ms. Ours to theirs: "
        f"**{found.of_best:.2f}** and **{found.of_average:.2f}**.\n"
    )


def etcd_table(fresh: Fresh) -> str:
    """p50 of etcd for every leader, and ours below."""
    rows = [
        [f"etcd, leader {leader}", *(ms(found[region].p50) for region in fresh.regions), ms(mean_p50(found))]
        for leader, found in fresh.etcd.items()
    ]
    ours = ["Epoxy", *(ms(fresh.ours[region].p50) for region in fresh.regions), ms(mean_p50(fresh.ours))]
    return table(("p50, ms, by region of the client", *fresh.regions, "mean"), [*rows, ours])


def killed_table(killed: Killed) -> str:
    rows = [
        (
            victim,
            here,
            ms(one.floor),
            f"{one.before.p50:.1f}, {one.before.p99:.1f}",
            f"{one.after.p50:.1f}, {one.after.p99:.1f}",
            ms(one.worst_ms),
            ms(one.allowed_ms),
            f"{one.pause_before_ms:.0f}, {one.pause_after_ms:.0f}",
            str(one.failed),
        )
        for victim, left in killed.victims.items()
        for here, one in left.items()
    ]
    head = (
        "killed",
        "region",
        "floor without it, ms",
        "p50, p99 before",
        "p50, p99 after",
        "slowest write",
        "2x usual p99",
        "longest pause before, after",
        "failed",
    )
    return table(head, rows)


def local_table(local: Local) -> str:
    rows = [
        (f"Epoxy, {name}", f"{one.p50:.2f}", f"{one.p99:.2f}", *counts(local, name)) for name, one in local.ours.items()
    ]
    rows += [(f"etcd, {name}", f"{one.p50:.2f}", f"{one.p99:.2f}", "", "") for name, one in local.etcd.items()]
    return table(
        ("over all regions", "p50, ms", "p99, ms", "messages to peers", "pieces through the proxy (idle for as long)"),
        rows,
    )


def counts(local: Local, name: str) -> tuple[str, str]:
    counted = local.counted[name]
    return f"{counted.messages} for {counted.requests} requests", f"{counted.pieces} ({counted.idle_pieces})"


def replaced(page: str, middle: str) -> str:
    """The page with what stands between the marks renewed. ValueError: there are no marks."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError("the page has no place for the figures")
    return f"{before}{BEGIN}\n{middle}\n{END}{after}"


def renew() -> None:
    findings = msgspec.json.decode(RESULT.read_bytes(), type=Findings)
    PAGE.write_text(replaced(PAGE.read_text("utf-8"), text(findings)), "utf-8")


if __name__ == "__main__":
    renew()
