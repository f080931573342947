"""Moves values of the first layout to the one in use, a few at a time, in the background.

They are read, block writes and are copied before and after. But as long as there is one, a read of an absent key costs
two look-ups more.
"""

from collections.abc import Callable
from functools import partial

from epoxy.model.errors import RottenRow
from epoxy.ports import Clock, Store, Timer
from epoxy.store.keyspace import Keyspace

STEP_ROWS = 256
"""In one transaction: some 2 ms of the event loop."""

SHARE = 0.1
"""Of the time. 100,000 values take about ten seconds."""

AGAIN_MS = 1_000.0
"""After a row that is rotten, which is repaired meanwhile."""


class Backfill:
    def __init__(
        self, keyspace: Keyspace, store: Store, clock: Clock, done: Callable[[int], None] = lambda _: None
    ) -> None:
        """`done` is called with the number of values when all have moved, durably."""
        self._keyspace = keyspace
        self._store = store
        self._clock = clock
        self._done = done
        self._timer: Timer | None = None
        self.moved = 0

    def start(self) -> None:
        self._step(b"")

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _step(self, after: bytes) -> None:
        begun_ms = self._clock.now_ms()
        try:
            moved, last = self._store.transact(partial(self._keyspace.move_legacy, after=after, limit=STEP_ROWS))
        except RottenRow:
            self._timer = self._clock.call_later(AGAIN_MS, partial(self._step, after))
            return
        self.moved += moved
        if last is None:
            self._store.when_durable(self._ended)
            return
        rest_ms = (self._clock.now_ms() - begun_ms) * (1 / SHARE - 1)
        self._timer = self._clock.call_later(rest_ms, partial(self._step, last))

    def _ended(self) -> None:
        """Not before it is durable: a reader of the durable state must find a value in one layout or the other."""
        self._keyspace.legacy_is_gone()
        self._done(self.moved)
