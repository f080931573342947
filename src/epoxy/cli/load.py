"""Load on a running cluster: clients that send one request after another, and their latencies."""

import asyncio
import math
import ssl
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from epoxy.client import AsyncClient
from epoxy.model.errors import EpoxyError, Forbidden, Unauthenticated, Unavailable

RESOLUTION = math.log(1.01)
"""Latencies are rounded to one percent: a few hundred counters for a run of any length."""

REST_S = 0.05
"""Pause after a node could not be reached, so that a cluster that is down is not flooded."""

PREPARING = 16
"""Keys written at once before reads are measured."""

TELL_S = 0.5


class Latencies:
    """A histogram with buckets of one percent."""

    def __init__(self) -> None:
        self._buckets: Counter[int] = Counter()
        self.count = 0
        self.max_ms = 0.0

    def add(self, ms: float) -> None:
        self._buckets[round(math.log(max(ms, 0.001)) / RESOLUTION)] += 1
        self.count += 1
        self.max_ms = max(self.max_ms, ms)

    def quantile(self, q: float) -> float | None:
        """The latency that a share `q` of the calls did not exceed, to a percent."""
        if not self.count:
            return None
        rank = max(1, math.ceil(q * self.count))
        for bucket in sorted(self._buckets):
            rank -= self._buckets[bucket]
            if rank <= 0:
                return min(math.exp(bucket * RESOLUTION), self.max_ms)
        raise AssertionError("the buckets hold every call")


class Workload(Struct, frozen=True, kw_only=True):
    """`name` is reserve, put or get. `run` keeps the keys of two runs apart. Ends after `count` requests or `seconds`,
    whichever comes first."""

    name: str
    run: str
    clients: int
    seconds: float
    count: int | None
    value: bytes
    keys: int
    read: str

    def key(self, number: int) -> bytes:
        """A fresh key for each reserve; puts and gets use `keys` keys in turn."""
        return f"bench/{self.run}/{number if self.name == 'reserve' else number % self.keys}".encode()


class LoadTally(Struct, kw_only=True):
    latencies: Latencies = field(default_factory=Latencies)
    paths: Counter[str] = field(default_factory=Counter)
    definite: Counter[str] = field(default_factory=Counter)
    indefinite: Counter[str] = field(default_factory=Counter)

    def failed(self, error: EpoxyError) -> None:
        (self.definite if error.definite else self.indefinite)[type(error).__name__] += 1


async def send(workload: Workload, client: AsyncClient, number: int) -> tuple[float, str]:
    """One request: its latency in ms, and the word it is counted under: the path of a write, the source of a read."""
    key = workload.key(number)
    if workload.name == "get":
        reading = await client.read(key, read=workload.read)
        return reading.latency_ms, reading.source.value if reading.found else "absent"
    write = client.put if workload.name == "put" else client.reserve
    written = await write(key, workload.value)
    return written.latency_ms, written.path.value


class Load:
    """Each client is bound to one of `urls`, in turn, and sends its next request as soon as the last is answered."""

    def __init__(
        self,
        workload: Workload,
        urls: list[str],
        timeout: float,
        token: Path | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """`token`, `tls`: as a client takes them."""
        self._workload = workload
        self._shown: dict[str, Any] = {"token": token, "tls": tls}
        self._timeout = timeout
        self._next = 0
        self._deadline = math.inf
        self.tallies = {url: LoadTally() for url in urls}
        self.seconds = 0.0

    @property
    def done(self) -> int:
        return sum(tally.latencies.count for tally in self.tallies.values())

    @property
    def failures(self) -> int:
        return sum((tally.definite + tally.indefinite).total() for tally in self.tallies.values())

    async def run(self, listener: Callable[[], None]) -> None:
        async with AsyncExitStack() as stack:
            clients = [
                await stack.enter_async_context(
                    AsyncClient(url, timeout=self._timeout, max_connections=self._workload.clients, **self._shown)
                )
                for url in self.tallies
            ]
            if self._workload.name == "get":
                await self._prepare(clients[0])
            await self._measure(clients, listener)

    async def _prepare(self, client: AsyncClient) -> None:
        """Writes the keys that will be read. A failure is raised: without them there is nothing to measure."""
        semaphore = asyncio.Semaphore(PREPARING)

        async def write(number: int) -> None:
            async with semaphore:
                await client.reserve(self._workload.key(number), self._workload.value)

        async with asyncio.TaskGroup() as group:
            for number in range(self._workload.keys):
                group.create_task(write(number))

    async def _measure(self, clients: list[AsyncClient], listener: Callable[[], None]) -> None:
        began = time.monotonic()
        self._deadline = began + self._workload.seconds
        speaker = asyncio.create_task(self._tell(began, listener))
        tallies = list(self.tallies.values())
        try:
            async with asyncio.TaskGroup() as group:
                for number in range(self._workload.clients):
                    which = number % len(clients)
                    group.create_task(self._ask(clients[which], tallies[which]))
        finally:
            speaker.cancel()
            self.seconds = time.monotonic() - began

    async def _tell(self, began: float, listener: Callable[[], None]) -> None:
        while True:
            await asyncio.sleep(TELL_S)
            self.seconds = time.monotonic() - began
            listener()

    async def _ask(self, client: AsyncClient, tally: LoadTally) -> None:
        while (number := self._take()) is not None:
            try:
                latency_ms, word = await send(self._workload, client, number)
            except (Unauthenticated, Forbidden):
                raise  # every other call would be refused as well
            except EpoxyError as error:
                tally.failed(error)
                if isinstance(error, Unavailable):
                    await asyncio.sleep(REST_S)
            else:
                tally.latencies.add(latency_ms)
                tally.paths[word] += 1

    def _take(self) -> int | None:
        if time.monotonic() >= self._deadline or self._next == self._workload.count:
            return None
        self._next += 1
        return self._next - 1
