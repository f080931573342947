"""A cut: one snapshot of the database that stays open, in a thread with a connection of its own.

REPEATABLE READ shows every transaction whole or not at all. Batches that a crash can still undo may be among them, so
the snapshot is first taken by a transaction that ends with a flush, and that hands it on: at the same server, whatever
happens, and everything that it shows is durable before it is used.

It is the server that keeps what was overwritten since, for all tables. Among that are the versions of the two rows that
every batch changes, which later batches walk through: after 16,000 of them a batch costs the server three times as
much, until the cut is closed. So it is closed as soon as it was read.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeVar

from epoxy.model.errors import StoreError, StoreUnavailable
from epoxy.ports import KeyValue, Snapshot
from epoxy.store.postgres.database_connection import LOST, STATEMENT_S, DatabaseAddress, connect, described
from epoxy.store.postgres.statements import FLUSH_LOG, RANGE, REVERSE_RANGE

T = TypeVar("T")

MAX_CUTS = 8
"""Threads and connections. A node makes one backup at a time, and inspects a few things beside it."""

IDLE_S = 600.0
"""A cut whose reader stays away is ended by the server: it must not keep old rows for ever."""

BEGIN_FLUSH = "BEGIN ISOLATION LEVEL REPEATABLE READ"
EXPORT = "SELECT pg_export_snapshot()"
BEGIN = f"""
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;
SET TRANSACTION SNAPSHOT '{{snapshot}}';
SET LOCAL idle_in_transaction_session_timeout = '{IDLE_S:.0f}s';
"""
GET = 'SELECT value FROM "row" WHERE key = $1'

Post = Callable[[Callable[[], None]], object]
Job = Callable[[Snapshot], Callable[[], None]]


class CutView:
    """Read in the cut's thread alone, which waits for each answer."""

    def __init__(self, runner: asyncio.Runner, connection: Any) -> None:
        self._runner = runner
        self._connection = connection

    def get(self, key: bytes) -> bytes | None:
        found: bytes | None = self._wait(self._connection.fetchval(GET, key, timeout=STATEMENT_S))
        return found

    def range(self, begin: bytes, end: bytes, *, limit: int, reverse: bool = False) -> Sequence[KeyValue]:
        statement = REVERSE_RANGE if reverse else RANGE
        rows = self._wait(self._connection.fetch(statement, begin, end, limit, timeout=STATEMENT_S))
        return [(row[0], row[1]) for row in rows]

    def _wait(self, answer: Awaitable[T]) -> T:
        try:
            return self._runner.run(_awaited(answer))
        except LOST as error:
            raise StoreUnavailable(f"the database failed during a cut: {described(error)}") from error


async def _awaited(answer: Awaitable[T]) -> T:
    return await answer


async def _ended(connection: Any) -> None:
    """The socket is closed in the turn after this one."""
    connection.terminate()
    await asyncio.sleep(0)


class DatabaseCut:
    """`post` brings a call back to the event loop; `opened` is called there when the snapshot is taken, or with None if
    it could not be; `ended` when the thread ends."""

    def __init__(
        self,
        address: DatabaseAddress,
        post: Post,
        opened: Callable[["DatabaseCut | None"], None],
        ended: Callable[["DatabaseCut"], None],
    ) -> None:
        self._address = address
        self._post = post
        self._opened = opened
        self._ended = ended
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._closed = False
        self._thread = Thread(target=self._serve, name="epoxy-database-cut", daemon=True)
        self._thread.start()

    def read(
        self, job: Callable[[Snapshot], T], done: Callable[[T], None], failed: Callable[[Exception], None]
    ) -> None:
        if self._closed:
            failed(StoreError("the cut is closed"))
            return

        def attempt(view: Snapshot) -> Callable[[], None]:
            try:
                result = job(view)
            except Exception as error:
                reason = error
                return lambda: failed(reason)
            return lambda: done(result)

        self._jobs.put(attempt)

    def close(self) -> None:
        """A job under way ends first; those after it are run too."""
        if not self._closed:
            self._closed = True
            self._jobs.put(None)

    def _serve(self) -> None:
        with asyncio.Runner() as runner:
            try:
                connection = runner.run(self._connect())
            except (StoreError, *LOST):
                self._post(lambda: self._opened(None))
            else:
                self._post(lambda: self._opened(self))
                self._run_jobs(CutView(runner, connection))
                runner.run(_ended(connection))
        self._post(lambda: self._ended(self))

    def _run_jobs(self, view: Snapshot) -> None:
        while (job := self._jobs.get()) is not None:
            self._post(job(view))
            del job  # It holds what it read, and the next may be minutes away.

    async def _connect(self) -> Any:
        first = await connect(self._address, "cut")
        try:
            await first.execute(BEGIN_FLUSH, timeout=STATEMENT_S)
            snapshot = await first.fetchval(EXPORT, timeout=STATEMENT_S)
            connection = await connect(self._address, "cut")
            try:
                await connection.execute(BEGIN.format(snapshot=snapshot), timeout=STATEMENT_S)
                await first.execute(f"{FLUSH_LOG}; COMMIT", timeout=STATEMENT_S)
            except BaseException:
                connection.terminate()
                raise
        finally:
            await _ended(first)
        return connection
