"""The server's side of HTTP/1.1: reading requests and serving them.

One protocol object for each connection around the httptools parser; callbacks, and no task for a request. Requests may
be pipelined; answers leave in the order of the requests. A connection serves its requests for one turn of at most
`turn_s`, then the other connections have theirs. Everything a client can make the server hold is bounded, and
connections that exceed a time limit are closed.
"""

import asyncio
import socket
from collections.abc import Sequence
from functools import partial
from time import perf_counter
from typing import cast

import httptools

from epoxy.transport.http import response
from epoxy.transport.http.connection import STOPPING, HttpConnection
from epoxy.transport.http.connections import Connections
from epoxy.transport.http.eviction import source_of
from epoxy.transport.http.exchange import Exchange, Handler
from epoxy.transport.http.header_memo import GET, TARGET
from epoxy.transport.http.incoming import Incoming, Refusal
from epoxy.transport.http.listener import Listener, listen
from epoxy.transport.http.phases import ConnectionPhase
from epoxy.transport.http.request import HttpRequest
from epoxy.transport.http.request_body import RequestBody
from epoxy.transport.http.reserves import Room
from epoxy.transport.limits import SIGNED_PATHS, HttpLimits
from epoxy.transport.peers.forwarded_mark import FORWARDED
from epoxy.transport.peers.frames import FrameHandler, FrameServer
from epoxy.transport.peers.session import PeerSession
from epoxy.transport.tls import ContextOf, certificate_names

SLICE_BYTES = 4 << 10
"""The parser cannot be stopped in the middle of a piece, and the shortest request has 18 bytes: a piece of this size
overshoots the limit on pipelined requests by 230 at most, where a whole read of 256 KiB would by 14,000; and parsing it
takes less than a millisecond, in which no other client is served."""

SMALL_BYTES = 4 << 10
"""A body of this size is accepted even when the budget is used up: 40 MB for 10,000 connections. So short requests, a
peer's handshake among them, are served while other requests use up the budget."""

BODY_HEADERS = (b"content-length", b"transfer-encoding")


class StopReading(Exception):
    """Raised in a callback of the parser: nothing more is read from this connection."""


class HttpServer(HttpConnection):
    """One connection."""

    # For mypyc. The parser holds the connection and the connection the parser, so one of them has to let go.
    __deletable__ = ("_parser",)

    def __init__(self, handler: Handler, limits: HttpLimits, connections: Connections, reserved: bool = False) -> None:
        super().__init__(limits, connections)
        self._handler = handler
        self._reserved = reserved
        self._incoming = Incoming(limits)
        self._begun = 0
        self._turn_ends = 0.0
        self._turn_is_fresh = self._turn_scheduled = self._owes_continue = self._streams = False

    # The transport calls these.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but name
        self._loop = asyncio.get_running_loop()
        certificate = transport.get_extra_info("peercert")
        self.certified = bool(certificate)
        self.certificate_names = certificate_names(certificate)
        self._parser = httptools.HttpRequestParser(self)
        source = source_of(transport.get_extra_info("peername"))
        admitted = self._connections.admit(
            self, source, reserved=self._reserved
        )  # sets the time that limits count from
        self._on_trial = not admitted
        self._expect(ConnectionPhase.REQUEST)
        if self._connections.draining:
            self._refuse(*STOPPING)
            self._update_reading()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._connections.forget(self)
        self._release()

    def _release(self) -> None:
        self._phase = ConnectionPhase.NOTHING
        self._backlog = b""
        self._drop_exchanges()
        self._account.add(-self._account.bytes)
        del self._parser

    def data_received(self, data: bytes) -> None:
        if self._phase is ConnectionPhase.NOTHING:
            return
        if self._backlog:
            self._backlog += data
            return
        fresh = self._phase is ConnectionPhase.REQUEST
        if fresh:
            if data.startswith(GET) and self._serve_with_known_headers(data):
                return
            self._expect(ConnectionPhase.HEAD)
        try:
            self._read(data, fresh)
        except Refusal as refusal:
            self._refuse(refusal.status, refusal.code, refusal.message)
        if self._switch is None:
            self._update_reading()

    def eof_received(self) -> bool:
        """A client that sends no more may still wait for its answers; what has not begun it is told at once."""
        self._phase = ConnectionPhase.NOTHING
        self._backlog = b""
        self._lingers = False
        for exchange in list(self._exchanges):
            exchange.client_leaves()
        return bool(self._exchanges) and self._stream is None and self._transport.can_write_eof()

    # The parser calls these.

    def on_message_begin(self) -> None:
        if self._phase is ConnectionPhase.NOTHING:
            raise StopReading
        self._begun += 1
        self._streams = False
        self._incoming = Incoming(self._limits)
        self._expect(ConnectionPhase.HEAD)

    def on_url(self, url: bytes) -> None:
        self._incoming.add_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._incoming.count_head(len(name) + len(value) + 4)
        if self._phase is not ConnectionPhase.BODY:  # In a body it is a trailer, and must not pass for a header.
            self._incoming.add_header(name, value)

    def on_headers_complete(self) -> None:
        self._expect(ConnectionPhase.BODY)
        incoming = self._incoming
        headers = incoming.headers
        if self._parser.should_upgrade() and not headers.keys().isdisjoint(BODY_HEADERS):
            # The parser would take the body for the first bytes of the other protocol.
            raise Refusal(501, "not_implemented", "no upgrade of a request with a body: speak HTTP/1.1")
        if self._on_trial and not self._may_prove(incoming.target()[0], headers):
            raise Refusal(*self._too_many_connections())
        incoming.expect_body()
        self._account.add(incoming.head_size)
        if self._exchanges:
            self._check_budget()
        if headers.get(b"expect", b"").lower() == b"100-continue":
            self._owes_continue = True
            self._send_continue()
        if incoming.is_streamed:
            self._begin_streamed()

    def _may_prove(self, path: bytes, headers: dict[bytes, bytes]) -> bool:
        """Whether a request on trial may prove that its client is a peer or an operator: it is signed, or comes with a
        token or a certificate. Its handler decides."""
        signed = path in SIGNED_PATHS or FORWARDED in headers
        return signed or b"authorization" in headers or bool(self.certificate_names)

    def on_body(self, data: bytes) -> None:
        if self._streams:
            self._add_streamed(data)
            return
        self._incoming.add_body(data)
        self._account.add(len(data))
        if self._incoming.body_size > SMALL_BYTES:
            self._check_budget()

    def on_message_complete(self) -> None:
        self._owes_continue = False
        if self._streams:
            self._end_streamed()
        else:
            self._accept(self._exchange())

    def _exchange(self) -> Exchange:
        incoming = self._incoming
        path, query = incoming.target()
        method = self._parser.get_method().decode("ascii")
        last = not self._parser.should_keep_alive() or self._parser.should_upgrade() or self._connections.draining
        if b"connection" in incoming.headers and self._parser.get_http_version() == "1.0":
            last = True  # HTTP/1.0 keeps a connection open only if the answer says so, and ours do not.
        exchange = Exchange(HttpRequest(method, path, query, incoming.headers, incoming.body), self, last)
        exchange.size = incoming.head_size + incoming.body_size
        return exchange

    def _begin_streamed(self) -> None:
        """Serve a request whose body is still to come."""
        self._streams = True
        exchange = self._exchange()
        self._body = exchange.body = RequestBody(self._body_read)
        self._accept(exchange)
        if self._body is not None:
            self._expect(ConnectionPhase.BODY)

    def _add_streamed(self, data: bytes) -> None:
        """A request that is answered already has no body any more."""
        body = self._body
        if body is None:
            return
        self._incoming.body_size += len(data)
        self._account.add(len(data))
        if self._account.exceeds(self._limits.held_bytes):
            self._transport.abort()
            return
        self._expect(ConnectionPhase.BODY)
        body.arrived(data)

    def _end_streamed(self) -> None:
        body, self._body = self._body, None
        if body is not None:
            if self._connections.draining and self._exchanges:
                self._exchanges[-1].close = True
            last = bool(self._exchanges) and self._exchanges[-1].close
            self._expect(ConnectionPhase.NOTHING if last else ConnectionPhase.REQUEST)
            body.finish()

    def _body_read(self, size: int) -> None:
        self._account.add(-size)
        if not self._feeding:
            self._update_reading()

    def _check_budget(self) -> None:
        limits = self._limits
        if self._account.exceeds(limits.peer_held_bytes if self._is_peer else limits.held_bytes):
            raise Refusal(503, "busy", "too many long requests are under way")

    def _send_continue(self) -> None:
        """100 Continue, once all earlier requests are answered."""
        if self._owes_continue and not self._exchanges:
            self._owes_continue = False
            self._transport.write(response.CONTINUE)

    # Serving

    def _serve_with_known_headers(self, data: bytes) -> bool:
        """Serve a request that differs from the last one in its address alone. False: nothing was done."""
        memo, connections = self._header_memo, self._connections
        target = memo.target(data)
        if target is None or self._full or connections.draining or len(data) > self._limits.head_bytes:
            return False
        if memo.lasting and not self._exchanges:
            cache = connections.response_cache
            answer = cache.young.get(target)
            if answer is not None and memo.generation == cache.generation and target.startswith(memo.lasting):
                cache.served += 1
                self._transport.write(answer)
                self._read_deadline = connections.now + self._limits.idle_timeout_s
                if self._write_paused:
                    self._update_reading()
                return True
        if TARGET.fullmatch(target) is None:
            return False
        path, _, query = target.partition(b"#")[0].partition(b"?")
        self._feeding = True
        self._begin_turn()
        self._accept(Exchange(HttpRequest("GET", path, query, memo.headers, b""), self, False))
        self._feeding = False
        self._update_reading()
        return True

    def _accept(self, exchange: Exchange) -> None:
        exchange.generation = self._connections.response_cache.generation
        self._exchanges.append(exchange)
        self._expect(ConnectionPhase.NOTHING if exchange.close else ConnectionPhase.REQUEST)
        if self._unserved or not self._may_serve:
            self._unserved.append(exchange)
        else:
            self._serve(exchange)

    def _serve(self, exchange: Exchange) -> None:
        self._turn_is_fresh = False
        try:
            self._handler(exchange)
        except Exception as error:
            self._loop.call_exception_handler({"message": "a request's handler failed", "exception": error})
            if not exchange.answered:
                exchange.fail(500, "internal", "a bug; the log has more", definite=False)

    def _begin_turn(self) -> None:
        """The first request is served even if the turn is over by then: a process that gets little CPU must make
        progress, and a peer's handshake cannot wait."""
        self._turn_ends = perf_counter() + self._connections.turns.turn_s(self._limits.turn_s)
        self._turn_is_fresh = True

    def _later_turn(self) -> None:
        """Serve requests that were read in an earlier turn, as many as fit into this one."""
        self._turn_scheduled = False
        self._connections.turns.waiting -= 1
        if not self._unserved:
            return
        self._begin_turn()
        self._feeding = self._in_later_turn = True
        while self._unserved and self._may_serve:
            self._serve(self._unserved.popleft())
        self._feeding = self._in_later_turn = False
        self._update_reading()

    @property
    def _may_serve(self) -> bool:
        return self._has_room and (self._turn_is_fresh or perf_counter() < self._turn_ends)

    # Reading

    def _read(self, data: bytes, fresh: bool) -> None:
        """`fresh`: it begins a request."""
        before = self._incoming
        if self._phase is ConnectionPhase.BODY:
            before.count_framing(len(data))
        self._begun = 0
        self._begin_turn()
        self._feed(data)
        if self._phase is ConnectionPhase.HEAD and self._incoming is before:
            before.count_unfinished(len(data))
        elif fresh and self._begun == 1 and self._phase is ConnectionPhase.REQUEST and not self._backlog:
            self._header_memo.learn(data, self._incoming.url, self._incoming.headers)

    def _feed(self, data: bytes) -> None:
        self._feeding = True
        view = memoryview(data)
        for start in range(0, len(data), SLICE_BYTES):
            if self._phase is ConnectionPhase.NOTHING:
                break
            if self._full:
                self._backlog = bytes(view[start:])
                break
            self._parse(view[start : start + SLICE_BYTES])
        self._feeding = False

    def _parse(self, piece: memoryview) -> None:
        try:
            self._parser.feed_data(piece)
        except httptools.HttpParserUpgrade as upgrade:
            # If the handler did not switch, the request was served as plain HTTP, as RFC 9110 allows.
            if self._switch is not None:
                self._become_frames(*self._switch, bytes(piece[upgrade.args[0] :]))
        except httptools.HttpParserCallbackError as error:
            match error.__context__:
                case Refusal() as refusal:
                    # Its frames hold the body, and it is a name in one of them: a cycle that is collected much later.
                    refusal.__traceback__ = None
                    self._refuse(refusal.status, refusal.code, refusal.message)
                case StopReading():
                    pass
                case _:
                    raise
        except httptools.HttpParserError as error:
            if self._phase is not ConnectionPhase.NOTHING:
                self._refuse(400, "bad_request", f"not HTTP/1.1: {error}")

    def _become_frames(self, session: PeerSession, handler: FrameHandler, already: bytes) -> None:
        """A `FrameServer` takes over the connection and its account."""
        self._connections.forget(self)
        self._release()
        server = FrameServer(session, handler, self._limits, self._connections, self._account)
        server.begin(self._transport, already)

    @property
    def _full(self) -> bool:
        """Too many requests, or bytes of them, are under way or wait for a turn, or too many answers wait to leave."""
        return (
            bool(self._unserved)
            or not self._has_room
            or len(self._exchanges) >= self._limits.pipelined
            or self._account.bytes >= self._limits.pipelined_bytes
            or (self._body is not None and self._body.is_full)
        )

    def _update_reading(self) -> None:
        while self._backlog and not self._full:
            backlog, self._backlog = self._backlog, b""
            self._feed(backlog)
        if self._phase is ConnectionPhase.NOTHING and not self._exchanges:
            self._close()
            return
        self._send_continue()
        if self._unserved and self._has_room and not self._turn_scheduled:
            self._turn_scheduled = True
            self._connections.turns.waiting += 1
            self._loop.call_soon(self._later_turn)
        if (self._full and self._phase is not ConnectionPhase.NOTHING) != self._read_paused:
            self._toggle_reading()
        elif self._phase is ConnectionPhase.REQUEST and not self._exchanges:
            self._expect(ConnectionPhase.REQUEST)


async def serve_http(
    handler: Handler,
    host: str,
    port: int,
    *,
    ssl: ContextOf | None = None,
    limits: HttpLimits | None = None,
    connections: Connections | None = None,
    room: Room | None = None,
    sockets: Sequence[socket.socket] = (),
) -> Listener:
    """Listen. A caller that drains the connections at the end brings its own `connections`."""
    limits = limits or HttpLimits()
    if connections is None:
        connections = Connections(limits.connections)
    make = partial(HttpServer, handler, limits, connections)
    return await listen(make, host, port, ssl, reserved=partial(make, True), room=room, sockets=sockets)
