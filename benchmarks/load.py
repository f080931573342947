"""Closed-loop load over HTTP, the same for every system: a client asks, waits for the answer, asks again.

One asyncio process plays the clients of all regions, each talking to the node of its own region without any delay. The
answer is only looked at for whether it is the right one, so that the client costs the same everywhere.
"""

import asyncio
import itertools
import os
import time
from collections.abc import Callable, Sequence
from typing import cast

import httptools
from msgspec import Struct

GIVE_UP_S = 15.0
"""For one answer. Nothing measured here takes a second; what takes fifteen has failed."""

SPREAD_S = 0.1
"""Over which clients begin: about a round trip."""


class Request(Struct, frozen=True):
    """`expected`: whether status and body are what a success looks like."""

    raw: bytes
    expected: Callable[[int, bytes], bool]


class Sample(Struct, frozen=True):
    """One request: who asked, when (seconds of the monotonic clock), how long it took, and whether it succeeded."""

    region: str
    began_s: float
    took_ms: float
    ok: bool

    @property
    def ended_s(self) -> float:
        return self.began_s + self.took_ms / 1000


class Client(Struct, frozen=True):
    """`port` of the region's own node; `make` gives the next request."""

    region: str
    port: int
    make: Callable[[], Request]


class Connection(asyncio.Protocol):
    """One request at a time. Status 0: the connection ended instead."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[tuple[int, bytes]] | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._body = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's are none by name

    async def ask(self, raw: bytes) -> tuple[int, bytes]:
        assert self._transport is not None
        if self._transport.is_closing():
            return 0, b""
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(raw)
        return await self._answer

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_body(self, part: bytes) -> None:
        self._body += part

    def on_message_complete(self) -> None:
        body, self._body = bytes(self._body), bytearray()
        self._settle(self._parser.get_status_code(), body)

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002 (asyncio's signature)
        self._settle(0, b"")

    def _settle(self, status: int, body: bytes) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_result((status, body))

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


async def connect(port: int) -> Connection:
    _, connection = await asyncio.get_running_loop().create_connection(Connection, "127.0.0.1", port)
    return connection


async def ask_once(port: int, raw: bytes) -> tuple[int, bytes]:
    """For questions beside the load. OSError: it does not answer."""
    connection = await connect(port)
    try:
        return await asyncio.wait_for(connection.ask(raw), GIVE_UP_S)
    finally:
        connection.close()


class Load:
    """All clients at once until `stop`, or for some seconds; what was begun is finished."""

    def __init__(self, clients: Sequence[Client], *, most: int | None = None) -> None:
        """`most`: requests of one client."""
        self.samples: list[Sample] = []
        self._clients = clients
        self._most = most
        self._stopped = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """One after the other: clients in step would share every batch."""
        connections = [await connect(client.port) for client in self._clients]
        for number, (client, connection) in enumerate(zip(self._clients, connections, strict=True)):
            late_s = SPREAD_S * number / len(connections)
            self._tasks.append(asyncio.create_task(self._run(client, connection, late_s)))

    async def stop(self) -> list[Sample]:
        self._stopped.set()
        return await self.finish()

    async def finish(self) -> list[Sample]:
        await asyncio.gather(*self._tasks)
        return self.samples

    async def _run(self, client: Client, connection: Connection, late_s: float) -> None:
        """Ends when its region does: a connection that is lost is not made again."""
        await asyncio.sleep(late_s)
        for number in itertools.count():
            if self._stopped.is_set() or number == self._most:
                break
            request = client.make()
            began = time.perf_counter()
            try:
                status, body = await asyncio.wait_for(connection.ask(request.raw), GIVE_UP_S)
            except TimeoutError:
                status, body = 0, b""
            took_ms = (time.perf_counter() - began) * 1000
            self.samples.append(Sample(client.region, began, took_ms, request.expected(status, body)))
            if status == 0:
                break
        connection.close()


async def run_for(clients: Sequence[Client], seconds: float) -> list[Sample]:
    load = Load(clients)
    await load.start()
    await asyncio.sleep(seconds)
    return await load.stop()


async def run_count(clients: Sequence[Client], most: int) -> list[Sample]:
    load = Load(clients, most=most)
    await load.start()
    return await load.finish()


RUN = os.urandom(4).hex()
SERIAL = itertools.count()


def fresh_key() -> bytes:
    """Unused, in earlier runs too."""
    return b"bench/%s/%d" % (RUN.encode(), next(SERIAL))


def post(path: str, body: bytes) -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def get(path: str, *lines: str) -> bytes:
    head = "".join(f"{line}\r\n" for line in lines)
    return f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{head}\r\n".encode()


def put(path: str, body: bytes) -> bytes:
    return f"PUT {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
