"""The agent's port for clients: connections around `sentinel.Session`."""

import asyncio
from collections import deque
from typing import cast

from epoxy.agent.sentinel import LIMITS, SentinelSession, SentinelSource
from epoxy.codec import resp
from epoxy.codec.resp import CommandReader
from epoxy.model.address import Address
from epoxy.node.process.listening import listen

MAX_CLIENTS = 10_000
"""As many as a Redis takes: every client of the server may hold one here."""

MAX_UNREAD_BYTES = 1 << 16
"""What a client may leave unread before it is answered no more; a subscriber is let go."""

READ_BYTES = 4096
"""Of what a client sends, at a time: a hundred questions."""

TURN = 16
"""Questions of all clients that are answered before the agent looks after everything else: a millisecond. A client must
not be able to keep an agent from its heartbeats."""


class Door:
    def __init__(self, source: SentinelSource) -> None:
        self._source = source
        self._clients: set[ClientConnection] = set()
        self._server: asyncio.Server | None = None
        self._waiting: deque[ClientConnection] = deque()

    async def start(self, address: Address) -> None:
        opening = asyncio.get_running_loop().create_server(lambda: ClientConnection(self), address.host, address.port)
        self._server = await listen("node.clients", address, opening)

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for client in list(self._clients):
            client.drop()

    def publish(self, channel: str, message: str) -> None:
        for client in list(self._clients):
            client.publish(channel, message)

    def join(self, client: "ClientConnection") -> SentinelSession | None:
        if len(self._clients) >= MAX_CLIENTS:
            return None
        self._clients.add(client)
        return SentinelSession(self._source)

    def leave(self, client: "ClientConnection") -> None:
        self._clients.discard(client)

    def wait_turn(self, client: "ClientConnection") -> None:
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._turn)
        self._waiting.append(client)

    def _turn(self) -> None:
        """One question of each client in turn, a few in all; then whatever else the agent has to do."""
        for _ in range(min(TURN, len(self._waiting))):
            client = self._waiting.popleft()
            if client.answer_one():
                self._waiting.append(client)
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._turn)


class ClientConnection(asyncio.BufferedProtocol):
    """One connection. What it asks is answered in turns with all others, and it is read from only when everything it
    asked is answered and it has read most of the answers."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self._reader = CommandReader(LIMITS)
        self._session: SentinelSession | None = None
        self._transport: asyncio.Transport | None = None
        self._bytes = bytearray(READ_BYTES)
        self._asked: deque[list[bytes]] = deque()
        self._unread = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=MAX_UNREAD_BYTES)
        self._session = self._door.join(self)
        if self._session is None:
            self._transport.write(resp.error("ERR max number of clients reached"))
            self._transport.close()

    def connection_lost(self, _: Exception | None) -> None:
        self._transport = None
        self._asked.clear()
        self._door.leave(self)

    def get_buffer(self, sizehint: int) -> bytearray:  # noqa: ARG002
        return self._bytes

    def buffer_updated(self, size: int) -> None:
        self._asked.extend(self._reader.feed(bytes(self._bytes[:size])))
        if self._session is None or self._transport is None:
            return
        if self._asked:
            self._transport.pause_reading()
            self._door.wait_turn(self)
        else:
            self._end_if_over()

    def pause_writing(self) -> None:
        self._unread = True

    def resume_writing(self) -> None:
        self._unread = False
        if self._asked:
            self._door.wait_turn(self)

    def answer_one(self) -> bool:
        """False when there is nothing left to do for it, or nothing that it would read."""
        if self._session is None or self._transport is None or self._transport.is_closing() or not self._asked:
            return False
        self._transport.write(self._session.answer(self._asked.popleft()))
        if self._asked and not self._session.closing:
            return not self._unread
        self._end_if_over()
        if not self._transport.is_closing():
            self._transport.resume_reading()
        return False

    def _end_if_over(self) -> None:
        assert self._session is not None
        assert self._transport is not None
        if self._reader.fault is not None:
            self._transport.write(resp.error(f"ERR Protocol error: {self._reader.fault}"))
        if self._reader.fault is not None or self._session.closing:
            self._transport.close()

    def publish(self, channel: str, message: str) -> None:
        if self._session is None or self._transport is None:
            return
        if self._unread:
            self.drop()
            return
        self._transport.write(self._session.published(channel, message))

    def drop(self) -> None:
        if self._transport is not None:
            self._transport.abort()
