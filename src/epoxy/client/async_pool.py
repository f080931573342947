"""Connections on an event loop, pooled for each node. Callbacks up to the answer: a call costs one future."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from typing import TypeVar, cast

from epoxy.client.calls import Call
from epoxy.client.http1 import AnswerReader, NodeAddress, NotHttp
from epoxy.client.limits import IDLE_S, READ_BYTES
from epoxy.client.pool import Pool, reason_of, stale
from epoxy.client.routing import NotSent, Outcome, Unanswered
from epoxy.client.token import NO_TOKEN, BearerToken

T = TypeVar("T")


class AsyncConnection(asyncio.Protocol):
    """Serves one request at a time."""

    def __init__(self) -> None:
        self._reader = AnswerReader()
        self._waiting: asyncio.Future[Outcome] | None = None
        self._transport: asyncio.Transport | None = None
        self._idle_since = 0.0
        self.fit = True
        """May serve another request: nothing is on its way, and the node keeps it open."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but name

    async def exchange(self, request: bytes, timeout: float) -> Outcome:
        assert self._transport is not None
        if self._transport.is_closing():
            self.fit = False
            return NotSent("the connection was closed")
        loop = asyncio.get_running_loop()
        self.fit = False
        self._waiting = loop.create_future()
        timer = loop.call_later(timeout, self._settle, Unanswered("no answer in time", timed_out=True))
        try:
            self._transport.write(request)
            return await self._waiting
        finally:
            timer.cancel()
            self._waiting = None
            self._idle_since = loop.time()

    def data_received(self, data: bytes) -> None:
        if self._waiting is None:
            self.close()  # no request waits: the node is stopping, or an answer came too late
            return
        try:
            answer = self._reader.feed(data)
        except NotHttp as error:
            self._settle(Unanswered(str(error)))
            return
        if answer is not None:
            self.fit = self._reader.keep_alive
            self._settle(answer)

    def connection_lost(self, error: Exception | None) -> None:
        self.fit = False
        self._settle(Unanswered(reason_of(error) if isinstance(error, OSError) else "the connection was closed"))

    def _settle(self, outcome: Outcome) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(outcome)

    def still_good(self) -> bool:
        assert self._transport is not None
        rested = asyncio.get_running_loop().time() - self._idle_since
        return self.fit and not self._transport.is_closing() and rested <= IDLE_S

    def close(self) -> None:
        self.fit = False
        if self._transport is not None:
            self._transport.abort()


class AsyncPool(Pool[AsyncConnection]):
    def __init__(
        self,
        node: NodeAddress,
        connect_timeout: float,
        limit: int,
        tls: ssl.SSLContext | None,
        token: BearerToken = NO_TOKEN,
    ) -> None:
        super().__init__(node, connect_timeout, limit, tls, token)
        self._free = asyncio.Semaphore(limit)

    async def ask(self, call: Call[T], timeout: float) -> Outcome:
        request = self._request(call)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        if self._free.locked():
            try:
                await asyncio.wait_for(self._free.acquire(), timeout)
            except TimeoutError:
                return NotSent(f"all {self._limit} connections were busy", unreachable=False)
        else:
            await self._free.acquire()
        try:
            return await self._exchange(request, call, deadline)
        finally:
            self._free.release()

    async def _exchange(self, request: bytes, call: Call[T], deadline: float) -> Outcome:
        """An idle connection may have died. Then a new one is tried, if that cannot repeat a write."""
        loop = asyncio.get_running_loop()
        kept = self._take()
        if kept is not None:
            outcome = await self._use(kept, request, deadline - loop.time())
            if not stale(outcome, writes=call.writes):
                return outcome
        try:
            fresh = await self._connect(deadline - loop.time())
        except OSError as error:
            return NotSent(reason_of(error))
        return await self._use(fresh, request, deadline - loop.time())

    async def _use(self, connection: AsyncConnection, request: bytes, timeout: float) -> Outcome:
        try:
            return await connection.exchange(request, timeout)
        finally:
            if connection.fit and not self._closed:
                self._idle.append(connection)
            else:
                connection.close()

    async def _connect(self, timeout: float) -> AsyncConnection:
        async with asyncio.timeout(max(0.0, min(self._connect_timeout, timeout))):
            _, connection = await asyncio.get_running_loop().create_connection(
                AsyncConnection, self._node.host, self._node.port, ssl=self._tls
            )
        return connection

    def _take(self) -> AsyncConnection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.still_good():
                return connection
            connection.close()
        return None

    async def open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection of its own, for a stream that may never end."""
        async with asyncio.timeout(self._connect_timeout):
            return await asyncio.open_connection(self._node.host, self._node.port, ssl=self._tls)

    def close(self) -> None:
        self._closed = True
        while self._idle:
            self._idle.pop().close()


async def pieces(reader: asyncio.StreamReader, silence_s: float) -> AsyncIterator[bytes]:
    """What comes, as it comes, until the connection ends or is silent for too long."""
    with contextlib.suppress(OSError):
        while data := await asyncio.wait_for(reader.read(READ_BYTES), silence_s):
            yield data
