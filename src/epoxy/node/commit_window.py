"""How long this node's last commits took, measured only while that is asked for.

Nothing is measured until the first look, and nothing any more when no look came for a while: then the observer is taken
out of the driver's way.
"""

from collections import deque
from collections.abc import Callable

from msgspec import Struct

from epoxy.model.writes import Path
from epoxy.node.keys.latency import RoundLatency
from epoxy.node.observer import Observer, Unobserved
from epoxy.ports import Clock, Timer

WINDOW_MS = 60_000.0
"""What a person takes for now."""

RATE_MS = 5_000.0
"""Commits a second are counted over so long: shorter, a quiet node would flicker."""

MAX_MEASURED = 4096
"""Commits whose times are kept, 0.5 MiB. A busy node makes them in a second or two: that is its window then."""

IDLE_MS = 10_000.0
"""After the last look. A page looks every second."""

APART_MS = 500.0
"""Between two readings of the counts that are kept; 120 in the window."""


class Percentiles(Struct, frozen=True, kw_only=True):
    """Of `measured` commits in the last `window_s` seconds."""

    p50_ms: float | None
    p99_ms: float | None
    measured: int
    window_s: float


class CommitCounts(Struct, frozen=True):
    """Commits of this node's clients since it started, at a time."""

    at_ms: float
    commits: int
    fast: int


class CommitWindow:
    """An Observer between `latency` and what comes after it, while it is on."""

    def __init__(self, latency: RoundLatency, clock: Clock, counts: Callable[[], tuple[int, int]]) -> None:
        """`counts`: the commits of this node's clients, and those of them that were fast."""
        self._latency = latency
        self._clock = clock
        self._counts = counts
        self._then: Observer = Unobserved()
        self._took: deque[tuple[float, float]] = deque(maxlen=MAX_MEASURED)
        self._counted: deque[CommitCounts] = deque()
        self._looked_ms = self._since_ms = 0.0
        self._timer: Timer | None = None

    @property
    def is_on(self) -> bool:
        return self._timer is not None

    def proposal_done(
        self, outcome: str, path: Path | None, seconds: float, *, prepares: int = 0, retries: int = 0, bumps: int = 0
    ) -> None:
        """Those that were answered without a message say nothing about the way to a quorum."""
        if outcome == "Committed" and path is not Path.LOCAL:
            self._took.append((self._clock.now_ms(), seconds))
        self._then.proposal_done(outcome, path, seconds, prepares=prepares, retries=retries, bumps=bumps)

    def look(self) -> None:
        """Measure, from now until no look came for IDLE_MS."""
        now_ms = self._looked_ms = self._clock.now_ms()
        if self._timer is None:
            self._since_ms = now_ms
            self._then, self._latency.then = self._latency.then, self
            self._timer = self._clock.call_later(IDLE_MS, self._rest)
        if not self._counted or now_ms - self._counted[-1].at_ms >= APART_MS:
            self._counted.append(CommitCounts(now_ms, *self._counts()))
        while now_ms - self._counted[0].at_ms > WINDOW_MS:
            self._counted.popleft()
        while self._took and now_ms - self._took[0][0] > WINDOW_MS:
            self._took.popleft()

    def _rest(self) -> None:
        left_ms = self._looked_ms + IDLE_MS - self._clock.now_ms()
        if left_ms > 0:
            self._timer = self._clock.call_later(left_ms, self._rest)
            return
        self._timer = None
        self._latency.then, self._then = self._then, Unobserved()
        self._took.clear()
        self._counted.clear()

    def percentiles(self) -> Percentiles:
        now_ms, took = self._clock.now_ms(), sorted([seconds for _, seconds in self._took])
        is_full = len(self._took) == MAX_MEASURED
        since_ms = self._took[0][0] if is_full else max(self._since_ms, now_ms - WINDOW_MS)
        return Percentiles(
            p50_ms=nearest_rank_ms(took, 50),
            p99_ms=nearest_rank_ms(took, 99),
            measured=len(took),
            window_s=round((now_ms - since_ms) / 1000, 1) if self.is_on else 0.0,
        )

    def commits_per_s(self) -> float | None:
        """None: counted only once so far."""
        if not self._counted:
            return None
        last = self._counted[-1]
        first = next(each for each in self._counted if last.at_ms - each.at_ms <= RATE_MS)
        if last is first:
            return None
        return round((last.commits - first.commits) / (last.at_ms - first.at_ms) * 1000, 1)

    def fast_share(self) -> float | None:
        """None: there were no commits."""
        if not self._counted:
            return None
        first, last = self._counted[0], self._counted[-1]
        commits = last.commits - first.commits
        return round((last.fast - first.fast) / commits, 4) if commits else None


def nearest_rank_ms(seconds: list[float], percent: int) -> float | None:
    """Of sorted times: the smallest that so many percent of them do not exceed."""
    return round(1000 * seconds[(len(seconds) * percent + 99) // 100 - 1], 3) if seconds else None
