"""What must hold, what was found before a change and after it, side by side: kept part by part, so that one of them can
be measured again alone.

A file of results has two columns. `before` stays as it was measured at the commit it names; a run with --write renews
its parts of `after`, or of `before` with --before.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from benchmarks.findings import Verdict
from benchmarks.machine import ROOT, Conditions
from benchmarks.report import share, table
from benchmarks.suite.svg import bar_chart

PAGE = ROOT / "docs" / "benchmarks.md"


class Table(Struct, frozen=True, kw_only=True):
    title: str
    head: list[str]
    rows: list[list[str]]


class Bars(Struct, frozen=True, kw_only=True):
    """A picture: groups of bars with their names, in the order of the tables."""

    file: str
    title: str
    label: str
    groups: dict[str, dict[str, float]]


class Part(Struct, frozen=True, kw_only=True):
    """One workload of one run."""

    when: str
    commit: str
    conditions: Conditions
    verdicts: list[Verdict]
    tables: list[Table]
    bars: list[Bars] = []


class Columns(Struct, kw_only=True):
    before: dict[str, Part] = {}
    after: dict[str, Part] = {}


def load(path: Path) -> Columns:
    return msgspec.json.decode(path.read_bytes(), type=Columns) if path.exists() else Columns()


def save(path: Path, found: Mapping[str, Part], *, before: bool) -> None:
    """Parts that were not measured stay as they are."""
    columns = load(path)
    (columns.before if before else columns.after).update(found)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(columns)) + b"\n")


def text(found: Mapping[str, Part]) -> str:
    """One run, for a terminal."""
    return "\n".join(sections(Columns(after=dict(found))))


def sections(columns: Columns, order: Iterable[str] = ()) -> Iterator[str]:
    names = list(dict.fromkeys([*order, *columns.before, *columns.after]))
    names = [name for name in names if name in columns.before or name in columns.after]
    yield promises(columns, names)
    yield circumstances(columns, names)
    for name in names:
        latest = columns.after.get(name) or columns.before[name]
        yield from (f"![{each.title}](img/{each.file})\n" for each in latest.bars)
        for each in latest.tables:
            yield f"**{each.title}**\n"
            yield table(each.head, each.rows)


def promises(columns: Columns, names: Iterable[str]) -> str:
    """A claim that only one column has leaves the other empty."""
    rows = []
    for name in names:
        old = by_claim(columns.before.get(name))
        new = by_claim(columns.after.get(name))
        for claim in dict.fromkeys([*new, *old]):
            last = new.get(claim) or old[claim]
            rows.append(
                (
                    claim,
                    last.wanted,
                    *([old[claim].found if claim in old else ""] if columns.before else []),
                    *([new[claim].found if claim in new else ""] if columns.after else []),
                    "yes" if last.held else "**no**",
                )
            )
    heads = [
        *(["before"] if columns.before else []),
        *(["after" if columns.before else "found"] if columns.after else []),
    ]
    return table(("what", "must", *heads, "held"), rows)


def by_claim(part: Part | None) -> dict[str, Verdict]:
    return {} if part is None else {verdict.claim: verdict for verdict in part.verdicts}


def circumstances(columns: Columns, names: Iterable[str]) -> str:
    rows = [
        (
            name,
            f"{words}{one.when}, {one.commit}",
            f"{one.conditions.seconds:.0f} s",
            share(one.conditions.busy_share),
            share(one.conditions.others_share),
            f"{one.conditions.fsync_ms[0]:.2f}, {one.conditions.fsync_ms[1]:.2f} ms",
        )
        for name in names
        for words, one in (
            ("before: " if columns.after else "", columns.before.get(name)),
            ("after: " if columns.before else "", columns.after.get(name)),
        )
        if one is not None
    ]
    return table(("part", "measured", "took", "cores busy", "with others' work", "one fsync before, after"), rows)


def renew(path: Path, mark: str, order: Iterable[str] = (), page: Path = PAGE) -> None:
    """The page between `<!-- mark -->` and `<!-- /mark -->`, and its pictures. ValueError: it has no such place."""
    begin, end = f"<!-- {mark} -->\n", f"<!-- /{mark} -->\n"
    before, found, rest = page.read_text("utf-8").partition(begin)
    _, ended, after = rest.partition(end)
    if not found or not ended:
        raise ValueError(f"{page} has no place for these figures: {begin.strip()}")
    columns = load(path)
    for part in columns.after.values():
        for bars in part.bars:
            picture = page.parent / "img" / bars.file
            picture.parent.mkdir(exist_ok=True)
            picture.write_text(bar_chart(bars.title, bars.label, bars.groups), "utf-8")
    middle = "\n".join(sections(columns, order))
    page.write_text(f"{before}{begin}\n{middle}\n{end}{after}", "utf-8")
