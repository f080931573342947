"""The scrub: every row of the tree is read once in a while, so that rot is found before the row is needed.

It works in pages, in the store's own thread, at a bounded rate, and gives way while clients are busy. How far it has
come is recorded, so that a node that is restarted often still gets to the end.
"""

from collections.abc import Callable
from functools import partial
from typing import Literal, Protocol

from msgspec.structs import replace

from epoxy.model.api_scrub import ScrubReport
from epoxy.node.scrub.repairs import Repairs
from epoxy.ports import Clock, Snapshot, Timer
from epoxy.store.embedded.scrub import ScrubPage
from epoxy.store.scrub_rows import ScrubProgress, ScrubSpace

PAGE_ROWS = 1_000
"""Some milliseconds of the store's thread, during which no checkpoint begins."""

FIRST_MS = 900_000.0
"""A node whose store was never scrubbed begins so long after its start: not while it is being set up."""

LOOK_MS = 60_000.0
"""Between two looks at the system's time."""

BUSY_MS, PATIENCE_MS = 50.0, 1_000.0
"""While clients are busy: between two looks whether they still are, and how long a page waits for them at most. A node
that is never quiet is scrubbed, too, a thousand rows a second."""

NOTE_MS = 10_000.0
"""Between two records of the progress: so much is read again after a restart."""

SHORTEST_PAUSE_MS = 1.0

DAY_MS, MIB = 86_400_000, 1 << 20


class ScrubbedStore(Protocol):
    """A store with a disk."""

    def newest(self) -> Snapshot: ...

    def remember(self, rows: dict[bytes, bytes | None]) -> None: ...

    def scrub(self, after: bytes, rows: int, done: Callable[[ScrubPage], None]) -> None:
        """Check the rows behind this one, at most so many."""


class Scrubber:
    """`days` between two rounds, 0: only those that are asked for. `is_busy`: whether clients are being served.
    `wall_ms`: the system's time."""

    def __init__(
        self,
        store: ScrubbedStore,
        repairs: Repairs,
        space: ScrubSpace,
        clock: Clock,
        *,
        days: int,
        mib_s: int,
        is_busy: Callable[[], bool],
        wall_ms: Callable[[], int],
    ) -> None:
        self._store = store
        self._repairs = repairs
        self._space = space
        self._clock = clock
        self._days = days
        self._byte_ms = 1000 / (mib_s * MIB)
        self._is_busy = is_busy
        self._wall_ms = wall_ms
        self.report: Callable[[str, ScrubProgress], None] = lambda _words, _progress: None
        """Called when a round begins and ends."""
        self.rows = self.bytes = 0
        """Checked since this process began."""
        self.progress = space.load(store.newest())
        self.is_running = self.is_waiting = False
        self._waited_ms = 0.0
        self._noted_ms = clock.now_ms()
        self._started_ms = clock.now_ms()
        self._timer: Timer | None = None
        self._stopped = False

    def start(self) -> None:
        if self.progress.is_under_way and self._days:
            self.is_running = True
            self._step()
        else:
            self._look()

    def stop(self) -> None:
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()

    def begin(self) -> bool:
        """A round now. False: one is under way."""
        if self.is_running:
            return False
        if self._timer is not None:
            self._timer.cancel()
        self.is_running = True
        self.progress = replace(self.progress, after=b"", rows=0, bytes=0, begun_ms=self._wall_ms())
        self.report("scrub begins", self.progress)
        self._step()
        return True

    def described(self) -> ScrubReport:
        progress, repairs = self.progress, self._repairs
        return ScrubReport(
            state=self._state,
            rows=progress.rows,
            bytes=progress.bytes,
            rows_expected=max(progress.last_rows, progress.rows) if progress.last_rows else None,
            begun_at=progress.begun_ms / 1000 if progress.begun_ms else None,
            last_ended_at=progress.ended_ms / 1000 if progress.ended_ms else None,
            every_days=self._days,
            rotten_found=repairs.found.total(),
            repaired=repairs.repaired,
            unrepaired=repairs.listed(),
        )

    @property
    def _state(self) -> Literal["off", "idle", "running", "paused"]:
        if self.is_running:
            return "paused" if self.is_waiting else "running"
        return "idle" if self._days else "off"

    def _look(self) -> None:
        """Whether a round is due."""
        if self._stopped or self.is_running or not self._days:
            return
        last_ms = self.progress.ended_ms
        if last_ms:
            is_due = not 0 <= self._wall_ms() - last_ms < self._days * DAY_MS
        else:
            is_due = self._clock.now_ms() - self._started_ms >= FIRST_MS
        if is_due:
            self.begin()
        else:
            self._timer = self._clock.call_later(LOOK_MS, self._look)

    def _step(self) -> None:
        if self._stopped:
            return
        self.is_waiting = self._is_busy() and self._waited_ms < PATIENCE_MS
        if self.is_waiting:
            self._waited_ms += BUSY_MS
            self._timer = self._clock.call_later(BUSY_MS, self._step)
        else:
            self._waited_ms = 0.0
            self._store.scrub(self.progress.after, PAGE_ROWS, partial(self._checked, self._clock.now_ms()))

    def _checked(self, begun_ms: float, page: ScrubPage) -> None:
        if self._stopped:
            return
        self.rows += page.rows
        self.bytes += page.bytes
        for key in page.rotten:
            self._repairs.noticed(key)
        rows, size = self.progress.rows + page.rows, self.progress.bytes + page.bytes
        if page.last is None:
            self._ended(rows, size)
            return
        self.progress = replace(self.progress, after=page.last, rows=rows, bytes=size)
        now_ms = self._clock.now_ms()
        if now_ms - self._noted_ms >= NOTE_MS:
            self._note(now_ms)
        rest_ms = page.bytes * self._byte_ms - (now_ms - begun_ms)
        self._timer = self._clock.call_later(max(SHORTEST_PAUSE_MS, rest_ms), self._step)

    def _ended(self, rows: int, size: int) -> None:
        self.is_running = False
        self.progress = ScrubProgress(
            rows=rows, bytes=size, begun_ms=self.progress.begun_ms, ended_ms=self._wall_ms(), last_rows=rows
        )
        self._note(self._clock.now_ms())
        self.report("scrub ended", self.progress)
        self._look()

    def _note(self, now_ms: float) -> None:
        self._noted_ms = now_ms
        self._store.remember(self._space.rows(self.progress))
