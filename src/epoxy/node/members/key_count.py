"""How many keys a replica holds, deleted ones among them: for the progress of a copy, and for metrics.

Counted in small steps, and from then on kept up to date with every commit, so that reading the number costs nothing. A
key that is committed while a count is under way is counted where that has been already; further on the count finds it.
"""

from epoxy.codec.plain_requests import PlainRequest
from epoxy.model.cluster import FIRST_SYSTEM_KEY
from epoxy.model.errors import RottenRow, StoreUnavailable
from epoxy.model.records import KeyState
from epoxy.node.keys.replica import Replica
from epoxy.ports import Clock, Store

STEP_ROWS = 1_000
STEP_MS = 20.0
"""A step takes a millisecond: a twentieth of a replica's time, for twenty seconds if there are a million keys."""

FRESH_MS = 600_000.0
"""For progress, in a datacenter of several nodes: the others' commits are not seen here, and it needs no exact
number."""


class KeyCount:
    def __init__(self, replica: Replica, store: Store, clock: Clock) -> None:
        self.keys = 0
        """By the last full count and the commits since; 0 before it, because with a part of the keys a copy would seem
        nearly done."""
        self._replica = replica
        self._store = store
        self._clock = clock
        self._ended_ms: float | None = None
        self._counted = 0
        self._counting = False
        self._reached: bytes | None = None
        """The last key of the count under way."""
        replica.short_watchers.append((self._committed, self._committed_plain))

    @property
    def is_known(self) -> bool:
        return self._ended_ms is not None

    def begin(self) -> None:
        """Count, unless the number is known or a count is under way."""
        if not self.is_known and not self._counting:
            self._counting, self._counted, self._reached = True, 0, None
            self._step()

    def renew(self) -> None:
        """Count again, unless the number is fresh or a count is under way."""
        if self._ended_ms is not None and self._clock.now_ms() - self._ended_ms >= FRESH_MS:
            self._ended_ms = None
        self.begin()

    def _step(self) -> None:
        try:
            found, last = self._replica.keyspace.count(self._store.newest(), self._reached, STEP_ROWS)
        except (RottenRow, StoreUnavailable):
            self._counting = False
            return
        self._counted += found
        self._reached = last
        if last is not None:
            self._clock.call_later(STEP_MS, self._step)
        else:
            self.keys, self._ended_ms, self._counting = self._counted, self._clock.now_ms(), False

    def _committed(self, key: bytes, before: KeyState, _after: KeyState) -> None:
        if before.committed is None and key < FIRST_SYSTEM_KEY:
            self._add(key)

    def _committed_plain(self, request: PlainRequest) -> bool:
        if request.version == 1:
            self._add(request.key)
        return True

    def _add(self, key: bytes) -> None:
        if self._counting:
            self._counted += self._reached is not None and key <= self._reached
        elif self.is_known:
            self.keys += 1
