"""A worker hosts actors: an envoy of the pool it names, in the datacenter of the node it connects to.

    worker = Worker("http://127.0.0.1:7800", pool="chat", slots=100)

    @worker.actor("chat-room")
    async def room(actor):
        async for request in actor:
            request.respond(b"hello from " + actor.key.encode())

    worker.run()

A connection that breaks is made again, and the actors go on meanwhile; but not for longer than the node would wait
before it starts them elsewhere. SIGTERM drains: the actors move to other workers first. A worker whose token is refused
before it was ever connected ends; later, it tries on, because a token may be replaced in its file.
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
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from time import monotonic

import msgspec
from msgspec.structs import replace
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

from epoxy.client.envoy_protocol import Ended, EnvoyProtocol, Task, WorkerTimer
from epoxy.client.hosted import Actor
from epoxy.client.http1 import HttpResponse, parse_url
from epoxy.client.responses import fail
from epoxy.client.token import check_encrypted, token_of
from epoxy.model.actors import EnvoyHello, FromEnvoy, Goodbye, Rejected, Start, ToEnvoy
from epoxy.model.errors import AccessRefused, EpoxyError

LOG = logging.getLogger("epoxy.envoy")

MAX_MESSAGE_BYTES = 2 << 20
"""The node's own limit."""

QUIET = logging.getLogger("epoxy.envoy.handshake")
QUIET.setLevel(logging.INFO)
"""The WebSocket library's own debug lines have every header in them, and so the token."""

MAX_UNSENT = 10_000
"""Messages that wait for the connection. A node that reads nothing for so long has lost this envoy anyway."""

SHORTEST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 2.0
"""Between two tries to connect: a node that restarts is back in a second or two, and many workers connect at once."""

OPEN_S = 10.0

Code = Callable[[Actor], Awaitable[None]]

encoder = msgspec.json.Encoder()
messages: msgspec.json.Decoder[ToEnvoy] = msgspec.json.Decoder(ToEnvoy)


class WorkerLoopClock:
    """Monotonic time and the timers of the running event loop."""

    def now_ms(self) -> float:
        return monotonic() * 1000

    def call_later(self, delay_ms: float, then: Callable[[], None]) -> WorkerTimer:
        return asyncio.get_running_loop().call_later(delay_ms / 1000, then)


class Worker:
    """`slots` is how many actors it takes (0: any number), `weight` its size beside others, `version` that of its
    code: new actors go to the highest version of a pool."""

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
        node = parse_url(url)
        self._token = token_of(token)
        check_encrypted(self._token, [node], over_http=token_over_http)
        self._address = f"{'wss' if node.secure else 'ws'}://{node.host_header}{node.prefix}/v2/envoys/connect"
        self._tls = tls if node.secure else None
        self.key = key or f"worker-{uuid.uuid4().hex}"
        self.datacenter = ""
        self.connected = asyncio.Event()
        self._codes: dict[str, Code] = {}
        self._actors: dict[str, Actor] = {}
        self._send_queue: asyncio.Queue[FromEnvoy] = asyncio.Queue()
        self._left = asyncio.Event()
        self._was_welcome = self._was_refused = False
        hello = EnvoyHello(
            namespace=namespace, pool=pool, envoy_key=self.key, version=version, weight=weight, slots=slots
        )
        self._protocol = EnvoyProtocol(hello, WorkerLoopClock(), self._begin, self._left.set)
        self._protocol.warn = LOG.warning

    @property
    def actors(self) -> list[Actor]:
        return list(self._actors.values())

    def actor(self, name: str) -> Callable[[Code], Code]:
        """Registers the code of the actors with this name."""

        def register(code: Code) -> Code:
            self._codes[name] = code
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
        self._protocol.hello = replace(self._protocol.hello, incarnation=process)
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
            for actor in self.actors:
                actor.cancel()
            for actor in self.actors:
                await actor.wait()

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
            open_timeout=OPEN_S,
            ping_interval=None,
            additional_headers={"Authorization": self._token.value()} if self._token else None,
            logger=QUIET,
        ) as socket:
            yield socket

    async def _talk(self, socket: ClientConnection) -> str | None:
        """Until the connection ends. Returns the reason, if the node gave one."""
        self._send_queue = asyncio.Queue()
        self._protocol.opened(self._queue, socket.transport.abort)
        writing = asyncio.create_task(self._write(socket))
        reason = None
        try:
            async for text in socket:
                message = messages.decode(text)
                reason = message.message if isinstance(message, Rejected) else None
                self._protocol.heard(message)
                if self._protocol.connected and self._protocol.welcome is not None:
                    self.datacenter = self._protocol.welcome.datacenter
                    self.connected.set()
                    self._was_welcome, self._was_refused = True, False
        finally:
            self._protocol.closed()
            writing.cancel()
        return reason

    def _queue(self, message: FromEnvoy) -> None:
        if self._send_queue.qsize() < MAX_UNSENT:
            self._send_queue.put_nowait(message)

    async def _write(self, socket: ClientConnection) -> None:
        with contextlib.suppress(ConnectionClosed):
            while True:
                message = await self._send_queue.get()
                await socket.send(encoder.encode(message), text=True)
                if isinstance(message, Goodbye):
                    await socket.close()

    # Actors

    def _begin(self, start: Start, ended: Ended) -> Task | None:
        code = self._codes.get(start.name)
        if code is None:
            LOG.error("no code for actors named %r; there is for: %s", start.name, ", ".join(self._codes) or "none")
            return None
        actor = self._actors[start.actor_id] = Actor(start)

        def over(failed: bool) -> None:
            del self._actors[start.actor_id]
            ended(failed)

        actor.begin(code, over)
        return actor


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
