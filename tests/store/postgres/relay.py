"""A relay before a server, which cuts connections at chosen points."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from epoxy.testing.postgres_server import PostgresServer

SSL_REQUEST = (8).to_bytes(4, "big") + (80877103).to_bytes(4, "big")


class Relay:
    """`requests` and `answers`: bytes that pass from now on in each direction, before the connection is cut; None: all.
    What came too late is lost, and so is everything after it."""

    def __init__(self, server: PostgresServer, tls: ssl.SSLContext | None) -> None:
        self.server = server
        """Of connections that are made from now on."""
        self._address = server.address
        self._dsn = server.dsn
        self._tls = tls
        self.requests: int | None = None
        self.answers: int | None = None
        self.port = 0
        self.cuts = 0
        self._ends: set[asyncio.StreamWriter] = set()

    @property
    def dsn(self) -> str:
        return self._dsn.replace(self._address, f"127.0.0.1:{self.port}")

    def repair(self) -> None:
        self.requests = self.answers = None

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._tls is not None and not await self._seal(reader, writer, self._tls):
            writer.transport.abort()
            return
        near, far = await asyncio.open_connection("127.0.0.1", self.server.port)
        self._ends |= {writer, far}
        ways = [
            asyncio.create_task(self._carry(reader, far, "requests")),
            asyncio.create_task(self._carry(near, writer, "answers")),
        ]
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for end in (writer, far):
            end.transport.abort()
        await asyncio.wait(ways)
        self._ends -= {writer, far}

    async def _seal(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, tls: ssl.SSLContext) -> bool:
        """As a server that insists on TLS, which the carried PostgreSQL was built without."""
        with suppress(OSError, asyncio.IncompleteReadError):
            if await reader.readexactly(len(SSL_REQUEST)) == SSL_REQUEST:
                writer.write(b"S")
                await writer.start_tls(tls)
                return True
        return False

    async def close(self) -> None:
        while self._ends:
            for end in self._ends:
                end.transport.abort()
            await asyncio.sleep(0.001)

    async def _carry(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, way: str) -> None:
        with suppress(OSError):
            while data := await source.read(65536):
                left: int | None = getattr(self, way)
                if left is not None:
                    setattr(self, way, max(0, left - len(data)))
                    sink.write(data[:left])
                    await sink.drain()
                    if left < len(data):
                        self.cuts += 1
                        return
                else:
                    sink.write(data)
                    await sink.drain()


@asynccontextmanager
async def relayed(server: PostgresServer, tls: ssl.SSLContext | None = None) -> AsyncIterator[Relay]:
    relay = Relay(server, tls)
    door = await asyncio.start_server(relay.serve, "127.0.0.1", 0)
    relay.port = door.sockets[0].getsockname()[1]
    try:
        yield relay
    finally:
        door.close()
        await relay.close()
