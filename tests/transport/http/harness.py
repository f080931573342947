"""Servers on loopback, and clients that send raw bytes. One deadline bounds each test; tests wait for events, never for
time to pass."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from ssl import SSLContext
from typing import Any, cast

import uvloop
from msgspec import Struct

from epoxy.transport.http.connections import Connections
from epoxy.transport.http.exchange import Exchange, Handler
from epoxy.transport.http.listener import Listener
from epoxy.transport.http.reserves import Room
from epoxy.transport.http.server import serve_http
from epoxy.transport.limits import HttpLimits
from epoxy.transport.tls import ContextOf

DEADLINE_S = 60.0
"""For a whole test. Only a test that hangs gets there."""


class Unheard(Exception):
    """Something failed in a callback, where nobody catches it."""


def run(test: Coroutine[Any, Any, None]) -> None:
    """On the loop of production. An error that reaches the loop's handler fails the test."""
    unheard: list[dict[str, Any]] = []

    async def bounded() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: unheard.append(context))
        await asyncio.wait_for(test, DEADLINE_S)

    uvloop.run(bounded())
    if unheard:
        raise Unheard(unheard)


def expect_report(reports: list[BaseException]) -> None:
    """What reaches the loop's handler from here on is wanted."""
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: reports.append(context["exception"]))


async def until(condition: Callable[..., bool]) -> None:
    """Poll, in turns of the loop with a moment between them: what is waited for happens in the kernel."""
    while not condition():
        await asyncio.sleep(0.001)


class RunningServer(Struct, frozen=True):
    port: int
    listener: Listener
    connections: Connections
    clients: list["Client"]

    async def dial(self, ssl: SSLContext | None = None, *, source: str = "127.0.0.1") -> "Client":
        opening = asyncio.open_connection("127.0.0.1", self.port, ssl=ssl, local_addr=(source, 0))
        client = Client(*await opening)
        self.clients.append(client)
        return client

    async def ask(self, *pieces: bytes) -> bytes:
        """Send, say that this was all, and read until the other side has nothing more to say either."""
        client = await self.dial()
        client.send(*pieces)
        client.writer.write_eof()
        return await client.rest()

    def late(self, seconds: float) -> None:
        """Sweep as if that much time had passed."""
        self.connections.sweep(asyncio.get_running_loop().time() + seconds)


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.transport = cast(asyncio.Transport, writer.transport)

    def send(self, *pieces: bytes) -> None:
        for piece in pieces:
            self.writer.write(piece)

    async def answer(self) -> tuple[bytes, bytes]:
        """Head and body of one answer that tells its length."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = [line for line in head.split(b"\r\n") if line.startswith(b"content-length: ")]
        return head, await self.reader.readexactly(int(length[0].split()[1]) if length else 0)

    async def rest(self) -> bytes:
        try:
            return await self.reader.read()
        finally:
            self.hang_up()

    def reset(self) -> None:
        """Not only done talking, but gone."""
        self.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.hang_up()

    def hang_up(self) -> None:
        self.transport.abort()


def context_of(ssl: SSLContext | ContextOf | None) -> ContextOf | None:
    """One that stays, or one that is asked for each connection."""
    return (lambda: ssl) if isinstance(ssl, SSLContext) else ssl


@asynccontextmanager
async def running_server(
    handler: Handler,
    limits: HttpLimits | None = None,
    ssl: SSLContext | ContextOf | None = None,
    port: int = 0,
    room: Room | None = None,
) -> AsyncIterator[RunningServer]:
    limits = limits or HttpLimits()
    connections = Connections(limits.connections)
    server = await serve_http(
        handler, "127.0.0.1", port, ssl=context_of(ssl), limits=limits, connections=connections, room=room
    )
    clients: list[Client] = []
    try:
        yield RunningServer(server.sockets[0].getsockname()[1], server, connections, clients)
    finally:
        for client in clients:
            client.hang_up()
            with suppress(OSError):
                await client.writer.wait_closed()
        server.close()
        await connections.drain(0)
        await until(lambda: not connections)


def get(path: bytes = b"/", *headers: bytes) -> bytes:
    return b"\r\n".join((b"GET %b HTTP/1.1" % path, b"host: x", *headers, b"", b""))


def put(path: bytes, body: bytes, *headers: bytes) -> bytes:
    return b"\r\n".join((b"PUT %b HTTP/1.1" % path, b"content-length: %d" % len(body), *headers, b"", body))


def echo(exchange: Exchange) -> None:
    """Method, address and body."""
    request = exchange.request
    exchange.respond(200, b" ".join((request.method.encode(), request.path, request.query, request.body)))


Step = Callable[[RunningServer], Awaitable[None]]


def with_server(handler: Handler, test: Step, limits: HttpLimits | None = None) -> None:
    async def story() -> None:
        async with running_server(handler, limits) as opened:
            await test(opened)

    run(story())


def bodies(answers: bytes) -> list[bytes]:
    """Of answers that tell their length, one after the other."""
    found = []
    while answers:
        head, _, answers = answers.partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
        found.append(answers[:length])
        answers = answers[length:]
    return found


class Keeper:
    """A handler that keeps its exchanges."""

    def __init__(self) -> None:
        self.exchanges: list[Exchange] = []

    def __call__(self, exchange: Exchange) -> None:
        self.exchanges.append(exchange)

    @property
    def paths(self) -> list[bytes]:
        return [exchange.request.path for exchange in self.exchanges]
