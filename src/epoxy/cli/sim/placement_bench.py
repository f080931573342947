"""`epoxy bench placement`: how evenly pools fill up, and how fast."""

import asyncio
from pathlib import Path

import click

from epoxy.cli import output, target
from epoxy.cli.groups import SETTINGS
from epoxy.cli.progress import ProgressBar
from epoxy.cli.sim import charts
from epoxy.protocol.placement.config import PlacementConfig
from epoxy_sim.placement.figures import Check, Figures, Table
from epoxy_sim.placement.ring_model import Scenario
from epoxy_sim.placement.throughput import AllocationRate, measure

LEAST_PER_SECOND = 5_000
"""Allocations on the embedded store in one process, at 10,000 envoys."""

MOST_TIMED = 20_000
"""Allocations on a real store: a few seconds, long enough for the disk to have its say."""

MOST_GROWTH = 1.5
"""Between the smallest and the largest pool."""


@click.command(context_settings=SETTINGS, short_help="How evenly envoys are chosen, and how fast.")
@click.option("--envoys", type=click.IntRange(2, 1_000_000), default=1000, show_default=True, help="N, in one pool.")
@click.option("--virtual-nodes", type=click.IntRange(1, 64), default=8, show_default=True, help="V, places of each.")
@click.option("--samples", type=click.IntRange(1, 8), default=2, show_default=True, help="K, of which the least wins.")
@click.option("--jitter", type=click.IntRange(0, 64), default=4, show_default=True, help="Added to counts by chance.")
@click.option("--placements", type=click.IntRange(1), default=100_000, show_default=True, help="Actors to place.")
@click.option("--rings", type=click.IntRange(1, 1000), default=1, show_default=True, help="Each figure is their mean.")
@click.option("--svg", type=click.Path(dir_okay=False, path_type=Path), help="Draw max over mean by samples and age.")
@click.option("--pace", "sizes", multiple=True, type=click.IntRange(2, 1_000_000), help="Measure a real store of N.")
@target.json_option
def placement(
    envoys: int,
    virtual_nodes: int,
    samples: int,
    jitter: int,
    placements: int,
    rings: int,
    svg: Path | None,
    sizes: tuple[int, ...],
    as_json: bool,
) -> None:
    """Simulate pools of envoys that fill up with actors: the real ring and the real choice, with counts that are old,
    bursts, bounded load and heavy-tailed lifetimes. Beside each figure stands what was promised or what theory says.
    The promises are for 1,000 envoys and 100,000 placements; a pool with few actors is never as even.

    With --pace, allocations on the embedded store are timed instead, in a pool of that many envoys; give it several
    times to see how the cost grows. The first is also measured with half of its envoys stale.

    Exit status: 0 every promise was kept, 1 one was not.

    \b
    Examples:
      epoxy bench placement
      epoxy bench placement --envoys 5000 --virtual-nodes 16 --svg pools.svg
      epoxy bench placement --pace 100 --pace 10000 --pace 100000
    """
    if sizes:
        config = PlacementConfig(samples=samples, virtual_nodes=virtual_nodes, slot_jitter=jitter)
        raise click.exceptions.Exit(tell_pace(list(sizes), config, min(placements, MOST_TIMED), as_json))
    base = Scenario(
        envoys=envoys, virtual_nodes=virtual_nodes, samples=samples, slot_jitter=jitter, placements=placements
    )
    with ProgressBar("placement", None) as watch:
        figures = Figures(base, rings, lambda words: watch.tell(0, words))
        tables, checks = list(figures.tables()), figures.checks()
    if svg is not None:
        svg.write_text(drawn(tables), "utf-8")
    if as_json:
        output.emit_json({"scenario": base, "rings": rings, "tables": tables, "checks": [spelled(c) for c in checks]})
    else:
        tell(base, rings, tables, checks)
    raise click.exceptions.Exit(0 if all(check.kept for check in checks) else 1)


def tell(base: Scenario, rings: int, tables: list[Table], checks: list[Check]) -> None:
    sizes = f"{base.envoys:,} envoys, V = {base.virtual_nodes}, {base.placements:,} placements"
    click.secho(sizes, bold=True, nl=False)
    click.echo(f", the mean of {output.plural(rings, 'ring')}")
    for table in tables:
        output.block(table.title, [])
        output.table(table.heads, [[figure(value) for value in row] for row in table.rows])
    output.block("Promises", [])
    heads = ("promise", "measured", "allowed", "")
    output.table(heads, [(c.promise, figure(c.measured), figure(c.allowed), word(c.kept)) for c in checks])


def figure(value: float) -> str:
    return f"{value:,}" if float(value).is_integer() and value >= 1 else f"{value:.3f}"


def word(kept: bool) -> str:
    return "kept" if kept else "BROKEN"


def spelled(check: Check) -> dict[str, object]:
    return {"promise": check.promise, "measured": check.measured, "allowed": check.allowed, "kept": check.kept}


def drawn(tables: list[Table]) -> str:
    """Of the table by samples: a line for each age of the counts."""
    table = next(table for table in tables if table.heads[0] == "K")
    ages = [head for head in table.heads[1:] if head.startswith(("counts", "renewed", "10,000"))]
    lines = {age: [row[table.heads.index(age)] for row in table.rows] for age in ages}
    samples = [f"{row[0]:.0f}" for row in table.rows]
    return charts.chart("Actors on the fullest envoy, over the mean", "K", samples, lines)


def tell_pace(sizes: list[int], config: PlacementConfig, placements: int, as_json: bool) -> int:
    paces = []
    with ProgressBar("placement", None) as watch:
        for size, stale in [(size, False) for size in sizes] + [(sizes[0], True)]:
            watch.tell(0, f"{size:,} envoys{', half of them stale' if stale else ''}")
            paces.append(asyncio.run(measure(config, size, placements, stale=stale)))
    growth = max(pace.cpu_us for pace in paces[:-1]) / min(pace.cpu_us for pace in paces[:-1])
    kept = fast_enough(paces) and growth <= MOST_GROWTH and paces[-1].most_scanned <= config.max_scan + config.samples
    if as_json:
        output.emit_json({"paces": paces, "growth": growth, "kept": kept})
    else:
        heads = ("envoys", "stale", "a second", "CPU for each", "placed", "most rows looked at")
        output.table(heads, [cells(pace) for pace in paces])
        click.echo(f"From the cheapest to the dearest: {growth:.2f} times the CPU. {word(kept)}")
    return 0 if kept else 1


def fast_enough(paces: list[AllocationRate]) -> bool:
    """Judged by CPU: what others do on this machine is not the allocator's fault."""
    return all(pace.cpu_us <= 1e6 / LEAST_PER_SECOND for pace in paces)


def cells(pace: AllocationRate) -> tuple[str, ...]:
    return (
        f"{pace.envoys:,}",
        "half" if pace.stale else "none",
        f"{pace.per_second:,.0f}",
        f"{pace.cpu_us:.0f} us",
        f"{pace.found:.1%}",
        str(pace.most_scanned),
    )
