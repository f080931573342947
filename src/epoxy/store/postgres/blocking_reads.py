"""Reads that their caller waits for: a thread with an event loop and a connection of its own."""

import asyncio
from concurrent.futures import CancelledError
from concurrent.futures import TimeoutError as NotInTime
from threading import Thread
from typing import TypeVar

from epoxy.model.errors import StoreUnavailable
from epoxy.store.postgres.database_connection import DatabaseAddress, DatabaseConnection, Work

T = TypeVar("T")

READ_S = 5.0
"""As long as an event loop may stand still: a node that is silent for longer counts as gone for its peers."""


class BlockingReads:
    def __init__(self, address: DatabaseAddress) -> None:
        self._address = address
        self._loop = asyncio.new_event_loop()
        self._connection: DatabaseConnection | None = None
        self._thread = Thread(target=self._loop.run_forever, name="epoxy-database-reads", daemon=True)
        self._thread.start()

    def run(self, work: Work[T]) -> T:
        """Raises StoreUnavailable."""
        if not self._thread.is_alive():
            raise StoreUnavailable("the database is closed")
        answer = asyncio.run_coroutine_threadsafe(self._run(work), self._loop)
        try:
            return answer.result(READ_S)
        except (NotInTime, CancelledError) as error:
            answer.cancel()
            raise StoreUnavailable(f"the database did not answer within {READ_S:g} s") from error

    async def _run(self, work: Work[T]) -> T:
        if self._connection is None:
            self._connection = DatabaseConnection(self._address, "reads")
        return await self._connection.run(work)

    def close(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._end)
            self._thread.join()
            self._loop.close()

    def _end(self) -> None:
        """Tasks under way see that they are cancelled before the loop ends, in the next turn but one."""
        if self._connection is not None:
            self._connection.close()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.call_soon(self._loop.call_soon, self._loop.stop)
