"""A worker hosts actors: an envoy of the pool it names, in the datacenter of the node it connects to.

    worker = Worker("http://127.0.0.1:7800", pool="chat", slots=100)

    @worker.actor("chat-room")
    async def room(actor):
        async for request in actor:
            request.respond(b"hello from " + actor.key.encode())

    worker.run()

A connection that breaks is made again, and the actors go on meanwhile; but not for longer than the node would wait
before it starts them elsewhere. SIGTERM drains: the actors move to other workers first.
"""

import asyncio
import contextlib
import logging
import random
import signal
import ssl
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from time import monotonic
from typing import assert_never

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake

from epoxy.client.hosted import Actor, Request
from epoxy.client.http1 import parse_url
from epoxy.model.actors import (
    Draining,
    FromEnvoy,
    Goodbye,
    Held,
    Hello,
    Ping,
    Pong,
    Rejected,
    Response,
    Running,
    Start,
    Stop,
    Stopped,
    ToEnvoy,
    Welcome,
)
from epoxy.model.actors import Request as Asked
from epoxy.model.errors import InvalidRequest

LOG = logging.getLogger("epoxy.envoy")

MAX_MESSAGE_BYTES = 2 << 20
"""The node's own limit."""

MAX_UNSENT = 10_000
"""Words that wait for the connection. A node that does not listen for so long has lost this envoy anyway."""

SHORTEST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 2.0
"""Between two tries to connect: a node that restarts is back in a second or two, and many workers ask at once."""

OPEN_S = 10.0

DRAIN_S = 30.0
"""For actors to move before a worker leaves anyway. A supervisor that kills after 30 seconds is common."""

Code = Callable[[Actor], Awaitable[None]]

encoder = msgspec.json.Encoder()
words: msgspec.json.Decoder[ToEnvoy] = msgspec.json.Decoder(ToEnvoy)


class Refused(InvalidRequest):
    """The node does not want this worker as it is; trying again would not help."""


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
    ) -> None:
        node = parse_url(url)
        self._address = f"{'wss' if node.secure else 'ws'}://{node.host_header}{node.prefix}/v2/envoys/connect"
        self._tls = tls if node.secure else None
        self.key = key or f"worker-{uuid.uuid4().hex}"
        self.datacenter = ""
        self.connected = asyncio.Event()
        self._hello = Hello(
            namespace=namespace, pool=pool, envoy_key=self.key, version=version, weight=weight, slots=slots
        )
        self._codes: dict[str, Code] = {}
        self._actors: dict[str, Actor] = {}
        self._outbox: asyncio.Queue[FromEnvoy] = asyncio.Queue()
        self._welcome: Welcome | None = None
        self._acknowledged_s = 0.0
        self._rtt_ms = 0
        self._draining = asyncio.Event()
        self._greeted = False
        self._leaving = False
        self._empty = asyncio.Event()

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
        """Takes nothing new; `serve` returns when the actors have moved. Asked a second time, it does not wait."""
        if self._draining.is_set():
            self._empty.set()
        self._draining.set()
        self._say(Draining())
        self._look_empty()

    async def serve(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._stay_connected()), group.create_task(self._guard())]
                await self._wait_for_end(tasks[0])
                for task in tasks:
                    task.cancel()
        except ExceptionGroup as group_error:
            raise group_error.exceptions[0] from None
        finally:
            for actor in self.actors:
                actor.cancel()
            for actor in self.actors:
                await actor.wait()

    async def _wait_for_end(self, connecting: "asyncio.Task[None]") -> None:
        await self._draining.wait()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._empty.wait(), DRAIN_S)
        self._leaving = True
        if self.connected.is_set():
            self._say(Goodbye())
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(asyncio.shield(connecting), OPEN_S)

    # The connection

    async def _stay_connected(self) -> None:
        """Of tries that fail one after the other the first is a warning, which people see without asking for it."""
        pause_s, level = SHORTEST_PAUSE_S, logging.WARNING
        while not self._leaving:
            try:
                async with self._open() as socket:
                    pause_s, level = SHORTEST_PAUSE_S, logging.WARNING
                    await self._talk(socket)
            except (OSError, TimeoutError, ConnectionClosed, InvalidHandshake) as error:
                LOG.log(level, "not connected to %s, trying again: %s", self._address, error)
                level = logging.INFO
            finally:
                self.connected.clear()
            await asyncio.sleep(pause_s * random.uniform(0.5, 1.0))
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

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
        ) as socket:
            yield socket

    async def _talk(self, socket: ClientConnection) -> None:
        while not self._outbox.empty():
            self._outbox.get_nowait()
        self._greeted = True
        held = tuple(Held(actor.id, actor.generation) for actor in self.actors)
        began_s = monotonic()
        await socket.send(encoder.encode(msgspec.structs.replace(self._hello, running=held)), text=True)
        writing = asyncio.create_task(self._write(socket))
        try:
            async for message in socket:
                self._hear(words.decode(message), began_s)
        finally:
            self._greeted = False
            writing.cancel()

    async def _write(self, socket: ClientConnection) -> None:
        """What is to be said, and a ping whenever it is time for one."""
        with contextlib.suppress(ConnectionClosed):
            while True:
                welcome = self._welcome if self.connected.is_set() else None
                every_s = welcome.ping_every_ms / 1000 if welcome is not None else OPEN_S
                try:
                    word = await asyncio.wait_for(self._outbox.get(), every_s)
                except TimeoutError:
                    word = Ping(sent_ms=int(monotonic() * 1000), rtt_ms=self._rtt_ms)
                await socket.send(encoder.encode(word), text=True)
                if isinstance(word, Goodbye):
                    await socket.close()

    def _say(self, word: FromEnvoy) -> None:
        """Once it is settled what the hello says: an actor that ends between that and the welcome has to be told of."""
        if self._greeted and self._outbox.qsize() < MAX_UNSENT:
            self._outbox.put_nowait(word)

    # What the node says

    def _hear(self, word: ToEnvoy, began_s: float) -> None:
        match word:
            case Welcome():
                self._welcome, self.datacenter = word, word.datacenter
                self._acknowledged_s = began_s
                self.connected.set()
                self._say(Draining() if self._draining.is_set() else Ping(sent_ms=int(monotonic() * 1000)))
            case Pong():
                self._acknowledged_s = max(self._acknowledged_s, word.sent_ms / 1000)
                self._rtt_ms = max(0, int(monotonic() * 1000) - word.sent_ms)
            case Start():
                self._start(word)
            case Stop():
                actor = self._actors.get(word.actor_id)
                if actor is not None and actor.generation <= word.generation:
                    actor.stop()
                elif actor is None:
                    self._say(Stopped(actor_id=word.actor_id, generation=word.generation))
            case Asked():
                self._ask(word)
            case Rejected():
                if not word.expired:
                    raise Refused(f"the node refused this worker: {word.message}")
            case _:
                assert_never(word)

    def _start(self, start: Start) -> None:
        held = self._actors.get(start.actor_id)
        if held is not None and held.generation >= start.generation:
            self._say(Running(actor_id=held.id, generation=held.generation))
            return
        if held is not None:
            held.cancel()
        code = self._codes.get(start.name)
        if code is None:
            LOG.error("no code for actors named %r; there is for: %s", start.name, ", ".join(self._codes) or "none")
            self._say(Stopped(actor_id=start.actor_id, generation=start.generation, failed=True))
            return
        actor = self._actors[start.actor_id] = Actor(start)
        self._empty.clear()
        actor.begin(code, self._ended)
        self._say(Running(actor_id=actor.id, generation=actor.generation))

    def _ask(self, asked: Asked) -> None:
        request = Request(asked.request_id, asked.body, self._respond)
        actor = self._actors.get(asked.actor_id)
        if actor is None or actor.generation != asked.generation:
            request.fail("the actor is not here any more")
        else:
            actor.ask(request)

    def _respond(self, response: Response) -> None:
        self._say(response)

    def _ended(self, actor: Actor, failed: bool) -> None:
        if self._actors.get(actor.id) is actor:
            del self._actors[actor.id]
        self._say(Stopped(actor_id=actor.id, generation=actor.generation, failed=failed))
        self._look_empty()

    def _look_empty(self) -> None:
        if not self._actors:
            self._empty.set()

    async def _guard(self) -> None:
        """An envoy that its node does not answer is about to be taken for lost. Two of one actor must never run, so
        this one stops first."""
        while True:
            welcome = self._welcome
            if welcome is not None and monotonic() - self._acknowledged_s > welcome.lost_after_ms / 1000:
                for actor in self.actors:
                    actor.cancel()
            await asyncio.sleep(welcome.ping_every_ms / 4000 if welcome is not None else 1.0)
