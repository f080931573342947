"""The agent's port for clients: connections around `sentinel.Session`."""

import asyncio
from typing import cast

from epoxy.agent.sentinel import LIMITS, Session, Source
from epoxy.codec import resp
from epoxy.codec.resp import CommandReader
from epoxy.model.address import Address
from epoxy.node.listening import listen

MAX_CLIENTS = 10_000
"""As many as a Redis takes: every client of the server may hold one here."""

MAX_UNREAD_BYTES = 1 << 16
"""What a subscriber may leave unread before it is let go."""


class Door:
    def __init__(self, source: Source) -> None:
        self._source = source
        self._clients: set[Client] = set()
        self._server: asyncio.Server | None = None

    async def start(self, address: Address) -> None:
        opening = asyncio.get_running_loop().create_server(lambda: Client(self), address.host, address.port)
        self._server = await listen("node.clients", address, opening)

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for client in list(self._clients):
            client.drop()

    def publish(self, channel: str, message: str) -> None:
        for client in list(self._clients):
            client.publish(channel, message)

    def join(self, client: "Client") -> Session | None:
        if len(self._clients) >= MAX_CLIENTS:
            return None
        self._clients.add(client)
        return Session(self._source)

    def leave(self, client: "Client") -> None:
        self._clients.discard(client)


class Client(asyncio.Protocol):
    def __init__(self, door: Door) -> None:
        self._door = door
        self._reader = CommandReader(LIMITS)
        self._session: Session | None = None
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._session = self._door.join(self)
        if self._session is None:
            self._transport.write(resp.error("ERR max number of clients reached"))
            self._transport.close()

    def connection_lost(self, _: Exception | None) -> None:
        self._door.leave(self)

    def data_received(self, data: bytes) -> None:
        session, transport = self._session, self._transport
        if session is None or transport is None:
            return
        transport.write(b"".join(session.answer(command) for command in self._reader.feed(data)))
        if self._reader.fault is not None:
            transport.write(resp.error(f"ERR Protocol error: {self._reader.fault}"))
        if self._reader.fault is not None or session.closing:
            transport.close()

    def publish(self, channel: str, message: str) -> None:
        if self._session is None or self._transport is None:
            return
        if self._transport.get_write_buffer_size() > MAX_UNREAD_BYTES:
            self.drop()
            return
        self._transport.write(self._session.published(channel, message))

    def drop(self) -> None:
        if self._transport is not None:
            self._transport.abort()
