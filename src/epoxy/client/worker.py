"""A worker hosts actors: an envoy of the pool it names, in the datacenter of the node it connects to.

    worker = Worker("http://127.0.0.1:7800", pool="chat", slots=100)

    @worker.actor("chat-room")
    async def room(actor):
        async for request in actor:
            request.respond(b"hello from " + actor.key.encode())

    worker.run()

A connection that breaks is made again, and the actors go on meanwhile; but not for longer than the node would wait
before it starts them elsewhere. SIGTERM drains: the actors move to other workers first. A worker whose token is refused
before it was ever connected ends; later, it tries on, because a token may be replaced in its file. A process whose
event loop stands still for as long as a lease ends (`watchdog`).
"""

import asyncio
import contextlib
import logging
import os
import random
import signal
import socket as sockets
import ssl
import uuid
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Literal, TypeVar

from msgspec.structs import replace
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

from epoxy.client.envoy_protocol import Ended, EnvoyProtocol
from epoxy.client.hosted import Actor, ActorCode, ActorLink, ActorTask, Code, Ending
from epoxy.client.hosted.link import WorkerTimer
from epoxy.client.hosted.routing import Task
from epoxy.client.http1 import HttpResponse, parse_url
from epoxy.client.outbox import Outbox, OutboxFull
from epoxy.client.responses import fail
from epoxy.client.token import check_encrypted, token_of
from epoxy.client.watchdog import WATCHDOG, WatchedLoop, boottime_ms, end_process
from epoxy.codec.envoy_frames import FRAME_BYTES, to_envoy
from epoxy.model.actors import check_part
from epoxy.model.envoy_messages import ActorKind, EnvoyHello, FromEnvoy, Rejected, Start, ToEnvoy, Welcome
from epoxy.model.errors import AccessRefused, EpoxyError, InvalidRequest, InvalidValue

LOG = logging.getLogger("epoxy.envoy")

MAX_MESSAGE_BYTES = 2 << 20
"""The node's own limit."""

QUIET = logging.getLogger("epoxy.envoy.handshake")
QUIET.setLevel(logging.INFO)
"""The WebSocket library's own debug lines have every header in them, and so the token."""

SHORTEST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 2.0
"""Between two tries to connect: a node that restarts is back in a second or two, and many workers connect at once."""

OPEN_S = 10.0

CodeType = TypeVar("CodeType", bound=Code)


class WorkerLoopClock:
    """Monotonic time that goes on while the machine is suspended, as leases do, and the timers of the running loop."""

    def now_ms(self) -> float:
        return boottime_ms()

    def call_later(self, delay_ms: float, then: Callable[[], None]) -> WorkerTimer:
        return asyncio.get_running_loop().call_later(delay_ms / 1000, then)


class Worker:
    """`slots` is how many actors it takes (0: any number), `weight` its size beside others, `version` that of its
    code: new actors go to the highest version of a pool."""

    watched = True
    """Whether the watchdog may end this process. Off only in tests, whose process it is."""

    def __init__(
        self,
        url: str = "http://127.0.0.1:7800",
        *,
        pool: str = "default",
        namespace: str = "default",
        slots: int = 0,
        weight: int = 1,
        version: int = 1,
        key: str | None = None,
        tls: ssl.SSLContext | None = None,
        token: str | Path | None = None,
        token_over_http: bool | None = None,
    ) -> None:
        """`token`, `token_over_http`: as a `Client` takes them."""
        settings: dict[str, Any] = {name: value for name, value in locals().items() if name != "self"}
        # In a function, because the token must not be in any representation.
        self._made_with: Callable[[], dict[str, Any]] = lambda: settings
        node = parse_url(url)
        self._token = token_of(token)
        check_encrypted(self._token, [node], over_http=token_over_http)
        self._address = f"{'wss' if node.secure else 'ws'}://{node.host_header}{node.prefix}/v2/envoys/connect"
        self._tls = tls if node.secure else None
        self.key = key or f"worker-{uuid.uuid4().hex}"
        self.datacenter = ""
        self.connected = asyncio.Event()
        self._codes: dict[str, ActorCode] = {}
        self._actors: dict[str, ActorTask] = {}
        self._outbox = Outbox()
        self._left = asyncio.Event()
        self._was_welcome = self._was_refused = False
        self._watched_loop: WatchedLoop | None = None
        hello = EnvoyHello(
            namespace=namespace, pool=pool, envoy_key=self.key, version=version, weight=weight, slots=slots
        )
        self._protocol = EnvoyProtocol(hello, WorkerLoopClock(), self._begin, self._left.set)
        self._protocol.warn = LOG.warning

    def like(self, url: str | None = None, **settings: Any) -> "Worker":
        """Another worker with the same code of actors and, but for those given here, the same settings."""
        made = Worker(**(self._made_with() | ({} if url is None else {"url": url}) | settings))
        made._codes = self._codes
        return made

    @property
    def actors(self) -> list[Actor]:
        return [task.actor for task in self._actors.values()]

    def actor(
        self,
        name: str,
        *,
        sleep_after: float | None = None,
        storage: Literal["replicated", "local"] = "replicated",
    ) -> Callable[[CodeType], CodeType]:
        """Registers the code of the actors with this name: a class derived from `Actor`, or an async function.

        `sleep_after`: after so many seconds in which nothing happened an actor leaves memory and slot, until it is
        needed again. `storage`: where `actor.state` is kept: in every datacenter, or only in the actor's own, which is
        faster, and lost with it.
        """
        if sleep_after is not None and sleep_after <= 0:
            raise InvalidRequest(f"sleep_after is a number of seconds above 0, not {sleep_after}")
        if storage not in ("replicated", "local"):
            raise InvalidRequest(f"storage is 'replicated' or 'local', not {storage!r}")
        check_part("the name of an actor", name)

        def register(code: CodeType) -> CodeType:
            if isinstance(code, type) and not issubclass(code, Actor):
                raise InvalidRequest(f"{code.__name__} is not derived from epoxy.envoy.Actor")
            self._codes[name] = ActorCode(code, sleep_after, storage == "local")
            return code

        return register

    def run(self) -> None:
        """Until SIGTERM or SIGINT, and then until its actors have moved."""
        asyncio.run(self._run())

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.drain)
        await self.serve()

    def drain(self) -> None:
        """Takes nothing new; `serve` returns when the actors have moved. Asked a second time, it cancels them."""
        self._protocol.drain()

    async def serve(self) -> None:
        # Not in the constructor: a process that makes workers and forks would give its children one identity.
        process = f"{sockets.gethostname()[:64]}/{os.getpid()}/{uuid.uuid4().hex[:8]}"
        kinds = tuple(ActorKind(name=name, local=each.local) for name, each in self._codes.items())
        self._protocol.hello = replace(self._protocol.hello, incarnation=process, kinds=kinds)
        self._protocol.end_process = end_process if self.watched else LOG.error
        self._watched_loop = WATCHDOG.watch(self._protocol.lease) if self.watched else None
        try:
            async with asyncio.TaskGroup() as group:
                connecting = group.create_task(self._stay_connected())
                await self._left.wait()
                if self.connected.is_set():
                    # The writer sends the goodbye and closes the connection.
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(asyncio.shield(connecting), OPEN_S)
                connecting.cancel()
        except ExceptionGroup as group_error:
            raise group_error.exceptions[0] from None
        finally:
            for task in list(self._actors.values()):
                task.cancel()
            for task in list(self._actors.values()):
                await task.wait()
            if self._watched_loop is not None:
                self._watched_loop.end()

    async def room(self) -> None:
        """Until the node has read enough of what this worker sends: for actors, between two turns."""
        await self._outbox.room()

    # The connection

    async def _stay_connected(self) -> None:
        """Of tries that fail one after the other the first is logged as a warning, the others as information. Only a
        welcome ends such a row: a node may accept a connection and then refuse the worker. Raises AccessRefused,
        unless it was welcome before."""
        pause_s, level = SHORTEST_PAUSE_S, logging.WARNING
        while not self._protocol.departed:
            shown = self._token.value()
            reason: object = "the connection was closed"
            try:
                async with self._open() as socket:
                    reason = await self._talk(socket) or reason
            except (OSError, TimeoutError, ConnectionClosed, InvalidHandshake) as error:
                reason = refusal_of(error) or error
                if isinstance(reason, AccessRefused):
                    level = max(level, self._refused(reason, shown))
            if self.connected.is_set():
                self.connected.clear()
                pause_s, level = SHORTEST_PAUSE_S, logging.WARNING
            if not self._protocol.departed:
                LOG.log(level, "not connected to %s, trying again: %s", self._address, reason)
                level = logging.INFO
                await asyncio.sleep(pause_s * random.uniform(0.5, 1.0))
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    def _refused(self, refusal: AccessRefused, shown: str) -> int:
        """The level to log it with: a warning, the first time."""
        if not self._token.differs_from(shown) and not self._was_welcome:
            raise refusal from None
        level = logging.INFO if self._was_refused else logging.WARNING
        self._was_refused = True
        return level

    @contextlib.asynccontextmanager
    async def _open(self) -> AsyncIterator[ClientConnection]:
        async with connect(
            self._address,
            ssl=self._tls,
            proxy=None,
            compression=None,
            max_size=MAX_MESSAGE_BYTES,
            write_limit=FRAME_BYTES,
            open_timeout=OPEN_S,
            ping_interval=None,
            additional_headers={"Authorization": self._token.value()} if self._token else None,
            logger=QUIET,
        ) as socket:
            yield socket

    async def _talk(self, socket: ClientConnection) -> str | None:
        """Until the connection ends. Returns the reason, if the node gave one."""
        self._outbox = Outbox()
        self._protocol.opened(self._queue, socket.transport.abort)
        writing = asyncio.create_task(self._write(socket, self._outbox))
        reason = None
        try:
            async for frame in socket:
                text = isinstance(frame, str)
                for message in to_envoy.read(frame.encode() if isinstance(frame, str) else frame, text=text):
                    reason = message.message if isinstance(message, Rejected) else None
                    self._hear(message)
        finally:
            self._protocol.closed()
            self._outbox.close()
            writing.cancel()
        return reason

    def _hear(self, message: ToEnvoy) -> None:
        if not isinstance(message, Welcome):
            self._protocol.heard(message)
            return
        self._turn()
        self._protocol.heard(message)
        self._turn()
        self.datacenter = message.datacenter
        self.connected.set()
        self._was_welcome, self._was_refused = True, False

    def _turn(self) -> None:
        if self._watched_loop is not None:
            self._watched_loop.turn()

    def _queue(self, message: FromEnvoy) -> None:
        try:
            self._outbox.put(message)
        except OutboxFull as error:
            LOG.error("the connection is given up: %s", error)
            self._outbox.close()
            self._protocol.drop()

    async def _write(self, socket: ClientConnection, outbox: Outbox) -> None:
        with contextlib.suppress(ConnectionClosed):
            while (frame := await outbox.frame()) is not None:
                await socket.send(frame)
            await socket.close()

    # Actors

    def _begin(self, start: Start, link: ActorLink, ended: Ended) -> Task | None:
        registered = self._codes.get(start.name)
        if registered is None:
            LOG.error("no code for actors named %r; there is for: %s", start.name, ", ".join(self._codes) or "none")
            return None

        def over(ending: Ending) -> None:
            del self._actors[start.actor_id]
            ended(ending)

        try:
            task = ActorTask(registered, start, link, over, room=self.room, datacenter=self.datacenter)
        except InvalidValue as error:
            LOG.error("actor %s/%s cannot start: %s", start.name, start.key, error)
            return None
        self._actors[start.actor_id] = task
        task.begin()
        return task


def refusal_of(error: Exception) -> EpoxyError | None:
    """What a node answered in place of the upgrade, as an error of ours."""
    if not isinstance(error, InvalidStatus):
        return None
    answer = error.response
    headers = {name.lower(): value for name, value in answer.headers.raw_items()}
    try:
        fail(HttpResponse(status=answer.status_code, headers=headers, body=bytes(answer.body or b"")), writes=False)
    except EpoxyError as refusal:
        return refusal
