"""How fast envoys are allocated on the embedded store: one process, including transactions and syncs."""

import asyncio
import contextlib
import tempfile
import time
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from random import Random

from msgspec import Struct

from epoxy.model.errors import StoreFailed
from epoxy.ports import Timer, Transaction
from epoxy.protocol.placement import envoys
from epoxy.protocol.placement.config import PlacementConfig
from epoxy.protocol.placement.records import EnvoyPool, EnvoyRegistration
from epoxy.protocol.placement.service import Placement
from epoxy.store.buffer import scan
from epoxy.store.embedded.store import EmbeddedStore

POOL = EnvoyPool("bench", "pool")

CONNECTED_AT_ONCE = 100
"""Envoys in one transaction while the pool is filled: some 2,000 rows."""

ALLOCATED_AT_ONCE = 64
"""Allocations between two syncs of the log, as with many concurrent clients."""

PAGE_ROWS = 1_000

NOW_MS = 1_700_000_000_000


class AllocationRate(Struct, frozen=True, kw_only=True):
    """`cpu_us`: of this process, for each allocation. `stale`: whether half of the envoys were stale."""

    envoys: int
    stale: bool
    per_second: float
    cpu_us: float
    found: float
    most_scanned: int


class Still:
    """A clock that stands still, so that no envoy becomes stale while the pool is filled."""

    def now_ms(self) -> float:
        return 0.0

    def call_later(self, delay_ms: float, then: object) -> Timer:  # noqa: ARG002
        return Never()


class Never:
    def cancel(self) -> None:
        pass


class Dice:
    def __init__(self) -> None:
        self._random = Random(7)
        self.uniform = self._random.random

    def nonce(self) -> int:
        return self._random.getrandbits(64)


async def measure(config: PlacementConfig, count: int, placements: int, *, stale: bool = False) -> AllocationRate:
    async with embedded() as store:
        await fill(store, config, count, stale)
        warm(store)
        placement = Placement(store, config, Still(), Dice(), NOW_MS)
        return await allocate(placement, count, placements, stale)


@contextlib.asynccontextmanager
async def embedded() -> AsyncIterator[EmbeddedStore]:
    loop = asyncio.get_running_loop()
    with tempfile.TemporaryDirectory(prefix="epoxy-placement-") as folder:
        store = EmbeddedStore(
            Path(folder), post=loop.call_soon_threadsafe, schedule=loop.call_soon, on_failure=complain
        )
        try:
            yield store
        finally:
            store.close()


def complain(error: StoreFailed) -> None:
    raise error


async def fill(store: EmbeddedStore, config: PlacementConfig, count: int, stale: bool) -> None:
    """With `stale`, every other envoy has been silent for long."""
    for first in range(0, count, CONNECTED_AT_ONCE):
        page = range(first, min(first + CONNECTED_AT_ONCE, count))
        store.transact(partial(connect, config=config, page=page, stale=stale))
        await durable(store)


def connect(tx: Transaction, config: PlacementConfig, page: range, stale: bool) -> None:
    for index in page:
        now_ms = NOW_MS - 3_600_000 if stale and index % 2 else NOW_MS
        registration = EnvoyRegistration(namespace=POOL.namespace, pool=POOL.name, envoy_key=f"envoy-{index}")
        envoys.connect(tx, registration, now_ms, config.virtual_nodes)


def warm(store: EmbeddedStore) -> None:
    """Read all pages into memory, as on a running node."""
    for _ in scan(store.newest(), b"\x00", b"\xff", PAGE_ROWS, False):
        pass


async def durable(store: EmbeddedStore) -> None:
    synced = asyncio.get_running_loop().create_future()
    store.when_durable(lambda: synced.set_result(None))
    await synced


async def allocate(placement: Placement, count: int, placements: int, stale: bool) -> AllocationRate:
    store = placement.store
    assert isinstance(store, EmbeddedStore)
    began, cpu = time.perf_counter(), time.process_time()
    found = most = 0
    for done in range(placements):
        allocation = placement.allocate(POOL)
        found += allocation.envoy_key is not None
        most = max(most, allocation.scanned)
        if done % ALLOCATED_AT_ONCE == ALLOCATED_AT_ONCE - 1:
            await durable(store)
    await durable(store)
    return AllocationRate(
        envoys=count,
        stale=stale,
        per_second=placements / (time.perf_counter() - began),
        cpu_us=(time.process_time() - cpu) / placements * 1e6,
        found=found / placements,
        most_scanned=most,
    )
