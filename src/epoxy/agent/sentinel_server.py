"""The agent's port for clients: connections around `sentinel.SentinelSession`."""

import asyncio
from collections import deque
from typing import cast

from epoxy.agent.sentinel import LIMITS, SentinelSession, SentinelSource
from epoxy.codec import resp
from epoxy.codec.resp import CommandReader
from epoxy.model.address import Address
from epoxy.node.process.listening import listen
from epoxy.transport.http import listener, reserves

MAX_CLIENTS = 4096
"""An idle one takes some 3 KiB, so all of them a sixth of what a flood may cost."""

RESERVED_FILES = 448
"""File descriptors below the listeners' ceiling that clients may not use: for links of other agents, their handshakes,
and the server beside the agent."""

MAX_UNREAD_BYTES = 4096
"""What a client may leave unread, beside what the kernel holds for it, before it gets no more replies; a subscriber is
disconnected."""

MAX_STALLED = 256
"""Clients that have left so much unread. With one more the one that has not read for longest is disconnected."""

READ_BYTES = 256
"""Read at a time from one client: a few commands. Those of all clients that wait for their turn take 50 MiB at most, if
they are the shortest there are."""

COMMANDS_PER_TURN = 16
"""Commands of all clients that are answered in one turn of the event loop, about a millisecond. Clients must not delay
the agent's heartbeats."""


class SentinelServer:
    def __init__(self, source: SentinelSource) -> None:
        self._source = source
        self._clients: set[ClientConnection] = set()
        self.buffer = bytearray(READ_BYTES)
        """Bytes that were just read. One for all clients: they are parsed before another read."""
        self._most = max(1, min(MAX_CLIENTS, reserves.ceiling() - RESERVED_FILES))
        self._stalled: dict[ClientConnection, None] = {}
        """In the order in which they began to leave replies unread."""
        self._server: listener.Listener | None = None
        self._waiting: deque[ClientConnection] = deque()

    async def start(self, address: Address) -> None:
        opening = listener.listen(lambda: cast(asyncio.Protocol, ClientConnection(self)), address.host, address.port)
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
        if len(self._clients) >= self._most:
            return None
        self._clients.add(client)
        return SentinelSession(self._source)

    def leave(self, client: "ClientConnection") -> None:
        self._clients.discard(client)
        self._stalled.pop(client, None)

    def stall(self, client: "ClientConnection") -> None:
        self._stalled[client] = None
        if len(self._stalled) > MAX_STALLED:
            first = next(iter(self._stalled))
            self.leave(first)
            first.drop()

    def read_on(self, client: "ClientConnection") -> None:
        self._stalled.pop(client, None)

    def wait_turn(self, client: "ClientConnection") -> None:
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._turn)
        self._waiting.append(client)

    def _turn(self) -> None:
        """One command of each client in turn; the rest waits for the next turn of the event loop."""
        for _ in range(min(COMMANDS_PER_TURN, len(self._waiting))):
            client = self._waiting.popleft()
            if client.answer_one():
                self._waiting.append(client)
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._turn)


class ClientConnection(asyncio.BufferedProtocol):
    """One connection. Its commands are answered in turn with those of all others; it is read from only when all its
    commands are answered and it has read most of the replies."""

    def __init__(self, server: SentinelServer) -> None:
        self._server = server
        self._reader = CommandReader(LIMITS)
        self._session: SentinelSession | None = None
        self._transport: asyncio.Transport | None = None
        self._commands: deque[list[bytes]] = deque()
        self._write_paused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=MAX_UNREAD_BYTES)
        self._session = self._server.join(self)
        if self._session is None:
            self._transport.write(resp.error("ERR max number of clients reached"))
            self._transport.close()

    def connection_lost(self, _: Exception | None) -> None:
        self._transport = None
        self._commands.clear()
        self._server.leave(self)

    def get_buffer(self, sizehint: int) -> bytearray:  # noqa: ARG002
        return self._server.buffer

    def buffer_updated(self, size: int) -> None:
        self._commands.extend(self._reader.feed(bytes(self._server.buffer[:size])))
        if self._session is None or self._transport is None:
            return
        if self._commands:
            self._transport.pause_reading()
            self._server.wait_turn(self)
        else:
            self._end_if_over()

    def pause_writing(self) -> None:
        self._write_paused = True
        self._server.stall(self)

    def resume_writing(self) -> None:
        self._write_paused = False
        self._server.read_on(self)
        if self._commands:
            self._server.wait_turn(self)

    def answer_one(self) -> bool:
        """False when it has no command left, or does not read its replies."""
        if self._session is None or self._transport is None or self._transport.is_closing() or not self._commands:
            return False
        self._transport.write(self._session.answer(self._commands.popleft()))
        if self._commands and not self._session.closing:
            return not self._write_paused
        self._end_if_over()
        if not self._transport.is_closing():
            self._transport.resume_reading()
        return False

    def _end_if_over(self) -> None:
        assert self._session is not None
        assert self._transport is not None
        if self._reader.fault is not None and not self._session.closing:
            self._transport.write(resp.error(f"ERR Protocol error: {self._reader.fault}"))
        if self._reader.fault is not None or self._session.closing:
            self._transport.close()

    def publish(self, channel: str, message: str) -> None:
        if self._session is None or self._transport is None:
            return
        if self._write_paused:
            self.drop()
            return
        self._transport.write(self._session.published(channel, message))

    def drop(self) -> None:
        if self._transport is not None:
            self._transport.abort()
