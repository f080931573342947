"""The database of the PostgreSQL store in production, over asyncpg."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, TypeVar

from epoxy.model.errors import StoreError
from epoxy.ports import KeyValue, StoreCut
from epoxy.store.postgres import migration, statements
from epoxy.store.postgres.blocking_reads import BlockingReads
from epoxy.store.postgres.database_connection import (
    LEASE_BACKOFF_S,
    DatabaseAddress,
    DatabaseConnection,
    Work,
    connect,
)
from epoxy.store.postgres.database_cut import MAX_CUTS, DatabaseCut
from epoxy.store.shared.database import ExecutedBatch, GroupCommit, Reached, SessionRow, ShardTable, Verdict

T = TypeVar("T")

LOAD_KEYS = 1024
"""In one query. A load of more is several, so that none of them outlasts the limit of a statement."""

LOAD_ROWS = 256
"""In one page of a shard: 256 MiB of the largest values."""

OPEN_ATTEMPTS = 16
"""Each that fails means that another process opened a session in the same moment."""

CLOSE_ATTEMPTS = 3
"""A session that could not be closed ends with its lease."""


async def open_database(dsn: str, *, schema: str, cluster: str, replica: int) -> "AsyncpgDatabase":
    """The tables are made if there are none. Those of an older format are migrated. Raises StoreUnavailable, with
    TablesInUse while nodes use the older format, and StoreRefused if this replica may not write to the database."""
    address = DatabaseAddress(dsn=dsn, schema=schema, cluster=cluster, replica=replica)
    first = await connect(address, "tables", make_tables=True)
    await first.close(timeout=1.0)
    return AsyncpgDatabase(address)


class AsyncpgDatabase:
    """Batches, flushes, loads, fence queries and leases have a connection each, so that they do not wait for each
    other: a batch or a fence query must not wait for a flush that waits for the disk, nor a lease for any."""

    def __init__(self, address: DatabaseAddress) -> None:
        self._address = address
        self._loop = asyncio.get_running_loop()
        self._batches = DatabaseConnection(address, "batches")
        self._flushes = DatabaseConnection(address, "flushes")
        self._loads = DatabaseConnection(address, "loads")
        self._fences = DatabaseConnection(address, "fences")
        self._leases = DatabaseConnection(address, "leases", LEASE_BACKOFF_S)
        self._reads = BlockingReads(address)
        self._cuts: set[DatabaseCut] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    @property
    def under_way(self) -> int:
        """Calls that are not answered."""
        return len(self._tasks)

    # Rows

    def commit(self, batch: GroupCommit, done: Callable[[ExecutedBatch], None]) -> None:
        arguments = self._arguments(batch)

        async def work(connection: Any) -> ExecutedBatch:
            found = await connection.fetchrow(statements.COMMIT, *arguments)
            if found is not None:
                return ExecutedBatch(Verdict.DONE, batch.number, found[0])
            return await self._confirm(connection, batch)

        self._ask(self._batches, work, done, ExecutedBatch(verdict=Verdict.UNKNOWN))

    async def _confirm(self, connection: Any, batch: GroupCommit) -> ExecutedBatch:
        """Why a batch did nothing."""
        found = await connection.fetchrow(statements.FLUSH, batch.session, self._address.replica)
        if found is None or found["fenced"]:
            return ExecutedBatch(verdict=Verdict.FENCED)
        number = found["batch"]
        if number >= batch.number:
            return ExecutedBatch(Verdict.DONE, number, found["sequence"])
        if number < batch.number - 1:
            return ExecutedBatch(Verdict.LOST, number)
        return ExecutedBatch(
            Verdict.STALE_CONFIG if found["config_epoch"] > batch.config_epoch else Verdict.UNKNOWN, number
        )

    def flush(self, session: int, config_epoch: int, done: Callable[[Reached], None]) -> None:
        async def work(connection: Any) -> Reached:
            found = await connection.fetchrow(statements.FLUSH, session, self._address.replica)
            if found is None or found["fenced"]:
                return Reached(verdict=Verdict.FENCED)
            verdict = Verdict.STALE_CONFIG if found["config_epoch"] > config_epoch else Verdict.DONE
            stamp, position, size = found["newest_stamp"], found["position"], found["stamped_bytes"]
            return Reached(verdict, stamp, position, size, found["batch"])

        self._ask(self._flushes, work, done, Reached(verdict=Verdict.UNKNOWN))

    def _arguments(self, batch: GroupCommit) -> list[object]:
        stamped = [
            (number, index, *row) for number, commit in enumerate(batch.stamped, 1) for index, row in enumerate(commit)
        ]
        return [
            batch.session,
            batch.number,
            batch.config_epoch,
            len(batch.stamped),
            int(batch.counts),
            batch.next_config_epoch,
            self._address.replica,
            batch.deleted,
            *([row[column] for row in batch.rows] for column in range(3)),
            *([row[column] for row in stamped] for column in range(5)),
        ]

    def fence(self, session: int, config_epoch: int, done: Callable[[Verdict], None]) -> None:
        async def work(connection: Any) -> Verdict:
            known = await connection.fetchval(statements.FENCE, session, config_epoch, self._address.replica)
            if known is None:
                return Verdict.FENCED
            return Verdict.DONE if known else Verdict.STALE_CONFIG

        self._ask(self._fences, work, done, Verdict.UNKNOWN)

    def load(self, keys: Sequence[bytes], done: Callable[[dict[bytes, bytes] | None], None]) -> None:
        self._ask(self._loads, _load(keys), done, None)

    def load_shard(self, shard: int, done: Callable[[dict[bytes, bytes] | None], None]) -> None:
        statement = statements.LOAD_SHARD.format(shard=shard)

        async def page(connection: Any, *, after: bytes) -> list[KeyValue]:
            return [(row[0], row[1]) for row in await connection.fetch(statement, after, LOAD_ROWS)]

        async def pages() -> dict[bytes, bytes] | None:
            """Each page has a time limit, however many there are."""
            found: dict[bytes, bytes] = {}
            last = b""
            while True:
                try:
                    rows = await self._loads.run(partial(page, after=last))
                except StoreError:
                    return None
                found.update(rows)
                if len(rows) < LOAD_ROWS:
                    return found
                last = rows[-1][0]

        self._start(pages, done)

    # Sessions and their shards

    def open_session(self, url: str, version: str, lease_ms: float, done: Callable[[int | None], None]) -> None:
        async def work(connection: Any) -> int | None:
            for _ in range(OPEN_ATTEMPTS):
                session: int | None = await connection.fetchval(
                    statements.OPEN_SESSION, url, version, lease_ms, migration.FORMAT
                )
                if session is not None:
                    await connection.execute(statements.FORGET_SESSIONS, session)
                    return session
            return None

        self._ask(self._leases, work, done, None)

    def renew(self, session: int, lease_ms: float, done: Callable[[ShardTable | None], None]) -> None:
        async def work(connection: Any) -> ShardTable:
            await connection.execute(statements.RENEW, session, lease_ms)
            return _table(await connection.fetchrow(statements.TABLE))

        self._ask(self._leases, work, done, None)

    def take(
        self, session: int, shards: Sequence[int], dead: Sequence[int], done: Callable[[Sequence[int] | None], None]
    ) -> None:
        async def work(connection: Any) -> Sequence[int]:
            async with connection.transaction():
                if await connection.fetchrow(statements.TAKER, session) is None:
                    return ()
                await connection.execute(statements.FENCE_DEAD, list(dead), session)
                await connection.execute(statements.LOCK_SHARDS, list(shards))
                return sorted(row[0] for row in await connection.fetch(statements.TAKE, session, list(shards)))

        self._ask(self._leases, work, done, None)

    def give(self, session: int, shard: int, epoch: int, to: int, done: Callable[[bool | None], None]) -> None:
        async def work(connection: Any) -> bool:
            return await connection.fetchval(statements.GIVE, session, shard, epoch, to) is not None

        self._ask(self._leases, work, done, None)

    def close_session(self, session: int, done: Callable[[], None]) -> None:
        async def attempts() -> None:
            for _ in range(CLOSE_ATTEMPTS):
                try:
                    await self._leases.run(lambda connection: connection.execute(statements.CLOSE_SESSION, session))
                except StoreError:
                    continue
                return

        self._start(attempts, lambda _: done())

    # Reads that the caller waits for

    def read_rows(self, keys: Sequence[bytes], *, flush: bool) -> dict[bytes, bytes]:
        return self._reads.run(_read(_load(keys), flush=flush))

    def read_range(self, begin: bytes, end: bytes, limit: int, reverse: bool, *, flush: bool) -> Sequence[KeyValue]:
        statement = statements.REVERSE_RANGE if reverse else statements.RANGE
        found = self._reads.run(_read(lambda connection: connection.fetch(statement, begin, end, limit), flush=flush))
        return [(row[0], row[1]) for row in found]

    def position(self) -> tuple[int, int]:
        replica = self._address.replica
        found = self._reads.run(_read(lambda connection: connection.fetchrow(statements.POSITION, replica), flush=True))
        return found[0], found[1]

    def cut(self, done: Callable[[StoreCut | None], None]) -> None:
        if self._closed or len(self._cuts) >= MAX_CUTS:
            self._loop.call_soon(done, None)
            return
        self._cuts.add(DatabaseCut(self._address, self._post, done, self._cuts.discard))

    def close(self) -> None:
        """Nothing is called back any more."""
        self._closed = True
        for task in self._tasks:
            task.cancel()
        for connection in (self._batches, self._flushes, self._loads, self._fences, self._leases):
            connection.close()
        for cut in self._cuts:
            cut.close()
        self._reads.close()

    # Inside

    def _ask(self, connection: DatabaseConnection, work: Work[T], done: Callable[[T], None], lost: T) -> None:
        async def asked() -> T:
            try:
                return await connection.run(work)
            except StoreError:
                return lost

        self._start(asked, done)

    def _start(self, work: Callable[[], Coroutine[Any, Any, T]], done: Callable[[T], None]) -> None:
        async def run() -> None:
            result = await work()
            if not self._closed:
                done(result)

        task = self._loop.create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _post(self, call: Callable[[], None]) -> None:
        """From another thread."""
        if not self._closed:
            self._loop.call_soon_threadsafe(lambda: None if self._closed else call())


def _load(keys: Sequence[bytes]) -> Work[dict[bytes, bytes]]:
    async def work(connection: Any) -> dict[bytes, bytes]:
        found: dict[bytes, bytes] = {}
        for start in range(0, len(keys), LOAD_KEYS):
            found.update(await connection.fetch(statements.LOAD, keys[start : start + LOAD_KEYS]))
        return found

    return work


def _read(work: Work[T], *, flush: bool) -> Work[T]:
    """On the connection that has read: another one may lead to another server."""

    async def flushed(connection: Any) -> T:
        found = await work(connection)
        await connection.execute(statements.FLUSH_LOG)
        return found

    return flushed if flush else work


def _table(row: Any) -> ShardTable:
    sessions = [
        SessionRow(id=session, url=url, version=version, left_ms=left_ms, fenced=False)
        for session, url, version, left_ms in zip(row["ids"], row["urls"], row["versions"], row["left_ms"], strict=True)
    ]
    return ShardTable(sessions=sessions, owners=row["owners"], epochs=row["epochs"])
