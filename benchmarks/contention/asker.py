"""One client of one region, over HTTP, that keeps what an answer says: version, value, error code, definite or not."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence

import msgspec
from msgspec import UNSET, Struct, UnsetType

from benchmarks.load import Connection, connect

GIVE_UP_S = 13.0
"""For one answer: a node answers within limits.request_timeout_ms, 10 s. What takes longer is "silent"."""


class Answer(Struct, frozen=True, kw_only=True):
    """`status` 0: none came. `definite`: of a failure, that nothing was written. `code` is empty for a success."""

    region: str
    began_s: float
    took_ms: float
    status: int
    version: int = 0
    value: str = ""
    code: str = ""
    definite: bool = True

    @property
    def ok(self) -> bool:
        return self.status in (200, 201)

    @property
    def ended_s(self) -> float:
        return self.began_s + self.took_ms / 1e3


class Trouble(Struct, frozen=True):
    code: str
    definite: bool = True


class Record(Struct, frozen=True):
    """What is common to the body of a success, of a conflict and of a failure."""

    version: int = 0
    value: str | None = None
    error: Trouble | UnsetType = UNSET
    committed: "Record | None" = None


records = msgspec.json.Decoder(Record)


def understood(region: str, began_s: float, took_ms: float, status: int, body: bytes) -> Answer:
    if status == 0:
        return Answer(region=region, began_s=began_s, took_ms=took_ms, status=0, code="silent", definite=False)
    record = records.decode(body) if body else Record()
    there = record.committed or record
    trouble = record.error or Trouble("")
    return Answer(
        region=region,
        began_s=began_s,
        took_ms=took_ms,
        status=status,
        version=there.version,
        value=there.value or "",
        code=trouble.code,
        definite=trouble.definite,
    )


class Asker:
    """Connects at the first request, and again after an answer that did not come."""

    def __init__(self, region: str, port: int) -> None:
        self.region = region
        self._port = port
        self._connection: Connection | None = None

    async def put(self, key: str, value: str) -> Answer:
        return await self._ask("PUT", f"/v2/kv/{key}?mode=put", value)

    async def reserve(self, key: str, value: str) -> Answer:
        return await self._ask("PUT", f"/v2/kv/{key}", value)

    async def read(self, key: str, consistency: str = "linearizable") -> Answer:
        """A key that is not there is an answer, too: status 404."""
        return await self._ask("GET", f"/v2/kv/{key}?read={consistency}", None)

    async def _ask(self, method: str, path: str, body: str | None) -> Answer:
        length = f"Content-Length: {len(body)}\r\n" if body is not None else ""
        head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: application/json\r\n{length}\r\n"
        began = time.perf_counter()
        status, answer = await self._exchange((head + (body or "")).encode())
        return understood(self.region, began, (time.perf_counter() - began) * 1e3, status, answer)

    async def connected(self) -> Connection:
        if self._connection is None:
            self._connection = await connect(self._port)
        return self._connection

    async def _exchange(self, raw: bytes) -> tuple[int, bytes]:
        try:
            status, body = await asyncio.wait_for((await self.connected()).ask(raw), GIVE_UP_S)
        except (TimeoutError, OSError):
            status, body = 0, b""
        if status == 0:
            self.close()
        return status, body

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


Make = Callable[[], Awaitable[Answer]]
"""Sends the next request."""


async def closed_loop(make: Make, until_s: float) -> list[Answer]:
    """Asks again when it is answered, until that moment of the monotonic clock."""
    found: list[Answer] = []
    while time.perf_counter() < until_s:
        found.append(await make())
        if not found[-1].ok:
            await asyncio.sleep(BACK_OFF_S)
    return found


async def paced(make: Make, a_second: float, until_s: float) -> list[Answer]:
    """So many a second whether or not the one before was answered: what is late makes nothing else late."""
    tasks: list[asyncio.Task[Answer]] = []
    due = time.perf_counter()
    while due < until_s:
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        tasks.append(asyncio.ensure_future(one(make)))
        due += 1 / a_second
    return list(await asyncio.gather(*tasks))


async def one(make: Make) -> Answer:
    return await make()


BACK_OFF_S = 0.05
"""After a failure: a refusal that comes at once would make a loop without an end."""


class Lane:
    """Clients of one region that share connections: as many as there are requests under way."""

    def __init__(self, region: str, port: int) -> None:
        self.region = region
        self._port = port
        self._idle: list[Asker] = []

    async def __call__(self, ask: Callable[[Asker], Awaitable[Answer]]) -> Answer:
        asker = self._idle.pop() if self._idle else Asker(self.region, self._port)
        try:
            return await ask(asker)
        finally:
            self._idle.append(asker)

    def close(self) -> None:
        for asker in self._idle:
            asker.close()


def failed(answers: Sequence[Answer]) -> dict[str, int]:
    """By code."""
    found: dict[str, int] = {}
    for answer in answers:
        if not answer.ok:
            word = answer.code if answer.definite else f"{answer.code}, indefinite"
            found[word] = found.get(word, 0) + 1
    return found
