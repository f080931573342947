"""The other processes of a node: started, supervised and ended by the first.

A child executes the program anew with the same arguments. Its place is in a variable of its environment, and it
inherits two sockets to the first process, which no other program can connect to and which end with either of the two.
"""

import asyncio
import os
import socket
import sys
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Callable, Mapping
from contextlib import suppress

import msgspec
from msgspec import Struct

from epoxy.node.process.config import Settings
from epoxy.node.process.logs import LOGGER
from epoxy.store.local.database_messages import Order
from epoxy.store.local.database_server import DatabaseServer
from epoxy.store.local.local_database import LocalDatabase

VARIABLE = "EPOXY_PROCESS"

BACKOFF_S, LONGEST_BACKOFF_S = 0.2, 10.0
"""Before a child that has ended is started again: doubled each time, so that one that cannot start is tried six times
a minute."""

STEADY_S = 30.0
"""A child that has lived as long did not fail by its start."""

STOP_S = 30.0
"""For a child to hand over its shards and to answer its clients: three times what it waits for clients."""


class ChildPlace(Struct, frozen=True):
    """`asking`, `waiting`: its sockets, of the event loop and of reads that block. `cluster`: the id that the data
    directory has."""

    number: int
    asking: int
    waiting: int
    cluster: str


def place_of(environ: Mapping[str, str]) -> ChildPlace | None:
    """None: this is the first process."""
    given = environ.get(VARIABLE)
    return msgspec.json.decode(given, type=ChildPlace) if given is not None else None


class ChildProcesses:
    """`lost` is called when one of them has ended, and its shards are free."""

    def __init__(self, settings: Settings, database: LocalDatabase, lost: Callable[[], None]) -> None:
        self._settings = settings
        self._database = database
        self._lost = lost
        self._servers: dict[int, DatabaseServer] = {}
        self._processes: dict[int, Process] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._over = asyncio.Event()
        self.restarts = 0

    @property
    def pids(self) -> list[int]:
        return [process.pid for process in self._processes.values()]

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._keep(number)) for number in range(2, self._settings.node.processes + 1)]

    def reload(self) -> None:
        self._order(Order.RELOAD)

    async def stop(self, hurry: asyncio.Event) -> None:
        """In order. Those that do not end by themselves are killed."""
        self._over.set()
        self._order(Order.END)
        ended = asyncio.gather(*self._tasks, return_exceptions=True)
        hurried = asyncio.ensure_future(hurry.wait())
        done, _ = await asyncio.wait((ended, hurried), timeout=STOP_S, return_when=asyncio.FIRST_COMPLETED)
        if ended not in done:
            self._order(Order.HURRY)
            await asyncio.wait((ended,), timeout=STOP_S)
        hurried.cancel()
        self.kill()
        await ended

    def kill(self) -> None:
        self._over.set()
        for process in self._processes.values():
            process.kill()

    def _order(self, order: Order) -> None:
        for server in tuple(self._servers.values()):
            server.order(order)

    async def _keep(self, number: int) -> None:
        """Until the first process stops."""
        loop, failures = asyncio.get_running_loop(), 0
        while not self._over.is_set():
            begun_s = loop.time()
            status = await self._run(number)
            if self._over.is_set():
                return
            failures = 1 if loop.time() - begun_s > STEADY_S else failures + 1
            pause_s = min(BACKOFF_S * 2 ** (failures - 1), LONGEST_BACKOFF_S)
            facts = {"number": number, "status": status, "again_s": pause_s}
            LOGGER.warning("a process of this node has ended", extra=facts)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._over.wait(), pause_s)
            self.restarts += 1

    async def _run(self, number: int) -> int:
        ours, theirs = zip(socket.socketpair(), socket.socketpair(), strict=True)
        server = DatabaseServer(self._database, self._lost)
        try:
            for each in ours:
                await server.accept(each)
            process = await self._spawn(number, theirs)
        finally:
            for each in theirs:
                each.close()
        self._servers[number], self._processes[number] = server, process
        if self._over.is_set():
            server.order(Order.END)
        try:
            return await process.wait()
        finally:
            del self._servers[number], self._processes[number]
            server.end()

    async def _spawn(self, number: int, sockets: tuple[socket.socket, ...]) -> Process:
        asking, waiting = (each.fileno() for each in sockets)
        place = ChildPlace(number, asking, waiting, self._settings.cluster.id)
        return await asyncio.create_subprocess_exec(
            sys.executable,
            *sys.orig_argv[1:],
            env={**os.environ, VARIABLE: msgspec.json.encode(place).decode()},
            pass_fds=(asking, waiting),
            stdin=DEVNULL,
        )
