"""The client's side of HTTP/1.1 between peers: one persistent connection, requests pipelined, answers matched by their
order."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import cast

import httptools

from epoxy.codec.wire import MAX_ENCODED_BYTES
from epoxy.transport.http.request import HttpReply
from epoxy.transport.peers.gateway_refusal import is_not_gateway
from epoxy.transport.peers.keyring import SigningKey

MAX_HEAD_BYTES = 4 << 10
"""An answer between peers has five short headers."""


Answered = Callable[[HttpReply | None], None]
"""None: the connection was lost first."""


def report(error: Exception) -> None:
    """Hand a callback's exception to the event loop, which may end the process. The parser would swallow it, and other
    callbacks would not be called."""
    loop = asyncio.get_running_loop()
    loop.call_exception_handler({"message": "the callback of an answer failed", "exception": error})


class Dial(asyncio.Protocol):
    """One connection. `opened` is set when it can be used, or fails; `drained` is called when it is writable again;
    `lost` is set when the connection has ended. `made`: there was a connection; `aborted`: this end has ended it.
    `host`: for the header of requests; `not_gateway`: the node is not the gateway of its datacenter, and the connection
    was ended for that."""

    # For mypyc. The parser holds the connection and the connection the parser, so one of them has to let go.
    __deletable__ = ("_parser",)

    def __init__(self, drained: Callable[[], None]) -> None:
        self._drained = drained
        loop = asyncio.get_running_loop()
        self.opened: asyncio.Future[None] = loop.create_future()
        self.lost: asyncio.Future[None] = loop.create_future()
        self.answers = 0
        self.made = self.aborted = self.not_gateway = False
        self.host = b""
        self._waiting: deque[Answered] = deque()
        self._transport: asyncio.Transport | None = None
        self.write_paused = False
        self._begin()

    def _begin(self) -> None:
        self._headers: dict[bytes, bytes] = {}
        self._body: list[bytes] = []
        self._size = 0

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def request(self, head: bytes, body: bytes, answered: Answered) -> None:
        if self._transport is None:
            answered(None)
            return
        self._waiting.append(answered)
        self._transport.write(head + body)

    @property
    def key(self) -> SigningKey | None:
        """What the whole connection rests on; None if each request is signed."""
        return None

    def abort(self) -> None:
        if self._transport is not None:
            self.aborted = True
            self._transport.abort()

    # The transport calls these.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.made = True
        self._parser = httptools.HttpResponseParser(self)
        self.opened.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        del self._parser
        self.end("connection lost")

    def end(self, reason: str) -> None:
        self._transport = None
        if not self.opened.done():
            self.opened.set_exception(ConnectionError(reason))
        waiting, self._waiting = self._waiting, deque()
        for answered in waiting:
            answered(None)
        if not self.lost.done():
            self.lost.set_result(None)

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self.abort()

    def pause_writing(self) -> None:
        self.write_paused = True

    def resume_writing(self) -> None:
        self.write_paused = False
        self._drained()

    # The parser calls these.

    def on_message_begin(self) -> None:
        self._begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value), MAX_HEAD_BYTES)
        self._headers[name.lower()] = value

    def on_body(self, data: bytes) -> None:
        self._count(len(data), MAX_ENCODED_BYTES + MAX_HEAD_BYTES)
        self._body.append(data)

    def on_message_complete(self) -> None:
        body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        self.deliver(HttpReply(self._parser.get_status_code(), self._headers, body))

    def deliver(self, answer: HttpReply) -> None:
        if not self._waiting:
            self.abort()  # An answer without a request: the other end does not speak our protocol.
            return
        if is_not_gateway(answer):
            self.not_gateway = True
            self.abort()  # All that waits for an answer hears that the connection is lost.
            return
        self.answers += 1
        try:
            self._waiting.popleft()(answer)
        except Exception as error:
            report(error)

    def _count(self, size: int, limit: int) -> None:
        self._size += size
        if self._size > limit:
            self.abort()
