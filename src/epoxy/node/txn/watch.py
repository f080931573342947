"""The last transactions of this node, kept while a client looks at them.

A request for them begins the watch, and it ends when none has come for a while. Without one a transaction costs one
comparison; with one, a record without values.
"""

from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import assert_never

from epoxy.model.api_txn import MAX_WATCHED
from epoxy.model.transactions import Executed, Txn, TxnOutcome, TxnRefused, TxnUnknown, WrongEngine
from epoxy.model.writes import Path
from epoxy.ports import Clock, Timer

WATCHED_MS = 10_000.0
"""After the last look: several times as long as a page waits between two."""

MAX_WATCHED_KEYS = 16
"""Of each: what a person reads. The rest are counted."""


class WatchedTransaction:
    """Times are of the node's clock. `begun_ms`: when it was proposed, by its last command; None: it never was, or its
    command was decided by another replica. `outcome` None: under way."""

    __slots__ = ("arrived_ms", "begun_ms", "key_count", "keys", "outcome", "path", "reason", "took_ms", "writes")

    def __init__(self, txn: Txn, now_ms: float) -> None:
        footprint = txn.footprint
        self.keys = tuple(islice(footprint, MAX_WATCHED_KEYS))
        self.key_count = len(footprint)
        self.writes = not txn.is_read_only
        self.arrived_ms = now_ms
        self.begun_ms: float | None = None
        self.took_ms: float | None = None
        self.path: Path | None = None
        self.outcome: str | None = None
        self.reason = ""

    def decided(self, path: Path, begun_ms: float) -> None:
        self.path, self.begun_ms = path, begun_ms


class TransactionWatch:
    def __init__(self, clock: Clock) -> None:
        self.on = False
        self._clock = clock
        self._kept: deque[WatchedTransaction] = deque(maxlen=MAX_WATCHED)
        self._since_ms = self._looked_ms = 0.0
        self._timer: Timer | None = None

    def look(self) -> tuple[list[WatchedTransaction], float]:
        """The newest first, and since when they are watched. Goes on watching for a while."""
        self._looked_ms = self._clock.now_ms()
        if not self.on:
            self.on, self._since_ms = True, self._looked_ms
            self._timer = self._clock.call_later(WATCHED_MS, self._expire)
        return list(reversed(self._kept)), self._since_ms

    def stop(self) -> None:
        self.on = False
        self._kept.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _expire(self) -> None:
        left_ms = self._looked_ms + WATCHED_MS - self._clock.now_ms()
        if left_ms <= 0:
            self.stop()
        else:
            self._timer = self._clock.call_later(left_ms, self._expire)

    def follow(
        self, txn: Txn, answered: Callable[[TxnOutcome], None]
    ) -> tuple[WatchedTransaction, Callable[[TxnOutcome], None]]:
        """While it is on: keep this one, and note its outcome."""
        watched = WatchedTransaction(txn, self._clock.now_ms())
        self._kept.append(watched)
        return watched, partial(self._ended, watched, answered)

    def _ended(self, watched: WatchedTransaction, answered: Callable[[TxnOutcome], None], outcome: TxnOutcome) -> None:
        watched.took_ms = self._clock.now_ms() - watched.arrived_ms
        watched.outcome, watched.reason = words_of(outcome)
        answered(outcome)


def words_of(outcome: TxnOutcome) -> tuple[str, str]:
    """What it was, and why, if it was not executed."""
    match outcome:
        case Executed():
            return ("committed" if outcome.succeeded else "condition_failed"), ""
        case TxnRefused():
            return "refused", outcome.reason
        case WrongEngine():
            return "refused", "values of its keys are too long to be handed over to transactions"
        case TxnUnknown():
            return "unknown", outcome.reason
        case _:
            assert_never(outcome)
