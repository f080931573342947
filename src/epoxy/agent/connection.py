"""A connection to the server beside the agent: commands out, replies in, in order."""

import asyncio
import re
from collections import deque
from typing import cast

import hiredis

from epoxy.agent.redis import Command, Reply, ServerError, encode
from epoxy.model.address import Address
from epoxy.model.errors import CodecError, InvalidValue, Oversized

CONNECT_S = 1.0
"""A server on the same machine or in the same rack takes a millisecond."""

MAX_WAITING = 256
"""Commands without a reply. An agent sends a few with each heartbeat; a server this far behind does not answer."""

MAX_REPLY_BYTES = 1 << 20
"""A full INFO has about 10 KiB."""

LONG_ARRAY = re.compile(rb"\r\n[*%~>][0-9]{7}")
"""The header of an array that cannot fit in MAX_REPLY_BYTES. hiredis reserves memory for all elements at the header, so
it must not see one. No command of the agent is answered with a text that has such a line."""

INCOMPLETE = object()


class ServerGone(Exception):
    """The connection ended, or could not be made. `refused`: no process listens at the address."""

    def __init__(self, words: str, *, refused: bool = False) -> None:
        super().__init__(words)
        self.refused = refused


class ReplyReader:
    """Replies out of a byte stream, parsed by hiredis; each is limited to MAX_REPLY_BYTES."""

    def __init__(self) -> None:
        self._reader = hiredis.Reader(protocolError=InvalidValue, replyError=ServerError, notEnoughData=INCOMPLETE)
        self._unfinished_bytes = 0
        self._tail = b"\r\n"

    def feed(self, data: bytes) -> list[Reply]:
        recent = self._tail + data
        if LONG_ARRAY.search(recent):
            raise Oversized(f"a reply of more than {MAX_REPLY_BYTES} bytes")
        self._tail = recent[-9:]
        self._reader.feed(data)
        replies: list[Reply] = []
        while (reply := self._reader.gets()) is not INCOMPLETE:
            replies.append(cast(Reply, reply))
        self._unfinished_bytes = self._reader.len() if replies else self._unfinished_bytes + len(data)
        if self._unfinished_bytes > MAX_REPLY_BYTES:
            raise Oversized(f"a reply of more than {MAX_REPLY_BYTES} bytes")
        return replies


class ServerConnection(asyncio.Protocol):
    """Replies come in the order of the commands, or not at all when the connection is lost."""

    def __init__(self) -> None:
        self.lost = asyncio.get_running_loop().create_future()
        self._reader = ReplyReader()
        self._waiting: deque[asyncio.Future[Reply]] = deque()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        try:
            for reply in self._reader.feed(data):
                waiting = self._waiting.popleft()
                if not waiting.done():
                    waiting.set_result(reply)
        except (CodecError, IndexError):
            self.close()

    def connection_lost(self, _: Exception | None) -> None:
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_exception(ServerGone("the server closed the connection"))
                waiting.exception()
        self._waiting.clear()
        if not self.lost.done():
            self.lost.set_result(None)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    @property
    def is_open(self) -> bool:
        return not self.lost.done() and self._transport is not None and not self._transport.is_closing()

    def send(self, *commands: Command) -> list[asyncio.Future[Reply]]:
        """All in one write, so that the server runs them without another client's command in between."""
        if not self.is_open or len(self._waiting) + len(commands) > MAX_WAITING:
            raise ServerGone("the connection to the server is not usable")
        assert self._transport is not None
        futures: list[asyncio.Future[Reply]] = [self.lost.get_loop().create_future() for _ in commands]
        self._waiting.extend(futures)
        self._transport.write(b"".join(encode(command) for command in commands))
        return futures

    async def ask(self, *commands: Command) -> list[Reply]:
        """Replies come in order, so when the last has arrived all have."""
        futures = self.send(*commands)
        await futures[-1]
        return [future.result() for future in futures]


async def connect(address: Address, user: str, password: str) -> ServerConnection:
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(CONNECT_S):
            _, connection = await loop.create_connection(ServerConnection, address.host, address.port)
    except ConnectionRefusedError as error:
        raise ServerGone(f"{address}: connection refused", refused=True) from error
    except (OSError, TimeoutError) as error:
        raise ServerGone(f"{address}: cannot be reached: {error}") from error
    if password:
        words: Command = ("AUTH", user, password) if user else ("AUTH", password)
        async with asyncio.timeout(CONNECT_S):
            (reply,) = await connection.ask(words)
        if isinstance(reply, ServerError):
            connection.close()
            raise ServerGone(f"server.password_file: {reply}")
    return connection
