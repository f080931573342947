"""The curves of a run as pictures, in docs/img/."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from benchmarks.machine import ROOT
from benchmarks.suite.results import Curve, Figures, Growth, Holding, Overload
from benchmarks.suite.svg import Axis, Points, chart, linear, logarithmic, places
from benchmarks.suite.workloads import EMPTY, EPOXY

FOLDER = ROOT / "docs" / "img"


def pictures(growth: Growth) -> Iterator[tuple[str, str, str]]:
    """File, what it shows, and the picture."""
    for name, title, label, curve, log in (
        ("bench-clients", "Commits a second, by clients", "clients", growth.clients, True),
        ("bench-sizes", "Commits a second, by size of the value", "bytes", growth.sizes, True),
        ("bench-replicas", "Commits a second, by replicas", "replicas", growth.replicas, False),
    ):
        if curve:
            yield f"{name}.svg", title, of_curve(title, label, curve, log=log)
    if len(growth.keys) > 1:
        title = "Commits a second of 64 clients, by keys that are stored already"
        yield "bench-keys.svg", title, rates_of_keys(title, growth.keys)
        title = "p50 of a commit, by keys that are stored already"
        yield "bench-keys-p50.svg", title, p50_of_keys(title, growth.keys)
    if len(growth.overload) > 1:
        title = "Latency of what is not refused, by requests under way at once"
        yield "bench-overload.svg", title, of_overload(title, growth.overload)


def of_curve(title: str, label: str, curve: Curve, *, log: bool) -> str:
    lines = series(curve, lambda figures: figures.rate.median)
    return drawn(title, places(label, list(curve), log=log), "commits a second", lines)


def series(curve: Curve, pick: Callable[[Figures], float]) -> dict[str, Points]:
    found: dict[str, list[tuple[float, float]]] = {}
    for place, by in curve.items():
        for contender, figures in by.items():
            found.setdefault(contender, []).append((place, pick(figures)))
    return dict(found)


def rates_of_keys(title: str, held: Sequence[Holding]) -> str:
    curve = {one.held.keys: one.busy for one in held}
    return drawn(title, stored(held), "commits a second", series(curve, lambda figures: figures.rate.median))


def p50_of_keys(title: str, held: Sequence[Holding]) -> str:
    lines: dict[str, list[tuple[float, float]]] = {}
    for one in held:
        for words, by in (("1 client", one.alone), ("64 clients", one.busy)):
            for contender, name in ((EPOXY, words), (EMPTY, f"{words}, empty store")):
                lines.setdefault(name, []).append((one.held.keys, by[contender].p50.median))
    return drawn(title, stored(held), "ms", dict(lines))


def stored(held: Sequence[Holding]) -> Axis:
    return logarithmic("keys", [one.held.keys for one in held])


def of_overload(title: str, found: Sequence[Overload]) -> str:
    lines: dict[str, Points] = {
        "p50": [(one.under_way, one.figures.p50.median) for one in found],
        "p99": [(one.under_way, one.figures.p99.median) for one in found],
    }
    return drawn(title, places("requests under way", [one.under_way for one in found], log=True), "ms", lines)


def drawn(title: str, x: Axis, label: str, lines: dict[str, Points]) -> str:
    heights = [height for points in lines.values() for _, height in points]
    return chart(title, x, linear(label, heights), lines)


def write(growth: Growth, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, _, picture in pictures(growth):
        (folder / name).write_text(picture, "utf-8")
