"""How many keys a replica holds, to show the progress of a copy. Counted in small steps."""

from epoxy.model.errors import RottenRow
from epoxy.node.keys.replica import Replica
from epoxy.ports import Clock, Store

STEP_ROWS = 1_000
STEP_MS = 20.0
"""A step takes a millisecond: a twentieth of a replica's time, for twenty seconds if there are a million keys."""

FRESH_MS = 600_000.0
"""Progress needs no exact number."""


class KeyCount:
    def __init__(self, replica: Replica, store: Store, clock: Clock) -> None:
        self.keys = 0
        """By the last full count; 0 before it, because with a part of the keys a copy would seem nearly done."""
        self._replica = replica
        self._store = store
        self._clock = clock
        self._ended_ms: float | None = None
        self._counted = 0
        self._counting = False

    def renew(self) -> None:
        """Count again, unless the number is fresh or a count is under way."""
        is_fresh = self._ended_ms is not None and self._clock.now_ms() - self._ended_ms < FRESH_MS
        if not is_fresh and not self._counting:
            self._counting, self._counted = True, 0
            self._step(None)

    def _step(self, after: bytes | None) -> None:
        try:
            found, last = self._replica.keyspace.count(self._store.durable(), after, STEP_ROWS)
        except RottenRow:
            self._counting = False
            return
        self._counted += found
        if last is not None:
            self._clock.call_later(STEP_MS, lambda: self._step(last))
        else:
            self.keys, self._ended_ms, self._counting = self._counted, self._clock.now_ms(), False
