"""What every workload is given, and what it hands back."""

import sys
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct

from benchmarks.columns import Bars, Part, Table
from benchmarks.findings import Verdict
from benchmarks.machine import Watch, commit


class Setting(Struct, frozen=True, kw_only=True):
    """`scale` of all durations and counts: 1 is what is published, less is a look. `etcd`: its binary, None where it is
    not installed."""

    folder: Path
    scale: float = 1.0
    etcd: Path | None = None

    def seconds(self, whole: float) -> float:
        return whole * self.scale

    def count(self, whole: int) -> int:
        return max(1, round(whole * self.scale))


class Sheet:
    """Collects one part."""

    def __init__(self, setting: Setting) -> None:
        self._watch = Watch(setting.folder)
        self._verdicts: list[Verdict] = []
        self._tables: list[Table] = []
        self._bars: list[Bars] = []

    def must(self, *verdicts: Verdict) -> None:
        self._verdicts += verdicts
        for each in verdicts:
            say(f"    {'held' if each.held else 'NOT '} {each.claim}: {each.found} ({each.wanted})")

    def show(self, title: str, head: list[str], rows: list[list[str]]) -> None:
        self._tables.append(Table(title=title, head=head, rows=rows))

    def draw(self, file: str, title: str, label: str, groups: dict[str, dict[str, float]]) -> None:
        self._bars.append(Bars(file=file, title=title, label=label, groups=groups))

    def part(self) -> Part:
        return Part(
            when=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
            commit=commit(),
            conditions=self._watch.read(),
            verdicts=self._verdicts,
            tables=self._tables,
            bars=self._bars,
        )


def say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)
