"""How long syncs of the disk take, for diagnosing slow nodes."""

import time
from collections.abc import Callable

WINDOW_S = 10.0
"""`longest_s` covers one to two windows: a single slow sync is forgotten soon, a slow disk is not."""


class SyncTimes:
    """Written by the thread that syncs, read by any other: each field is one number."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began_s: float | None = None
        self._window_s = clock()
        self._longest_s = self._longest_before_s = 0.0

    def begin(self) -> None:
        self._began_s = self._clock()

    def end(self) -> None:
        now_s, began_s = self._clock(), self._began_s
        assert began_s is not None, "a sync that ends has begun"
        self._began_s = None
        if now_s - self._window_s > WINDOW_S:
            fresh = now_s - self._window_s <= 2 * WINDOW_S
            self._longest_before_s, self._longest_s = (self._longest_s if fresh else 0.0), 0.0
            self._window_s = now_s
        self._longest_s = max(self._longest_s, now_s - began_s)

    def longest_s(self) -> float:
        """Of the syncs that ended lately, and of the one under way so far."""
        now_s, began_s = self._clock(), self._began_s
        age_s = now_s - self._window_s
        ended = (self._longest_s, self._longest_before_s) if age_s <= WINDOW_S else (self._longest_s,)
        under_way = now_s - began_s if began_s is not None else 0.0
        return max(under_way, *ended) if age_s <= 2 * WINDOW_S else under_way
