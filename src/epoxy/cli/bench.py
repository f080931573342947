"""`epoxy bench`: load against a running cluster."""

import asyncio
import secrets
from collections import Counter
from importlib import import_module
from typing import Any

import click

from epoxy.cli import credentials, output, target
from epoxy.cli.groups import SETTINGS, Group
from epoxy.cli.load import Load, LoadTally, Workload
from epoxy.cli.progress import ProgressBar
from epoxy.model.errors import AccessRefused, EpoxyError
from epoxy.model.records import MAX_VALUE_BYTES

HEADS = ("node", "calls", "a second", "p50", "p99", "slowest", "how", "failed")


class Benches(Group):
    """`load` is the default command."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, args if args and args[0] in self.list_commands(ctx) else ["load", *args])


@click.group(cls=Benches, rooms={"placement": "sim.placement_bench"}, context_settings=SETTINGS)
def bench() -> None:
    """Measure a running cluster under load, and how envoys are chosen."""


@bench.command("load", context_settings=SETTINGS, short_help="Measure a running cluster under load.")
@click.argument("workload", type=click.Choice(["reserve", "put", "get"]), default="reserve")
@click.option(
    "--clients", type=click.IntRange(1, 4096), default=16, show_default=True, help="Clients at the same time."
)
@click.option(
    "--seconds", type=click.FloatRange(0, 3600, min_open=True), default=10.0, show_default=True, help="Duration."
)
@click.option("--count", type=click.IntRange(min=1), metavar="N", help="Stop after N calls.")
@click.option(
    "--value-size", type=click.IntRange(0, MAX_VALUE_BYTES), default=64, show_default=True, help="Bytes of each value."
)
@click.option(
    "--keys",
    type=click.IntRange(1, 1_000_000),
    default=1000,
    show_default=True,
    help="Keys that puts and gets share. 1: all write the same key.",
)
@target.read_option("read", "Consistency of `get`.")
@target.call_options
def load_command(workload: str, value_size: int, call: target.NodeCall, **chosen: Any) -> None:
    """Reserve fresh names, put or get, each client sending its next request as soon as the last is answered.

    With several addresses the clients are spread over them, and each node is reported by itself. The keys stay in the
    cluster, under bench/: use one that you can throw away.

    `epoxy bench placement` measures how envoys are chosen.

    Exit status: 0 all calls were answered, 1 some failed.

    \b
    Examples:
      epoxy bench reserve --clients 64
      epoxy bench get --read linearizable --seconds 5
      epoxy bench put --keys 1 --count 1000 --url http://127.0.0.1:7800,http://127.0.0.1:7810
    """
    plan = Workload(name=workload, run=secrets.token_hex(4), value=secrets.token_bytes(value_size), **chosen)
    with call.reporting():
        load = Load(plan, call.urls, call.timeout, credentials.token(), credentials.tls())
        measure(load, plan)
    if call.as_json:
        output.emit_json(report_json(load, plan))
    else:
        tell(load, plan)
    raise click.exceptions.Exit(1 if load.failures or not load.done else 0)


def measure(load: Load, plan: Workload) -> None:
    def told() -> None:
        watch.tell(
            load.done, f"{load.done:,} calls, {rate(load.done, load.seconds):,.0f} a second, {load.failures:,} failed"
        )

    try:
        with ProgressBar(f"bench {plan.name}", plan.count) as watch, asyncio.Runner(loop_factory=fast_loop()) as runner:
            runner.run(load.run(told))
    except ExceptionGroup as group:
        first = group.exceptions[0]
        if isinstance(first, AccessRefused):
            raise first from group
        if group.subgroup(EpoxyError) is None:
            raise
        raise click.ClickException(f"nothing to read: {first}") from group


def fast_loop() -> Any:
    """uvloop where it is installed: with a slow client the client would be measured, not the cluster."""
    try:
        return import_module("uvloop").new_event_loop
    except ImportError:
        return None


def rate(count: int, seconds: float) -> float:
    return count / seconds if seconds else 0.0


def tell(load: Load, plan: Workload) -> None:
    kind = f"{plan.name}, {plan.read}" if plan.name == "get" else plan.name
    sizes = f"{output.plural(plan.clients, 'client')}, values of {output.plural(len(plan.value), 'byte')}"
    click.secho(f"{kind}: {rate(load.done, load.seconds):,.0f} a second", bold=True, nl=False)
    click.echo(f", {load.done:,} in {load.seconds:.1f} s, {sizes}")
    output.table(HEADS, [cells(url, tally, load.seconds) for url, tally in load.tallies.items()])


def cells(url: str, tally: LoadTally, seconds: float) -> tuple[str, ...]:
    waited = tally.latencies
    return (
        url,
        f"{waited.count:,}",
        f"{rate(waited.count, seconds):,.0f}",
        ms(waited.quantile(0.5)),
        ms(waited.quantile(0.99)),
        ms(waited.max_ms if waited.count else None),
        shares(tally.paths),
        counts(tally),
    )


def ms(value: float | None) -> str:
    return f"{value:.2f} ms" if value is not None else "-"


def shares(paths: Counter[str]) -> str:
    total = paths.total()
    return ", ".join(f"{word} {count / total:.1%}" for word, count in paths.most_common()) or "-"


def counts(tally: LoadTally) -> str:
    said = [f"{name} {count:,}" for name, count in tally.definite.most_common()]
    said += [f"{name} {count:,} (indefinite)" for name, count in tally.indefinite.most_common()]
    return ", ".join(said) or "0"


def report_json(load: Load, plan: Workload) -> dict[str, object]:
    return {
        "workload": plan.name,
        "read": plan.read if plan.name == "get" else None,
        "clients": plan.clients,
        "value_bytes": len(plan.value),
        "seconds": round(load.seconds, 3),
        "calls": load.done,
        "failed": load.failures,
        "per_second": round(rate(load.done, load.seconds), 1),
        "nodes": [node_json(url, tally) for url, tally in load.tallies.items()],
    }


def node_json(url: str, tally: LoadTally) -> dict[str, object]:
    waited = tally.latencies
    fast = tally.paths["fast"] / tally.paths.total() if tally.paths else None
    return {
        "url": url,
        "calls": waited.count,
        "p50_ms": waited.quantile(0.5),
        "p99_ms": waited.quantile(0.99),
        "max_ms": waited.max_ms if waited.count else None,
        "fast_share": fast,
        "how": tally.paths,
        "failed_definite": tally.definite,
        "failed_indefinite": tally.indefinite,
    }
