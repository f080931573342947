"""A connection to the gateway of this node's datacenter, with one forwarded request at a time on it.

What arrives at either end is passed on as it arrives, and an end that reads slowly slows the other down. A short answer
is passed on as a whole, so that the client's connection stays open; a long one, and one without a length (server-sent
events), in pieces. After 101 the bytes of both directions are passed on unseen (WebSockets).
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import cast

import httptools

from epoxy.transport.http.exchange import Exchange, Stream
from epoxy.transport.http.request_body import BUFFER_BYTES, ignore
from epoxy.transport.http.response import JSON, WITHOUT_BODY, Headers, chunk, problem
from epoxy.transport.http.upgraded import UpgradedProtocol

WHOLE_ANSWER_BYTES = 64 << 10
"""An answer up to this is passed on as a whole: pages of lists and all errors are."""

MAX_ANSWER_HEAD_BYTES = 64 << 10
"""Four times what a request may have: a record of an actor in headers, and room."""

HOP_BY_HOP = frozenset(
    (b"connection", b"keep-alive", b"proxy-connection", b"te", b"trailer", b"transfer-encoding", b"upgrade", b"expect")
)
"""Of one connection alone (RFC 9110, 7.6.1), and what this end answers itself."""

LOST = "the connection to the gateway was lost"
READING = frozenset(("GET", "HEAD"))


def refuse(exchange: Exchange, code: str, message: str, *, definite: bool = True) -> None:
    body = problem(code, message, definite=definite, retry_after_ms=1000)
    exchange.respond(503, body, content_type=JSON, headers=((b"epoxy-error", code.encode()),))


def wants_upgrade(exchange: Exchange) -> bool:
    headers = exchange.request.headers
    return b"upgrade" in headers and b"upgrade" in headers.get(b"connection", b"").lower()


def request_head(exchange: Exchange, mark: tuple[bytes, bytes]) -> bytes:
    """The request as the client sent it, but for what belongs to its connection, and with the mark."""
    request = exchange.request
    target = request.path + (b"?" + request.query if request.query else b"")
    own = {*HOP_BY_HOP, b"content-length", mark[0]}
    lines = [b"%b: %b\r\n" % header for header in request.headers.items() if header[0] not in own]
    lines.append(b"%b: %b\r\n" % mark)
    if wants_upgrade(exchange):
        lines.append(b"connection: Upgrade\r\nupgrade: %b\r\n" % request.headers[b"upgrade"])
    given = request.headers.get(b"content-length")
    if exchange.body is None:
        if given is not None or b"transfer-encoding" in request.headers:
            lines.append(b"content-length: %d\r\n" % len(request.body))
    elif given is not None:
        lines.append(b"content-length: %b\r\n" % given)
    else:
        lines.append(b"transfer-encoding: chunked\r\n")
    start = b"%b %b HTTP/1.1\r\n" % (request.method.encode("ascii"), target)
    return b"".join([start, *lines, b"\r\n"])


class GatewayConnection(asyncio.Protocol):
    """`idle` is called when the connection can be used again, `ended` once, when it is over."""

    def __init__(
        self, url: str, idle: Callable[["GatewayConnection"], None], ended: Callable[["GatewayConnection"], None]
    ) -> None:
        self.url = url
        self.idle_since = 0.0
        self.lost_request = False
        """It was lost before the request on it was answered."""
        self._idle = idle
        self._ended = ended
        self._transport: asyncio.Transport | None = None
        self._exchange: Exchange | None = None
        self._pipe: ClientPipe | None = None
        self._write_paused = False
        self._forget()

    def _forget(self) -> None:
        """What belongs to one request."""
        self._exchange = None
        self._stream: Stream | None = None
        self._parser: httptools.HttpResponseParser | None = None
        self._status = 0
        self._headers: list[tuple[bytes, bytes]] = []
        self._content_type = b"application/octet-stream"
        self._length: bytes | None = None
        self._head_bytes = 0
        self._body: list[bytes] = []
        self._in_body = self._sending = self._sent_all = self._closes = False

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    @property
    def is_used(self) -> bool:
        return self._exchange is not None or self._pipe is not None

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def finish(self) -> None:
        """End what does not end by itself, as its client would see it at a gateway that stops."""
        if self._pipe is not None:
            self._pipe.close()
            self.abort()
        elif self._stream is not None:
            stream, self._stream = self._stream, None
            stream.close()
            self.abort()

    def forward(self, exchange: Exchange, mark: tuple[bytes, bytes]) -> None:
        assert self._transport is not None, "a connection that is open"
        assert self._exchange is None, "one request at a time"
        self._exchange = exchange
        self._parser = httptools.HttpResponseParser(self)
        head = request_head(exchange, mark)
        exchange.when_client_leaves(self._client_left)
        if not self.is_open:
            return  # The client had left before.
        self._transport.write(head)
        if exchange.body is None:
            self._sent_all = True
            if exchange.request.body:
                self._transport.write(exchange.request.body)
        else:
            exchange.body.on_more = self._send_more
            self._send_more()

    def _send_more(self) -> None:
        """Of a body that arrives while it is forwarded. Reading some of it may let more arrive at once, and this be
        called again before that is written: the outer call sends it, in its place."""
        exchange = self._exchange
        if exchange is None or exchange.body is None or self._transport is None or self._sent_all or self._sending:
            return
        chunked = b"content-length" not in exchange.request.headers
        self._sending = True
        while not self._write_paused and (data := exchange.body.read(BUFFER_BYTES)):
            self._transport.write(b"".join(chunk(data)) if chunked else data)
        self._sending = False
        if exchange.body.is_over:
            self._sent_all = True
            if chunked:
                self._transport.write(b"0\r\n\r\n")

    def _client_left(self) -> None:
        """It sends nothing more: the gateway learns it as a node learns it that is asked directly."""
        transport = self._transport
        self._closes = True
        if transport is None or self._pipe is not None:
            return
        if self._sent_all and self._stream is None and transport.can_write_eof():
            transport.write_eof()
        else:
            transport.abort()

    # The transport calls these.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self._pipe is not None:
            self._pipe.to_client(data)
            return
        if self._parser is None:
            self.abort()  # Words without a request: the gateway says that it stops.
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._become_pipe(data[upgrade.args[0] :])
            return
        except httptools.HttpParserError:
            self.abort()
            return
        if self._exchange is not None and not self._in_body:
            self._head_bytes += len(data)
            if self._head_bytes > MAX_ANSWER_HEAD_BYTES:
                self.abort()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._transport = None
        exchange, stream, pipe = self._exchange, self._stream, self._pipe
        self._forget()
        self._pipe = None
        lost = exchange if pipe is None and stream is None and exchange is not None and not exchange.answered else None
        self.lost_request = lost is not None
        self._ended(self)
        if pipe is not None:
            pipe.close()
        elif stream is not None:
            stream.abort()
        elif lost is not None:
            refuse(lost, "gateway_lost", LOST, definite=lost.request.method in READING)

    def pause_writing(self) -> None:
        self._write_paused = True
        if self._pipe is not None:
            self._pipe.pause_reading()

    def resume_writing(self) -> None:
        self._write_paused = False
        if self._pipe is not None:
            self._pipe.resume_reading()
        else:
            self._send_more()

    # The parser calls these.

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        if name == b"content-type":
            self._content_type = value
        elif name == b"content-length":
            self._length = value
        elif name == b"upgrade" or name not in HOP_BY_HOP:
            self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        exchange, parser = self._exchange, self._parser
        assert exchange is not None
        assert parser is not None
        self._status = parser.get_status_code()
        if self._status < 200:
            return  # 101 is for `data_received`; a word between is of this connection alone.
        self._in_body = True
        self._closes = self._closes or not parser.should_keep_alive()
        if exchange.request.method == "HEAD":
            length = ((b"content-length", self._length),) if self._length is not None else ()
            self._answer(b"", (*self._headers, *length), length_known=False)
        elif self._status not in WITHOUT_BODY and (self._length is None or int(self._length) > WHOLE_ANSWER_BYTES):
            stream = exchange.stream(self._status, content_type=self._content_type, headers=self._headers)
            self._stream = stream
            stream.on_drain(partial(self._drained, stream))
            stream.on_close(self._stream_over)

    def on_body(self, data: bytes) -> None:
        stream = self._stream
        if stream is None:
            self._body.append(data)
            return
        stream.write(data)
        if not stream.writable and self._transport is not None:
            self._transport.pause_reading()

    def on_message_complete(self) -> None:
        if self._exchange is None or self._status == 101:
            return
        if self._status < 200:
            self._headers = []
            return
        stream, self._stream = self._stream, None
        if stream is not None:
            self._exchange.when_client_leaves(ignore)
            stream.close()
            self._done()
        else:
            self._answer(b"".join(self._body), self._headers)

    def _answer(self, body: bytes, headers: Headers, *, length_known: bool = True) -> None:
        exchange = self._exchange
        assert exchange is not None
        exchange.when_client_leaves(ignore)
        if not exchange.answered:
            content_type = self._content_type
            exchange.respond(self._status, body, content_type=content_type, headers=headers, length_known=length_known)
        self._done()

    def _drained(self, stream: Stream) -> None:
        if self._transport is not None and self._stream is stream:
            self._transport.resume_reading()

    def _stream_over(self) -> None:
        """The client has left, or all is said."""
        if self._stream is not None:
            self._stream = None
            self.abort()

    def _done(self) -> None:
        reusable = self._sent_all and not self._closes
        self._forget()
        transport = self._transport
        if transport is None:
            return
        if reusable and not transport.is_closing():
            transport.resume_reading()
            self._idle(self)
        else:
            transport.close()

    def _become_pipe(self, already: bytes) -> None:
        exchange, transport = self._exchange, self._transport
        assert exchange is not None
        assert transport is not None
        pipe = ClientPipe(transport)
        if not exchange.upgrade(pipe, self._headers):
            if not exchange.answered:
                exchange.fail(400, "bad_request", "a connection of its own is needed")
            self._forget()
            transport.abort()
            return
        self._forget()
        self._pipe = pipe
        if already:
            pipe.to_client(already)


class ClientPipe(UpgradedProtocol):
    """The client's end of a connection that speaks another protocol with the gateway."""

    def __init__(self, gateway: asyncio.Transport) -> None:
        super().__init__()
        self._gateway = gateway
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._gateway.write(data)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._transport = None
        self._gateway.close()

    def pause_writing(self) -> None:
        if not self._gateway.is_closing():
            self._gateway.pause_reading()

    def resume_writing(self) -> None:
        if not self._gateway.is_closing():
            self._gateway.resume_reading()

    def to_client(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def pause_reading(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()
