"""The server beside the agent, kept as it was ordered to be, and watched."""

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from epoxy.agent import redis
from epoxy.agent.connection import ServerConnection, ServerGone, connect
from epoxy.agent.redis import Reply, ServerError
from epoxy.agent.settings import AgentSettings
from epoxy.agent.watchdog import PASSWORD, clock_ms
from epoxy.protocol.elect.orders import is_done
from epoxy.protocol.elect.terms import Fence, Follow, Mode, OpenServer, Order, Quiesce, ServerReport

LOGGER = logging.getLogger("epoxy")

STOP_S = 2.0
"""A server that answers is fenced in milliseconds."""

RESTART_S = 0.1
"""Before another guard is started: one that cannot live must not take the whole machine with it."""

BEATS_UNANSWERED = 2
"""After so many heartbeats without an answer the server is taken for hung."""


class ServerProcess(Struct, frozen=True):
    """A process of this machine, and no other that was given its number later."""

    pid: int
    name: str
    started: str


def identify(pid: int) -> ServerProcess | None:
    """None if there is no such process here, or it is no server: a container counts its processes differently."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    name = stat[stat.find("(") + 1 : stat.rfind(")")]
    started = stat[stat.rfind(")") + 1 :].split()[19]
    return ServerProcess(pid, name, started) if name.startswith(("redis", "valkey")) else None


class Guarded:
    """The guard process, and what it was told last."""

    def __init__(self, settings: AgentSettings) -> None:
        self._settings = settings
        self._process: asyncio.subprocess.Process | None = None
        self._told_ms = 0

    async def run(self) -> None:
        """For ever: one that has died is replaced."""
        while True:
            process = await self._start()
            await process.wait()
            LOGGER.warning("the guard has ended; starting another", extra={"status": process.returncode})
            await asyncio.sleep(RESTART_S)

    async def _start(self) -> asyncio.subprocess.Process:
        server = self._settings.server
        environ = {**os.environ, PASSWORD: self._settings.password}
        arguments = [server.host, str(server.port), self._settings.user]
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "epoxy.agent.watchdog",
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            start_new_session=True,
            env=environ,
        )
        self._process, self._told_ms = process, 0
        return process

    @property
    def is_there(self) -> bool:
        """Whether it can still be told something: the end of its pipe is noticed before its own, or after it."""
        process = self._process
        if process is None or process.returncode is not None:
            return False
        return process.stdin is not None and not process.stdin.is_closing()

    def tell(self, until_ms: int) -> None:
        """0: the server is closed."""
        if until_ms != self._told_ms and self.is_there:
            assert self._process is not None
            assert self._process.stdin is not None
            self._told_ms = until_ms
            self._process.stdin.write(b"%d\n" % until_ms)

    async def stop(self) -> None:
        """It closes what is open and ends. If the server does not answer it tries on, and is not waited for."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(STOP_S):
                    await self._process.wait()


class Plane:
    """Looks at the server in every heartbeat and whenever something changes, and tells `changed` what it saw.

    Invariants: 1. the guard knows a deadline before the server is opened. 2. a server just connected to is given the
    order in force before anything else."""

    def __init__(self, settings: AgentSettings, changed: Callable[[ServerReport], None]) -> None:
        self.order: Order = Fence()
        self.report = ServerReport(alive=False, mode=Mode.OPEN)
        self.guard = Guarded(settings)
        self.config = settings.config
        """With all nodes that are counted, which may change while the agent runs."""
        self._settings = settings
        self._changed = changed
        self._connection: ServerConnection | None = None
        self._run_id = ""
        self._process: ServerProcess | None = None
        self._opened_until_ms = 0
        self._news = asyncio.Event()

    async def run(self) -> None:
        """For ever: connect, watch, and say so when the server is gone. After a loss the next try is made at once: a
        server that refuses is gone for certain, and the sooner that is known the better."""
        while True:
            try:
                connection = await self._connect()
            except (ServerGone, TimeoutError) as gone:
                refused = isinstance(gone, ServerGone) and gone.refused
                self._tell(ServerReport(alive=False, mode=Mode.FENCED if refused else Mode.OPEN))
                await asyncio.sleep(self._beat_s)
                continue
            with contextlib.suppress(ServerGone):
                await self._watch(connection)

    @property
    def _beat_s(self) -> float:
        return self._settings.config.timing.hb_interval_ms / 1000

    async def _connect(self) -> ServerConnection:
        """The same server again, or another process in its place, which has lost what it was."""
        settings = self._settings
        connection = await connect(settings.server, settings.user, settings.password)
        try:
            async with asyncio.timeout(self._beat_s * BEATS_UNANSWERED):
                (info,) = await connection.ask(("INFO", "server"))
        except (ServerGone, TimeoutError):
            connection.close()
            raise
        facts = redis.read_info(info)
        if self._run_id and facts.get("run_id") != self._run_id:
            self._tell(ServerReport(alive=False, mode=Mode.FENCED))
        self._run_id = facts.get("run_id", "")
        self._process = identify(redis.number(facts, "process_id"))
        self._connection = connection
        return connection

    async def _watch(self, connection: ServerConnection) -> None:
        try:
            self._send(self.order)
            connection.lost.add_done_callback(lambda _: self.look())
            while connection.is_open:
                self._news.clear()
                await self._look(connection)
                await self._news.wait()
        finally:
            self._connection = None
            connection.close()

    def look(self) -> None:
        """To be called with every heartbeat."""
        self._news.set()

    async def _look(self, connection: ServerConnection) -> None:
        """A server that is slow to answer is reported as it is, and the answer is still waited for. Whether writes were
        held back is asked before: what the answer shows is from then or later."""
        quiet = isinstance(self.order, Quiesce)
        answers = connection.send(*redis.LOOK)
        while not answers[-1].done():
            await asyncio.wait(answers[-1:], timeout=self._beat_s * BEATS_UNANSWERED)
            if not answers[-1].done():
                self._tell(ServerReport(alive=False, mode=Mode.OPEN))
                self._kill_if_hung()
        replies = [answer.result() for answer in answers]
        self._tell(redis.read_report(replies, self.config, quiet=quiet))

    def _tell(self, report: ServerReport) -> None:
        self.report = report
        self._changed(report)

    # Orders

    def obey(self, order: Order) -> None:
        """A lease that only goes on is the guard's business alone, as long as the server is what it should be."""
        before, self.order = self.order, order
        if isinstance(order, OpenServer | Quiesce):
            self._opened_until_ms = order.until_ms
            self.guard.tell(order.until_ms)
        if not (isinstance(before, OpenServer) and is_done(order, self.report)):
            self._send(order)

    def _send(self, order: Order) -> None:
        """Behind whatever was sent before, on the same connection. What is closed stays closed if the guard is not
        there to close it again."""
        late = isinstance(order, OpenServer | Quiesce) and (order.until_ms <= clock_ms() or not self.guard.is_there)
        if self._connection is None or late:
            return
        commands = redis.commands_for(order, self.config, clock_ms())
        try:
            futures = self._connection.send(*commands)
        except ServerGone:
            self._connection.close()
            return
        asyncio.ensure_future(self._confirm(order, commands, futures))  # noqa: RUF006

    async def _confirm(
        self, order: Order, commands: tuple[redis.Command, ...], futures: "list[asyncio.Future[Reply]]"
    ) -> None:
        replies = await asyncio.gather(*futures, return_exceptions=True)
        for command, reply in zip(commands, replies, strict=True):
            if isinstance(reply, ServerError):
                LOGGER.warning("the server refused", extra={"command": str(command[0]), "reason": str(reply)})
        if isinstance(order, Fence | Follow) and not isinstance(replies[0], Exception):
            self._opened_until_ms = 0
            self.guard.tell(0)
        if self._connection is not None and self._connection.is_open:
            with contextlib.suppress(ServerGone):
                await self._look(self._connection)

    def _kill_if_hung(self) -> None:
        """Only where the operator said so: a server that is stopped and woken serves what has piled up before it hears
        of anything."""
        if not self._settings.kill_hung or not 0 < self._opened_until_ms <= clock_ms() or self._process is None:
            return
        if identify(self._process.pid) == self._process:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(self._process.pid, signal.SIGKILL)
                LOGGER.warning("killed a server that did not answer", extra={"pid": self._process.pid})
        self._process = None

    async def close(self) -> None:
        """The server is fenced by the guard if it was open, and left as it is if it follows somebody."""
        if self._connection is not None:
            self._connection.close()
        await self.guard.stop()
