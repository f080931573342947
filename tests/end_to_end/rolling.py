"""Clients of a cluster whose nodes are restarted, upgraded and brought back one after the other, and their outcomes.

They are as real clients are: each knows all nodes, prefers one, and asks the next when one refuses. A refusal by all of
them is definite, and the request is made again until PATIENCE_S are over, when it has failed. An outcome that is not
known is never asked for again: it counts as unknown. The judge compares what was acknowledged with what all nodes hold.
"""

import asyncio
import random
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Self, TypeVar

from epoxy.client import AsyncClient
from epoxy.model.errors import ClientError, OutcomeUnknown, Unavailable
from epoxy.model.transactions import Put
from epoxy.testing import Cluster

T = TypeVar("T")

PATIENCE_S = 30.0
"""Of a client that is refused by all nodes. A restart takes a second or two; on a busy machine many times that."""

RETRY_S = 0.05
ADD_EVERY = 10
"""Writes of a client, of which one is an addition."""

MAX_WRITES = 200_000
"""Of one load, which keeps what it wrote in memory: some 100 bytes each."""

LINEARIZABLE = "linearizable"
HOT_COUNTERS = 8
"""Shared by all clients, if they share any."""

AT_ONCE = 64
"""Reads of the judge that are under way."""


class RollingLoad:
    """While it is entered, clients write. `done`: by kind; `retried`: definite refusals after which a client asked
    again. A client adds to a counter of its own, to another one after `adds` times; `hot`: to some that all share."""

    def __init__(
        self, cluster: Cluster, *, clients: int = 12, seed: int = 1, adds: int = 10_000, hot: bool = False
    ) -> None:
        self.done: Counter[str] = Counter()
        self.retried = 0
        self.failed: list[str] = []
        self.unknown: list[str] = []
        self.wrong: list[str] = []
        self.longest_s = 0.0
        self._urls = list(cluster.urls)
        self._clients = clients
        self._seed = seed
        self._adds = adds
        self._hot = hot
        self._values: dict[bytes, bytes] = {}
        self._sums: Counter[bytes] = Counter()
        self._names: dict[bytes, bytes] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._work()))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    @property
    def writes(self) -> int:
        return sum(self.done.values())

    def more(self, count: int) -> None:
        """Wait until so many more writes are done."""
        goal, deadline = self.writes + count, time.monotonic() + PATIENCE_S + count / 10
        while self.writes < goal:
            assert self._thread.is_alive(), "the clients have ended"
            assert not self.failed, self.failed
            assert time.monotonic() < deadline, f"{self.writes} of {goal} writes"
            time.sleep(RETRY_S)

    def until(self, writes: int) -> None:
        self.more(max(0, writes - self.writes))

    async def _work(self) -> None:
        await asyncio.gather(*(self._client(number) for number in range(self._clients)))

    async def _client(self, number: int) -> None:
        first, dice = number % len(self._urls), random.Random(f"{self._seed}/{number}")
        client = AsyncClient(self._urls[first:] + self._urls[:first], timeout=PATIENCE_S)
        step = 0
        while not self._over.is_set() and self.writes < MAX_WRITES:
            step += 1
            if step % ADD_EVERY == 0:
                shared, own = dice.randrange(HOT_COUNTERS), step // ADD_EVERY // self._adds
                await self._add(client, b"sum/%d" % shared if self._hot else b"sum/%d/%d" % (number, own))
            else:
                await self._write(client, dice, b"%d/%d" % (number, step))
        await client.aclose()

    async def _write(self, client: AsyncClient, dice: random.Random, name: bytes) -> None:
        match dice.randrange(20):
            case 0 | 1:
                # All clients want the same names: of each there is one owner.
                wanted = b"name/" + name.partition(b"/")[2]
                told = await self._ask("reserve", lambda: client.reserve(wanted, name))
                if told is not None and self._names.setdefault(wanted, told.value) != told.value:
                    self.wrong.append(f"{wanted!r} belongs to {self._names[wanted]!r}, and to {told.value!r}")
            case 2:
                pair = [b"pair/%b/%d" % (name, part) for part in (0, 1)]
                puts = [Put(key=key, value=name) for key in pair]
                if await self._ask("txn", lambda: client.txn(then=puts)) is not None:
                    self._values |= dict.fromkeys(pair, name)
            case _:
                key = b"key/" + name
                if await self._ask("put", lambda: client.put(key, name)) is None:
                    return
                self._values[key] = name
                if dice.random() < 0.2:
                    await self._look(client, key, name)

    async def _add(self, client: AsyncClient, counter: bytes) -> None:
        if await self._ask("add", lambda: client.add(counter, 1)) is not None:
            self._sums[counter] += 1

    async def _look(self, client: AsyncClient, key: bytes, value: bytes) -> None:
        """A read of what was acknowledged a moment ago; it may be made again as often as it fails."""
        found = await self._repeated(lambda: client.get(key, read=LINEARIZABLE))
        if found is not None and found.value != value:
            self.wrong.append(f"{key!r} was {found.value!r} after {value!r} was acknowledged")

    async def _ask(self, kind: str, call: Callable[[], Awaitable[T]]) -> T | None:
        began = time.monotonic()
        try:
            told = await self._repeated(call)
        except OutcomeUnknown as error:
            self.unknown.append(f"{kind}: {error!r}")
            return None
        except ClientError as error:
            self.failed.append(f"{kind}: {error!r}")
            return None
        self.longest_s = max(self.longest_s, time.monotonic() - began)
        self.done[kind] += 1
        return told

    async def _repeated(self, call: Callable[[], Awaitable[T]]) -> T:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                return await call()
            except Unavailable:
                if time.monotonic() > deadline:
                    raise
                self.retried += 1
                await asyncio.sleep(RETRY_S)

    def judge(self, cluster: Cluster) -> None:
        """What was acknowledged is what every node says now. Findings go to `wrong`."""
        asyncio.run(self._judge(cluster))

    async def _judge(self, cluster: Cluster) -> None:
        expected = self._values | self._names
        if not self.unknown:
            expected |= {counter: b"%d" % count for counter, count in self._sums.items()}
        turns = asyncio.Semaphore(AT_ONCE)

        async def compare(client: AsyncClient, url: str, key: bytes, value: bytes) -> None:
            async with turns:
                found = await self._repeated(lambda: client.get(key, read=LINEARIZABLE))
            if found is None or found.value != value:
                self.wrong.append(f"{url} has {found.value if found else None!r} for {key!r}, not {value!r}")

        for url in cluster.urls:
            async with AsyncClient(url, timeout=PATIENCE_S) as client:
                await asyncio.gather(*(compare(client, url, *each) for each in expected.items()))

    def verdict(self) -> list[str]:
        """Empty: nothing failed, is unknown or wrong. Otherwise the first findings of each kind."""
        kinds = {"failed": self.failed, "unknown": self.unknown, "wrong": self.wrong}
        return [f"{len(found)} {kind}: {found[:3]}" for kind, found in kinds.items() if found]

    def told(self) -> str:
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in sorted(self.done.items()))
        return (
            f"{self.writes:,} writes ({kinds}): {len(self.failed)} failed, {len(self.unknown)} unknown, "
            f"{len(self.wrong)} wrong; {self.retried:,} definite refusals by all nodes, asked again; "
            f"the longest took {self.longest_s:.2f} s"
        )


def replace_build(cluster: Cluster, index: int, python: str) -> None:
    """Stop a node with SIGTERM, start it with another build, and wait until it is as before."""
    node = cluster[index]
    node.stop()
    node.python = python
    node.start()
    cluster.wait_until_connected()
    node.wait_until(lambda status: status.txn_state == "open", "ordering transactions")
