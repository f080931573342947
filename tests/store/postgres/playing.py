"""Databases on an event loop, for tests that are coroutines: `@played` runs one, `ask` waits for a callback."""

import asyncio
import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, ParamSpec

import asyncpg
from msgspec import Struct

from epoxy.store.postgres.asyncpg_database import AsyncpgDatabase, open_database
from epoxy.store.shared.database import ExecutedBatch, GroupCommit, Verdict
from epoxy.testing.postgres_server import PostgresServer

P = ParamSpec("P")

LEASE_MS = 60_000.0
"""Longer than a test."""

LIMIT_S = 60.0
"""For what comes within milliseconds, on a busy machine too."""


class Place(Struct, frozen=True):
    """Where the tables of a test are."""

    server: PostgresServer
    schema: str
    cluster: str = "a-cluster"
    replica: int = 7


def played(story: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    @functools.wraps(story)
    def test(*args: P.args, **kwargs: P.kwargs) -> None:
        asyncio.run(story(*args, **kwargs))

    return test


@asynccontextmanager
async def opened(place: Place, dsn: str | None = None) -> AsyncIterator[AsyncpgDatabase]:
    database = await open_database(
        dsn or place.server.dsn, schema=place.schema, cluster=place.cluster, replica=place.replica
    )
    try:
        yield database
    finally:
        database.close()


async def ask(method: Callable[..., None], *args: object) -> Any:
    """What a method of the database calls back with."""
    answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    method(*args, lambda *found: answer.set_result(found[0] if found else None))
    async with asyncio.timeout(LIMIT_S):
        return await answer


def asking(method: Callable[..., None], *args: object) -> asyncio.Task[Any]:
    """A story that fails leaves it behind, and is told why by its own error alone."""
    task = asyncio.create_task(ask(method, *args))
    task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
    return task


async def open_session(database: AsyncpgDatabase, lease_ms: float = LEASE_MS) -> int:
    session = await ask(database.open_session, "http://node", "1", lease_ms)
    assert isinstance(session, int)
    return session


async def committed(database: AsyncpgDatabase, batch: GroupCommit) -> ExecutedBatch:
    """Asked again until it is known."""
    async with asyncio.timeout(LIMIT_S):
        while True:
            executed: ExecutedBatch = await ask(database.commit, batch)
            if executed.verdict is not Verdict.UNKNOWN:
                return executed


async def everything(database: AsyncpgDatabase) -> dict[bytes, bytes]:
    return dict(await asyncio.to_thread(database.read_range, b"", b"\xff", 100_000, False, flush=True))


@asynccontextmanager
async def by_hand(place: Place) -> AsyncIterator[Any]:
    """A session of the server whose transactions are steered statement by statement."""
    connection = await asyncpg.connect(place.server.dsn, server_settings={"search_path": place.schema})
    try:
        yield connection
    finally:
        connection.terminate()


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(LIMIT_S):
        while not await condition():
            await asyncio.sleep(0.005)


WAITING = """
SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name LIKE 'epoxy %'
"""


async def until_waiting(hand: Any, sessions: int = 1) -> None:
    """Until so many sessions of databases wait for a lock. The server shows what is, not what a snapshot saw."""

    async def waiting() -> bool:
        await hand.execute("SELECT pg_stat_clear_snapshot()")
        return bool(await hand.fetchval(WAITING) == sessions)

    await until(waiting)
