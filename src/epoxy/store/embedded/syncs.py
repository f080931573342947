"""How long syncs of the disk take, for diagnosing slow nodes."""

import time
from collections.abc import Callable

from epoxy.model.api import SyncReport
from epoxy.model.histogram import Histogram

WINDOW_S = 10.0
"""`longest_s` covers one to two windows: a single slow sync is forgotten soon, a slow disk is not."""

RECENT_S = 60.0
"""`recent` covers so much: a minute of a busy disk has enough syncs for a 99th percentile."""

RECENT_SYNCS = 512
"""At most so many of it: 8 KiB, and five syncs above the 99th percentile."""

QUICK_S = 0.002
"""Of a disk that may be waited for on the event loop, if that has little else to do."""


class SyncTimes:
    """Written by one thread at a time, read by any other: each field is one number, or a list that is copied at once;
    `seconds` only grows."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began_s: float | None = None
        self._window_s = clock()
        self._longest_s = self._longest_before_s = 0.0
        self._recent: list[tuple[float, float]] = []
        self._next = 0
        self.seconds = Histogram()
        self.quick_in_a_row = 0
        """Syncs that took less than `QUICK_S`, since the last that did not."""

    def begin(self) -> None:
        self._began_s = self._clock()

    def end(self) -> None:
        assert self._began_s is not None, "a sync that ends has begun"
        self.ended(self._began_s, self._clock())

    def ended(self, began_s: float, now_s: float) -> None:
        """As told by the one who synced."""
        self._began_s = None
        self.quick_in_a_row = self.quick_in_a_row + 1 if now_s - began_s < QUICK_S else 0
        if now_s - self._window_s > WINDOW_S:
            fresh = now_s - self._window_s <= 2 * WINDOW_S
            self._longest_before_s, self._longest_s = (self._longest_s if fresh else 0.0), 0.0
            self._window_s = now_s
        self._longest_s = max(self._longest_s, now_s - began_s)
        self.seconds.observe(now_s - began_s)
        self._keep((now_s, now_s - began_s))

    def _keep(self, ended: tuple[float, float]) -> None:
        """In the place of the oldest, once there are enough. Each step is one a reader may see the list after."""
        if len(self._recent) < RECENT_SYNCS:
            self._recent.append(ended)
        else:
            self._recent[self._next] = ended
            self._next = (self._next + 1) % RECENT_SYNCS

    def under_way_s(self) -> float:
        """How long the sync under way has taken so far; 0: there is none."""
        began_s = self._began_s
        return self._clock() - began_s if began_s is not None else 0.0

    def longest_s(self) -> float:
        """Of the syncs that ended lately, and of the one under way so far."""
        age_s = self._clock() - self._window_s
        ended = (self._longest_s, self._longest_before_s) if age_s <= WINDOW_S else (self._longest_s,)
        under_way = self.under_way_s()
        return max(under_way, *ended) if age_s <= 2 * WINDOW_S else under_way

    def recent(self) -> SyncReport | None:
        """Of the last minute. None: there was no sync."""
        since_s = self._clock() - RECENT_S
        took = sorted([took_s for ended_s, took_s in self._recent[:] if ended_s >= since_s])
        if not took:
            return None
        middle, high = took[len(took) // 2], took[min(len(took) - 1, 99 * len(took) // 100)]
        return SyncReport(count=len(took), p50_ms=round(1000 * middle, 3), p99_ms=round(1000 * high, 3))
