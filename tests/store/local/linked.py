"""The database of a first process, and another process's way to it, in one event loop.

Blocking reads of the other process run in a thread here, as they would stop the loop that answers them."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import Struct

from epoxy.model.errors import StoreFailed
from epoxy.runtime.clock import LoopClock
from epoxy.store.embedded.store import EmbeddedStore
from epoxy.store.local.database_client import DatabaseClient, open_client
from epoxy.store.local.database_messages import Order
from epoxy.store.local.database_server import DatabaseServer
from epoxy.store.local.local_database import LocalDatabase
from tests.store.hand import FAST
from tests.store.local.local_bench import AnyLayout
from tests.store.postgres.playing import LIMIT_S


class Linked(Struct):
    store: EmbeddedStore
    database: LocalDatabase
    server: DatabaseServer
    client: DatabaseClient
    sockets: tuple[socket.socket, ...]
    lost: list[str]
    orders: list[Order]


@asynccontextmanager
async def local_database() -> AsyncIterator[tuple[EmbeddedStore, LocalDatabase]]:
    loop, failures = asyncio.get_running_loop(), list[StoreFailed]()
    with TemporaryDirectory(dir=FAST) as folder:
        store = EmbeddedStore(
            Path(folder), post=loop.call_soon_threadsafe, schedule=loop.call_soon, on_failure=failures.append
        )
        try:
            now_ms = LoopClock(loop).now_ms
            yield store, LocalDatabase(store, AnyLayout(), now_ms=now_ms, schedule=loop.call_soon)
        finally:
            store.close()
            assert failures == []


@asynccontextmanager
async def linked() -> AsyncIterator[Linked]:
    async with local_database() as (store, database):
        lost: list[str] = []
        orders: list[Order] = []
        server = DatabaseServer(database, lambda: lost.append("server"))
        ours, theirs = zip(socket.socketpair(), socket.socketpair(), strict=True)
        for each in ours:
            await server.accept(each)
        client = await open_client(*theirs, lost=lambda: lost.append("client"), ordered=orders.append)
        try:
            yield Linked(store, database, server, client, theirs, lost, orders)
        finally:
            client.close()
            server.end()
            await asyncio.sleep(0)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(LIMIT_S):
        while not condition():
            await asyncio.sleep(0.002)
