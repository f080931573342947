"""Placement in one datacenter: the rules with a store, a clock and dice."""

from collections.abc import Callable
from functools import partial
from typing import Protocol, TypeVar

from epoxy.ports import Clock, Dice, Store, Timer, Transaction
from epoxy.protocol.placement import envoys, rows, strategies
from epoxy.protocol.placement.allocator import Allocation
from epoxy.protocol.placement.balance import EnvoyLoad, loads
from epoxy.protocol.placement.config import PlacementConfig
from epoxy.protocol.placement.envoys import Connected, InUse
from epoxy.protocol.placement.expiry import LEASE_FACTOR, ExpireScheduler, Lease, LostTimeouts, Sweep
from epoxy.protocol.placement.records import EnvoyId, EnvoyPool, EnvoyRegistration

REMEMBERED_MS = 1000
"""How long a pool's highest version is cached. It can be stale only if several processes share a store: changes of this
process invalidate the cache."""

MAX_REMEMBERED = 4096
"""Pools whose version is cached; beyond that the oldest entry goes."""

SWEEP = "sweep"

CLOCK_AHEAD_MS = 120_000
"""The clock row is written this far ahead, so that it changes once a minute and not with every timestamp."""

T = TypeVar("T")

Leaving = Callable[[Transaction, EnvoyId], None]
"""Runs in the transaction that expires an envoy."""


class PlacementObserver(Protocol):
    def allocated(self, pool: EnvoyPool, config: PlacementConfig, allocation: Allocation, seconds: float) -> None: ...


class Placement:
    """`epoch_ms`: the wall clock at this moment. It makes timestamps readable; no rule depends on it. Time never goes
    back: a process begins where the last one with this store may have ended, and goes on with the monotonic clock.
    `owner` identifies the node that has the store."""

    def __init__(
        self,
        store: Store,
        config: PlacementConfig,
        clock: Clock,
        dice: Dice,
        epoch_ms: int,
        observer: PlacementObserver | None = None,
        owner: int = 0,
    ) -> None:
        self.store = store
        self.config = config
        self.scheduler = ExpireScheduler(self._expire)
        self.leaving: list[Leaving] = []
        self.expired: list[Callable[[EnvoyId], None]] = []
        self.warn: Callable[[str], None] = lambda _: None
        self._clock = clock
        self._dice = dice
        self._observer = observer
        self._noted_ms = rows.latest_time(store.newest())
        epoch_ms = max(epoch_ms, self._noted_ms)
        self._offset_ms = epoch_ms - clock.now_ms()
        # Envoys of the process before get one threshold to connect again.
        self._no_expiry_before_ms = epoch_ms + config.eligible_threshold_ms
        self._lost = LostTimeouts(clock, config.eligible_threshold_ms, self.suspect)
        self._lease = Lease(store, SWEEP, owner, clock)
        self._versions: dict[EnvoyPool, tuple[int, int]] = {}
        self._timer: Timer | None = None
        self._took_s = 0.0

    def now_ms(self) -> int:
        return int(self._clock.now_ms() + self._offset_ms)

    def stamped(self, body: Callable[[Transaction, int], T]) -> T:
        """A transaction that writes timestamps. None of them is beyond the clock row."""
        now_ms = self.now_ms()
        ahead_ms = now_ms + CLOCK_AHEAD_MS if now_ms + CLOCK_AHEAD_MS // 2 > self._noted_ms else None

        def noting(tx: Transaction) -> T:
            if ahead_ms is not None:
                tx.set(rows.CLOCK_ROW, rows.number(ahead_ms))
            return body(tx, now_ms)

        done = self.store.transact(noting)
        if ahead_ms is not None:
            self._noted_ms = ahead_ms
        return done

    # Envoys

    def connect(self, registration: EnvoyRegistration) -> Connected | InUse:
        places = self.config.of(registration.pool_id).virtual_nodes

        def body(tx: Transaction, now_ms: int) -> Connected | InUse:
            return envoys.holder_of(tx, registration) or envoys.connect(tx, registration, now_ms, places)

        connected = self.stamped(body)
        if isinstance(connected, InUse):
            return connected
        self._lost.heard(registration.id)
        self._versions.pop(registration.pool_id, None)
        if (was := connected.was) is not None:
            before, now = (
                f"version {was.version} in pool {was.pool}",
                f"version {registration.version} in pool {registration.pool}",
            )
            self.warn(f"envoy {was.namespace}/{was.key} was {before}, and came back as {now}: its rows were moved")
        return connected

    def ping(self, envoy: EnvoyId, rtt_ms: int) -> bool:
        known = self.stamped(lambda tx, now_ms: envoys.ping(tx, envoy, now_ms, rtt_ms))
        if known:
            self._lost.heard(envoy)
        return known

    def drain(self, envoy: EnvoyId) -> bool:
        drained = self.stamped(lambda tx, now_ms: envoys.drain(tx, envoy, now_ms))
        self._versions.clear()
        return drained

    def resume(self, envoy: EnvoyId) -> bool:
        def body(tx: Transaction) -> bool:
            known = rows.load(tx, envoy.namespace, envoy.key)
            return known is not None and envoys.resume(tx, envoy, self.config.of(known.pool_id).virtual_nodes)

        resumed = self.store.transact(body)
        self._versions.clear()
        return resumed

    def expire(self, envoy: EnvoyId, *, skip_if_fresh: bool = False) -> bool:
        threshold_ms = self.config.eligible_threshold_ms if skip_if_fresh else None

        def body(tx: Transaction, now_ms: int) -> bool:
            did_expire = envoys.expire(tx, envoy, now_ms, unless_fresh_for_ms=threshold_ms)
            if did_expire:
                for leave in self.leaving:
                    leave(tx, envoy)
            return did_expire

        did_expire = self.stamped(body)
        if did_expire:
            self._lost.forget(envoy)
            self._versions.clear()
            for told in self.expired:
                self.store.when_durable(partial(told, envoy))
        return did_expire

    def loads(self, pool: EnvoyPool) -> list[EnvoyLoad]:
        return loads(self.store.durable(), pool)

    # Allocations

    def choose(self, tx: Transaction, pool: EnvoyPool) -> Allocation:
        """Inside the caller's transaction, which records what the envoy was chosen for. Call `chosen` afterwards."""
        began_ms, now_ms = self._clock.now_ms(), self.now_ms()
        version = self._version(tx, pool, now_ms) if self.config.pool_meta else None
        allocation = strategies.allocate(tx, pool, self.config.of(pool), now_ms, self._dice, version)
        if allocation.envoy_key is None and version is not None:
            self._versions.pop(pool, None)
        self._took_s = (self._clock.now_ms() - began_ms) / 1000
        return allocation

    def chosen(self, pool: EnvoyPool, allocation: Allocation) -> None:
        """After the commit. Nothing here changes the allocation."""
        for envoy_key in allocation.stale:
            self.suspect(EnvoyId(pool.namespace, envoy_key))
        if self._observer is not None:
            self._observer.allocated(pool, self.config.of(pool), allocation, self._took_s)

    def allocate(self, pool: EnvoyPool) -> Allocation:
        """Choose an envoy and write only its slot."""
        allocation = self.store.transact(lambda tx: self.choose(tx, pool))
        self.chosen(pool, allocation)
        return allocation

    def suspect(self, envoy: EnvoyId) -> None:
        if self.now_ms() >= self._no_expiry_before_ms:
            self.scheduler.try_enqueue(envoy)

    def _version(self, tx: Transaction, pool: EnvoyPool, now_ms: int) -> int | None:
        remembered = self._versions.get(pool)
        if remembered is not None and now_ms - remembered[1] < REMEMBERED_MS:
            return remembered[0]
        version = envoys.highest_version(tx.snapshot, pool)
        if version is not None:
            if len(self._versions) >= MAX_REMEMBERED:
                self._versions.pop(next(iter(self._versions)))
            self._versions[pool] = (version, now_ms)
        return version

    def _expire(self, envoy: EnvoyId, over: Callable[[], None]) -> None:
        """In a later turn of the event loop: the allocation that passed over the envoy has not been answered yet."""

        def attempt() -> None:
            try:
                self.expire(envoy, skip_if_fresh=True)
            finally:
                over()

        self._clock.call_later(0, attempt)

    # The sweep

    def start(self) -> None:
        """The first sweep is for envoys that connected to the process before and did not come back: as soon as they may
        expire."""
        self._timer = self._clock.call_later(self.config.eligible_threshold_ms + 1, self._sweep)

    def stop(self) -> None:
        self._lost.stop()
        if self._timer is not None:
            self._timer.cancel()

    def _sweep(self) -> None:
        """Only the holder of the lease, if several processes share the store."""
        every_ms = 1000 * self.config.sweep_every_s
        self._timer = self._clock.call_later(every_ms, self._sweep)
        if self._lease.take(LEASE_FACTOR * every_ms):
            self._go_on(Sweep(self.store, self.config.eligible_threshold_ms, self.suspect))

    def _go_on(self, sweep: Sweep) -> None:
        """One page in each turn of the event loop."""
        if sweep.page(self.now_ms()):
            self._clock.call_later(0, lambda: self._go_on(sweep))
