"""Expires silent envoys: by a deadline for each, when an allocation passes over it, and by a sweep for envoys that no
process has a deadline for."""

from collections import deque
from collections.abc import Callable

from msgspec import Struct

from epoxy.ports import Clock, Store, Timer, Transaction
from epoxy.protocol.placement import envoys, rows
from epoxy.protocol.placement.records import EnvoyId

AT_ONCE = 32
"""Concurrent expiries. Each is a transaction of some twenty rows, and allocations share the disk."""

MAX_PENDING = 1024
"""Queued expiries. A dropped one is found again by a later allocation or by the sweep."""

PAGE_ENVOYS = 256
"""Examined in one step of a sweep: a few milliseconds of the event loop."""

LEASE_FACTOR = 3
"""A lease on sweeping lasts three rounds: a holder that missed two may still be alive."""

AGAIN_MS = 1_000
"""From a deadline to the next check whether the envoy is expired: the scheduler's queue may have been full."""

Expire = Callable[[EnvoyId, Callable[[], None]], None]
"""Starts to expire an envoy unless it is fresh, and calls back when that is over, whatever the result."""


class ExpireScheduler:
    """Single flight: an envoy is queued once, however many allocations pass over it."""

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
        """False: it is queued already, or the queue is full."""
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


class LostTimeouts:
    """A deadline for each envoy that this process has heard of. A ping does not move the timer: the timer looks at the
    last ping when it is due, so that a ping costs only an assignment."""

    def __init__(self, clock: Clock, threshold_ms: int, suspect: Callable[[EnvoyId], None]) -> None:
        self._clock = clock
        self._threshold_ms = threshold_ms
        self._suspect = suspect
        self._heard_ms: dict[EnvoyId, float] = {}
        self._timers: dict[EnvoyId, Timer] = {}

    def heard(self, envoy: EnvoyId) -> None:
        self._heard_ms[envoy] = self._clock.now_ms()
        if envoy not in self._timers:
            self._arm(envoy, self._threshold_ms + 1)

    def forget(self, envoy: EnvoyId) -> None:
        """Called when it is expired."""
        self._heard_ms.pop(envoy, None)
        if (timer := self._timers.pop(envoy, None)) is not None:
            timer.cancel()

    def stop(self) -> None:
        for envoy in list(self._timers):
            self.forget(envoy)

    def _arm(self, envoy: EnvoyId, delay_ms: float) -> None:
        self._timers[envoy] = self._clock.call_later(delay_ms, lambda: self._due(envoy))

    def _due(self, envoy: EnvoyId) -> None:
        heard_ms = self._heard_ms.get(envoy)
        if heard_ms is None:  # forgotten while the timer was due already
            return
        left_ms = heard_ms + self._threshold_ms + 1 - self._clock.now_ms()
        self._arm(envoy, left_ms + 1 if left_ms > 0 else AGAIN_MS)
        if left_ms <= 0:
            self._suspect(envoy)


class Holder(Struct, frozen=True):
    """The holder of a lease: the owner of a store, which of its starts, and how often it renewed."""

    owner: int
    start: int
    renewed: int

    def encode(self) -> bytes:
        return b"".join(part.to_bytes(8, "big") for part in (self.owner, self.start, self.renewed))


def held_by(value: bytes | None) -> Holder | None:
    """None: it is free, or in the old format, which contained a wall-clock time."""
    if value is None or len(value) != 24:
        return None
    return Holder(*(int.from_bytes(value[at : at + 8], "big") for at in (0, 8, 16)))


class Lease:
    """A task that one process does at a time, if several share a store. No time is stored: a candidate watches the row
    for the duration of the lease, by its own monotonic clock, and takes it if nothing changed. A new start of the same
    owner need not wait: only one process can have the store open, so the one before has ended."""

    def __init__(self, store: Store, name: str, owner: int, clock: Clock) -> None:
        self._store = store
        self._row = rows.lease_row(name)
        self._owner = owner
        self._clock = clock
        self._start: int | None = None
        self._seen: Holder | None = None
        self._seen_ms = 0.0

    def take(self, lasts_ms: float) -> bool:
        """Whether this process holds it, from now on for `lasts_ms`."""
        return self._store.transact(lambda tx: self._take(tx, lasts_ms))

    def _take(self, tx: Transaction, lasts_ms: float) -> bool:
        held = held_by(tx.get(self._row))
        if self._start is None:
            self._start = held.start + 1 if held is not None and held.owner == self._owner else 1
        if held is not None and not self._may_take(held, self._start, lasts_ms):
            return False
        renewed = held.renewed + 1 if held is not None else 1
        tx.set(self._row, Holder(self._owner, self._start, renewed).encode())
        return True

    def _may_take(self, held: Holder, start: int, lasts_ms: float) -> bool:
        if held.owner == self._owner:
            return held.start <= start
        now_ms = self._clock.now_ms()
        if held != self._seen:
            self._seen, self._seen_ms = held, now_ms
        return now_ms - self._seen_ms >= lasts_ms


class Sweep:
    """One pass over all envoys, a page at a time: stale ones are passed to `found`, and rows of those that expired long
    ago are deleted."""

    def __init__(self, store: Store, threshold_ms: int, found: Callable[[EnvoyId], object]) -> None:
        self._store = store
        self._threshold_ms = threshold_ms
        self._found = found
        self._after: bytes | None = None

    def page(self, now_ms: int) -> bool:
        """Whether there are more pages."""
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
            for envoy in rows.expired_before(tx, now_ms - envoys.FORGET_AFTER_MS, PAGE_ENVOYS):
                envoys.forget(tx, envoy)

        self._store.transact(body)
