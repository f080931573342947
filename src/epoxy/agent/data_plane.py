"""Keeps the server beside the agent as ordered, and observes it."""

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
from epoxy.agent.watchdog import PASSWORD_VARIABLE, clock_ms
from epoxy.protocol.elect.orders import is_done
from epoxy.protocol.elect.terms import Fence, Follow, Mode, OpenServer, Order, Quiesce, ServerReport

LOGGER = logging.getLogger("epoxy")

STOP_S = 2.0
"""A server that answers is fenced in milliseconds."""

RESTART_S = 0.1
"""Before another watchdog is started: one that ends at once must not be restarted in a tight loop."""

MAX_UNANSWERED_BEATS = 2
"""After this many heartbeat intervals without a reply the server counts as hung."""


class ServerProcess(Struct, frozen=True):
    """A process of this machine; name and start time tell it from a later one with the same pid."""

    pid: int
    name: str
    started: str


def identify(pid: int) -> ServerProcess | None:
    """None if there is no such process, or it is not a server: a container may number its processes differently."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    name = stat[stat.find("(") + 1 : stat.rfind(")")]
    started = stat[stat.rfind(")") + 1 :].split()[19]
    return ServerProcess(pid, name, started) if name.startswith(("redis", "valkey")) else None


class WatchdogProcess:
    """The watchdog process and the deadline it was sent last."""

    def __init__(self, settings: AgentSettings) -> None:
        self._settings = settings
        self._process: asyncio.subprocess.Process | None = None
        self._sent_ms = 0

    async def run(self) -> None:
        """For ever: a watchdog that ends is replaced."""
        while True:
            process = await self._start()
            await process.wait()
            LOGGER.warning("the watchdog has ended; starting another", extra={"status": process.returncode})
            await asyncio.sleep(RESTART_S)

    async def _start(self) -> asyncio.subprocess.Process:
        server = self._settings.server
        environ = {**os.environ, PASSWORD_VARIABLE: self._settings.password}
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
        self._process, self._sent_ms = process, 0
        return process

    @property
    def is_running(self) -> bool:
        """Whether a deadline can be sent to it: either its exit or the end of its pipe may be noticed first."""
        process = self._process
        if process is None or process.returncode is not None:
            return False
        return process.stdin is not None and not process.stdin.is_closing()

    def send_deadline(self, until_ms: int) -> None:
        """0: the server is closed."""
        if until_ms != self._sent_ms and self.is_running:
            assert self._process is not None
            assert self._process.stdin is not None
            self._sent_ms = until_ms
            self._process.stdin.write(b"%d\n" % until_ms)

    async def stop(self) -> None:
        """Closing the pipe makes it fence an open server and end. If the server does not answer, it keeps trying after
        this returns."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(STOP_S):
                    await self._process.wait()


class DataPlane:
    """Observes the server with every heartbeat and after every order, and reports to `changed`.

    Invariants: 1. the watchdog has a deadline before the server is opened. 2. a newly connected server is sent the
    current order before anything else.
    """

    def __init__(self, settings: AgentSettings, changed: Callable[[ServerReport], None]) -> None:
        self.order: Order = Fence()
        self.report = ServerReport(alive=False, mode=Mode.OPEN)
        self.watchdog = WatchdogProcess(settings)
        self.config = settings.config
        """With all nodes that are counted; these may change while the agent runs."""
        self._settings = settings
        self._changed = changed
        self._connection: ServerConnection | None = None
        self._run_id = ""
        self._process: ServerProcess | None = None
        self._opened_until_ms = 0
        self._wake = asyncio.Event()

    async def run(self) -> None:
        """For ever: connect, observe, and report when the server is gone. After a loss it reconnects at once: a server
        that refuses is certainly gone, and the elector should know that soon."""
        while True:
            try:
                connection = await self._connect()
            except (ServerGone, TimeoutError) as gone:
                refused = isinstance(gone, ServerGone) and gone.refused
                self._report(ServerReport(alive=False, mode=Mode.FENCED if refused else Mode.OPEN))
                await asyncio.sleep(self._beat_s)
                continue
            with contextlib.suppress(ServerGone):
                await self._watch(connection)

    @property
    def _beat_s(self) -> float:
        return self._settings.config.timing.hb_interval_ms / 1000

    async def _connect(self) -> ServerConnection:
        """To the same server again, or to another process in its place, which has lost its mode."""
        settings = self._settings
        connection = await connect(settings.server, settings.user, settings.password)
        try:
            async with asyncio.timeout(self._beat_s * MAX_UNANSWERED_BEATS):
                (info,) = await connection.ask(("INFO", "server"))
        except (ServerGone, TimeoutError):
            connection.close()
            raise
        facts = redis.read_info(info)
        if self._run_id and facts.get("run_id") != self._run_id:
            self._report(ServerReport(alive=False, mode=Mode.FENCED))
        self._run_id = facts.get("run_id", "")
        self._process = identify(redis.number(facts, "process_id"))
        self._connection = connection
        return connection

    async def _watch(self, connection: ServerConnection) -> None:
        try:
            self._send(self.order)
            connection.lost.add_done_callback(lambda _: self.look())
            while connection.is_open:
                self._wake.clear()
                await self._look(connection)
                await self._wake.wait()
        finally:
            self._connection = None
            connection.close()

    def look(self) -> None:
        """Observe the server now. Called with every heartbeat."""
        self._wake.set()

    async def _look(self, connection: ServerConnection) -> None:
        """A server that is slow to answer is reported as not alive, and the reply is still awaited. Whether writes are
        held back is read before the commands are sent: the reply shows the state of then or later."""
        quiet = isinstance(self.order, Quiesce)
        answers = connection.send(*redis.OBSERVE)
        while not answers[-1].done():
            await asyncio.wait(answers[-1:], timeout=self._beat_s * MAX_UNANSWERED_BEATS)
            if not answers[-1].done():
                self._report(ServerReport(alive=False, mode=Mode.OPEN))
                self._kill_if_hung()
        replies = [answer.result() for answer in answers]
        self._report(redis.read_report(replies, self.config, quiet=quiet))

    def _report(self, report: ServerReport) -> None:
        self.report = report
        self._changed(report)

    # Orders

    def obey(self, order: Order) -> None:
        """A prolonged lease goes to the watchdog only, as long as the server is as ordered."""
        before, self.order = self.order, order
        if isinstance(order, OpenServer | Quiesce):
            self._opened_until_ms = order.until_ms
            self.watchdog.send_deadline(order.until_ms)
        if not (isinstance(before, OpenServer) and is_done(order, self.report)):
            self._send(order)

    def _send(self, order: Order) -> None:
        """On the same connection as all earlier commands, so they are carried out in order. Without a watchdog, which
        would close it again, a server is not opened."""
        if self._connection is None:
            return
        if isinstance(order, OpenServer | Quiesce) and (order.until_ms <= clock_ms() or not self.watchdog.is_running):
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
            self.watchdog.send_deadline(0)
        if self._connection is not None and self._connection.is_open:
            with contextlib.suppress(ServerGone):
                await self._look(self._connection)

    def _kill_if_hung(self) -> None:
        """Only if `server.kill_hung` is set. A server that was stopped and is continued first serves the commands in
        its sockets before it reads the order to close."""
        if not self._settings.kill_hung or not 0 < self._opened_until_ms <= clock_ms() or self._process is None:
            return
        if identify(self._process.pid) == self._process:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(self._process.pid, signal.SIGKILL)
                LOGGER.warning("killed a server that did not answer", extra={"pid": self._process.pid})
        self._process = None

    async def close(self) -> None:
        """The watchdog fences an open server; one that follows stays as it is."""
        if self._connection is not None:
            self._connection.close()
        await self.watchdog.stop()
