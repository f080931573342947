"""The progress of a change of members: in words, and as a line that is updated on a terminal."""

import time
from collections import deque
from collections.abc import Sequence
from typing import Self

import click
from msgspec import Struct

from epoxy.model.api import MemberRow, Members, MovedMember
from epoxy.model.node_urls import split_urls

WINDOW_S = 10.0
"""The rate is measured over this window: the first pages are small, and load comes and goes."""

COMING = ("joining", "learning")

PLAIN_S = 5.0
"""Between two plain lines of the same phase."""


class ProgressLine(Struct, frozen=True, kw_only=True):
    """`phase` in words, and while keys are copied how many of how many. `total` 0: not counted yet."""

    phase: str
    copied: int = 0
    total: int = 0
    rate: float = 0.0

    @property
    def words(self) -> str:
        if not self.total:
            return f"{self.phase}: {self.copied:,} keys, {self.rate:,.0f}/s" if self.copied else self.phase
        left = max(0, self.total - self.copied)
        rest = f", {seconds(left / self.rate)} left" if self.rate > 0 and left else ""
        return f"{self.phase}: {self.copied:,} of about {self.total:,} keys, {self.rate:,.0f}/s{rest}"


def seconds(amount: float) -> str:
    return f"{amount:.0f} s" if amount < 120 else f"{amount / 60:.0f} min"


def is_done(seen: Members, wanted: tuple[int, ...], moved: Sequence[MovedMember] = ()) -> bool:
    """Addresses are compared as the API spells them: without slashes at their ends."""
    urls = {row.id: row.url for row in seen.replicas}
    there = all(urls.get(each.id) == ",".join(url.rstrip("/") for url in split_urls(each.url)) for each in moved)
    return there and bool(seen.settled) and tuple(row.id for row in seen.replicas) == wanted == seen.wanted


class ChangeProgress:
    """Turns successive views of the members into progress lines, with the rate of copying."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, int]] = deque()

    def look(self, seen: Members, now_s: float) -> ProgressLine:
        learners = [row for row in seen.replicas if row.status == "learning"]
        if seen.joint:
            return ProgressLine(phase=f"epoch {seen.epoch}, old and new decide together{waits(seen)}")
        if seen.settled:
            return ProgressLine(phase=f"epoch {seen.epoch}, done")
        if not learners:
            return ProgressLine(phase=f"epoch {seen.epoch}{waits(seen)}")
        copied, total = copied_by(learners), len(learners) * held(seen)
        return ProgressLine(
            phase=f"epoch {seen.epoch}, {names(learners)} copying",
            copied=min(copied, total) if total else copied,
            total=total,
            rate=self._rate(now_s, copied),
        )

    def _rate(self, now_s: float, copied: int) -> float:
        self._samples.append((now_s, copied))
        while now_s - self._samples[0][0] > WINDOW_S:
            self._samples.popleft()
        (then_s, before), (last_s, after) = self._samples[0], self._samples[-1]
        return (after - before) / (last_s - then_s) if last_s > then_s else 0.0


def waits(seen: Members) -> str:
    return f": {seen.waiting}" if seen.waiting else ""


def names(rows: list[MemberRow]) -> str:
    return " and ".join(row.datacenter or str(row.id) for row in rows)


def copied_by(rows: list[MemberRow]) -> int:
    return sum(row.progress.copied for row in rows if row.progress is not None)


def held(seen: Members) -> int:
    """Keys, as voters have counted them. A newcomer counts only what it has copied so far."""
    voting = (row.progress for row in seen.replicas if row.status not in COMING)
    return max((progress.keys for progress in voting if progress is not None), default=0)


class MembersProgress:
    """On stderr, so that a pipe carries only the result."""

    def __init__(self, *, quiet: bool) -> None:
        from rich.console import Console

        self._console = Console(stderr=True)
        self._quiet = quiet
        self._status = self._console.status("") if self._console.is_terminal and not quiet else None
        self._said = ""
        self._said_s = 0.0

    def __enter__(self) -> Self:
        if self._status is not None:
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._status is not None:
            self._status.stop()

    def tell(self, told: ProgressLine) -> None:
        if self._status is not None:
            self._status.update(told.words)
        elif not self._quiet and (told.phase != self._said or time.monotonic() - self._said_s > PLAIN_S):
            self._said, self._said_s = told.phase, time.monotonic()
            click.echo(told.words, err=True)
