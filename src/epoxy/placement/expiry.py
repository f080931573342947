"""Envoys that fell silent are expired by whoever walks past them, and by a sweep for those nobody walks past."""

from collections import deque
from collections.abc import Callable

from epoxy.placement import envoys, rows
from epoxy.placement.records import EnvoyId
from epoxy.ports import Store, Transaction

AT_ONCE = 32
"""Expiries under way: each is a transaction of some twenty rows, and allocations share the disk with them."""

MAX_PENDING = 1024
"""Waiting ones. What finds no place is found again by the next who walks past it."""

PAGE_ENVOYS = 256
"""Looked at in one go of a sweep, a few milliseconds of the event loop."""

LEASE_FACTOR = 3
"""A lease on sweeping lasts three rounds: a holder that stopped for two is not dead yet."""

Expire = Callable[[EnvoyId, Callable[[], None]], None]
"""Starts to expire an envoy unless it is fresh, and calls back when that is over, whatever came of it."""


class ExpireScheduler:
    """Single flight: an envoy is expired once at a time, however many walk past it."""

    def __init__(self, expire: Expire, *, at_once: int = AT_ONCE, max_pending: int = MAX_PENDING) -> None:
        self._expire = expire
        self._at_once = at_once
        self._max_pending = max_pending
        self._known: set[EnvoyId] = set()
        self._waiting: deque[EnvoyId] = deque()
        self._running = 0
        self.dropped = 0

    @property
    def pending(self) -> int:
        return len(self._known)

    def try_enqueue(self, envoy: EnvoyId) -> bool:
        """False: it is on its way already, or too many are."""
        if envoy in self._known:
            return False
        if len(self._known) >= self._max_pending:
            self.dropped += 1
            return False
        self._known.add(envoy)
        self._waiting.append(envoy)
        self._work()
        return True

    def _work(self) -> None:
        while self._waiting and self._running < self._at_once:
            envoy = self._waiting.popleft()
            self._running += 1
            over = self._once(envoy)
            try:
                self._expire(envoy, over)
            except Exception:
                over()
                raise

    def _once(self, envoy: EnvoyId) -> Callable[[], None]:
        def over() -> None:
            if envoy in self._known:
                self._known.discard(envoy)
                self._running -= 1
                self._work()

        return over


def take_lease(tx: Transaction, name: str, holder: int, now_ms: int, lasts_ms: int) -> bool:
    """Whether `holder` has it, from now on for `lasts_ms`. Nobody else has, until that is over."""
    row = rows.lease_row(name)
    value = tx.get(row)
    if value is not None:
        held_by, until_ms = int.from_bytes(value[:8], "big"), int.from_bytes(value[8:], "big")
        if held_by != holder and now_ms < until_ms:
            return False
    tx.set(row, holder.to_bytes(8, "big") + (now_ms + lasts_ms).to_bytes(8, "big"))
    return True


class Sweep:
    """One pass over all envoys, a page at a time: those that are stale are given to `found`, and what is left of those
    that expired long ago is forgotten."""

    def __init__(self, store: Store, threshold_ms: int, found: Callable[[EnvoyId], object]) -> None:
        self._store = store
        self._threshold_ms = threshold_ms
        self._found = found
        self._after: bytes | None = None

    def page(self, now_ms: int) -> bool:
        """Whether there is more."""
        view = self._store.newest()
        page, self._after = rows.active_envoys(view, self._after, PAGE_ENVOYS)
        for each in page:
            envoy = rows.load(view, each.namespace, each.key)
            if envoy is None or not envoy.is_fresh(now_ms, self._threshold_ms):
                self._found(each)
        if self._after is None:
            self._forget(now_ms)
        return self._after is not None

    def _forget(self, now_ms: int) -> None:
        def body(tx: Transaction) -> None:
            for envoy, _ in list(rows.expired_before(tx, now_ms - envoys.FORGET_AFTER_MS, PAGE_ENVOYS)):
                envoys.forget(tx, envoy)

        self._store.transact(body)
