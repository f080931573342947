"""The server's side of HTTP/1.1, for every door that speaks it.

One protocol object for each connection around the httptools parser, callbacks all the way and no task for a request.
Requests may be pipelined; answers leave in the order of the requests, whenever the handler has them. A connection has
the loop for one turn, then the others have theirs. Whatever a client can make us hold is bounded, and whoever is slow
beyond the limits is hung up on.
"""

import asyncio
import math
import ssl as tls
from collections import deque
from functools import partial
from time import perf_counter
from typing import cast

import httptools

from epoxy.transport.http import response
from epoxy.transport.http.connections import Account, Connections
from epoxy.transport.http.exchange import Exchange as Exchange
from epoxy.transport.http.exchange import Handler as Handler
from epoxy.transport.http.exchange import Heir
from epoxy.transport.http.exchange import Stream as Stream
from epoxy.transport.http.goodbye import LEAVE_S
from epoxy.transport.http.header_memo import GET, TARGET, Repetition
from epoxy.transport.http.incoming import Incoming, Refusal
from epoxy.transport.http.listener import Listener, listen
from epoxy.transport.http.phases import ConnectionPhase, patience_s
from epoxy.transport.http.request import HttpRequest as HttpRequest
from epoxy.transport.limits import SIGNED_PATHS
from epoxy.transport.limits import HttpLimits as HttpLimits
from epoxy.transport.peers.frames import PROTOCOL, FrameHandler, FrameServer
from epoxy.transport.peers.session import PeerSession

SLICE_BYTES = 16 << 10
"""The parser cannot be stopped in the middle of a piece, and the shortest request has 18 bytes: a piece of this size
overshoots the limit on pipelined requests by 900 at most, where a whole read of 256 KiB would by 14,000."""

SMALL_BYTES = 4 << 10
"""A body of that much is always taken: 40 MB for 10,000 connections. So who sends little, a peer that wants to show who
it is for one, gets in while others hold all there is."""

LAST_WORD = 503, "stopping", "the node is stopping: what this connection sends from here on is not looked at"
"""What a server that stops says on a connection where nothing is under way, asked or not. A client whose request is on
its way at that moment reads it as the answer, and it is a true one; one that is idle finds that its connection has
something to say, and throws it away."""

BODY_HEADERS = (b"content-length", b"transfer-encoding")
NO_REQUEST = HttpRequest(method="", path=b"", query=b"", headers={}, body=b"")


class StopReading(Exception):
    """Out of a callback of the parser: nothing more is wanted from this connection."""


class HttpServer(asyncio.Protocol):
    """One connection."""

    # For mypyc. The parser holds the connection and the connection the parser, so one of them has to let go.
    __deletable__ = ("_parser",)

    def __init__(self, handler: Handler, limits: HttpLimits, connections: Connections) -> None:
        self._handler = handler
        self._limits = limits
        self._connections = connections
        self._exchanges: deque[Exchange] = deque()
        self._unserved: deque[Exchange] = deque()
        self._unsent = 0
        self._turn_ends = 0.0
        self._turn_is_fresh = False
        self._stream: Stream | None = None
        self._switch: tuple[PeerSession, FrameHandler] | None = None
        self._repetition = Repetition()
        self._begun = 0
        self._phase = ConnectionPhase.REQUEST
        self._backlog = b""
        self._account = Account(connections.strangers)
        self._feeding = self._choked = self._paused = self._owes_continue = self._lingers = self._hung_up = False
        self._scheduled = self._deferred = self._on_trial = False
        self._read_deadline = self._write_deadline = math.inf
        self._incoming = Incoming(limits)

    # The transport calls these.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but name
        self._loop = asyncio.get_running_loop()
        self.certified = bool(transport.get_extra_info("peercert"))
        if self.certified:
            self.vouch()
        self._parser = httptools.HttpRequestParser(self)
        self._on_trial = not self._connections.admit(self)  # First: it sets the time that limits count from.
        self._expect(ConnectionPhase.REQUEST)
        if self._connections.draining:
            self._refuse(*LAST_WORD)
            self._steer()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._connections.forget(self)
        self._let_go()
        self._account.add(-self._account.bytes)

    def _let_go(self) -> None:
        self._phase = ConnectionPhase.NOTHING
        self._backlog = b""
        self._drop_exchanges()
        del self._parser

    def data_received(self, data: bytes) -> None:
        if self._phase is ConnectionPhase.NOTHING:
            return
        if self._backlog:
            self._backlog += data
            return
        fresh = self._phase is ConnectionPhase.REQUEST
        if fresh:
            if data.startswith(GET) and self._repeat(data):
                return
            self._expect(ConnectionPhase.HEAD)
        try:
            self._read(data, fresh)
        except Refusal as refusal:
            self._refuse(refusal.status, refusal.code, refusal.message)
        if self._switch is None:
            self._steer()

    def eof_received(self) -> bool:
        """A client that has said all it has to say may still want its answers."""
        self._phase = ConnectionPhase.NOTHING
        self._backlog = b""
        self._lingers = False
        return bool(self._exchanges) and self._stream is None and self._transport.can_write_eof()

    def pause_writing(self) -> None:
        self._choked = True
        self._write_deadline = self._connections.now + self._limits.write_timeout_s

    def resume_writing(self) -> None:
        self._choked = False
        self._write_deadline = math.inf
        self._steer()
        if self._stream is not None and self._stream.writable:
            self._stream.drained()

    # The parser calls these.

    def on_message_begin(self) -> None:
        if self._phase is ConnectionPhase.NOTHING:
            raise StopReading
        self._begun += 1
        self._incoming = Incoming(self._limits)
        self._expect(ConnectionPhase.HEAD)

    def on_url(self, url: bytes) -> None:
        self._incoming.add_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._incoming.count_head(len(name) + len(value) + 4)
        if (
            self._phase is not ConnectionPhase.BODY
        ):  # A trailer. Nobody here wants one, and it must not pass for a header.
            self._incoming.add_header(name, value)

    def on_headers_complete(self) -> None:
        self._expect(ConnectionPhase.BODY)
        incoming = self._incoming
        headers = incoming.headers
        if self._parser.should_upgrade() and not headers.keys().isdisjoint(BODY_HEADERS):
            # The parser takes the body for the first words of the other protocol.
            raise Refusal(501, "not_implemented", "no upgrade of a request with a body: speak HTTP/1.1")
        if self._on_trial and incoming.target()[0] not in SIGNED_PATHS:
            raise Refusal(*self._crowded())
        incoming.expect_body()
        self._account.add(incoming.head_size)
        if self._exchanges:
            self._check_budget()
        if headers.get(b"expect", b"").lower() == b"100-continue":
            self._owes_continue = True
            self._keep_promise()

    def on_body(self, data: bytes) -> None:
        self._incoming.add_body(data)
        self._account.add(len(data))
        if self._incoming.body_size > SMALL_BYTES:
            self._check_budget()

    def on_message_complete(self) -> None:
        self._owes_continue = False
        incoming = self._incoming
        path, query = incoming.target()
        method = self._parser.get_method().decode("ascii")
        last = not self._parser.should_keep_alive() or self._parser.should_upgrade() or self._connections.draining
        if b"connection" in incoming.headers and self._parser.get_http_version() == "1.0":
            last = True  # Its client wants `keep-alive` said back, or waits for the end: it gets the end.
        exchange = Exchange(HttpRequest(method, path, query, incoming.headers, incoming.body), self, last)
        exchange.size = incoming.head_size + incoming.body_size
        self._take(exchange)

    # Everything else.

    def advance(self) -> None:
        """Send what may be sent: the answer of the oldest request, then of the next, as far as they are there."""
        while self._exchanges and self._exchanges[0].answered:
            exchange = self._exchanges[0]
            self._transport.write(b"".join(exchange.take()))
            if exchange.stream_open:
                break
            self._exchanges.popleft()
            self._account.add(-exchange.size)
            self._unsent -= exchange.unsent
            exchange.lost()
            if exchange.close:
                self._drop_exchanges()
        if not self._feeding:
            self._steer()

    def hold(self, size: int) -> None:
        self._unsent += size
        if not self._has_room:
            unsent = self._unsent + self._transport.get_write_buffer_size()
            if unsent > self._limits.unsent_cap_bytes:
                self._transport.abort()

    def vouch(self) -> None:
        self._account.move(self._connections.peers)
        self._connections.vouch(self)
        self._on_trial = False

    def keep(self, exchange: Exchange, answer: bytes) -> None:
        request = exchange.request
        if request.method == "GET" and not request.query and not exchange.close:
            self._connections.ready.keep(request.path, answer)
            self._repetition.lasting |= request.headers is self._repetition.headers

    def switch(self, exchange: Exchange, session: PeerSession, handler: FrameHandler) -> None:
        first = exchange is self._exchanges[0] and not self._deferred
        if first and exchange.request.headers.get(b"upgrade", b"").lower() == PROTOCOL:
            self._switch = session, handler
        else:
            exchange.answered = False
            exchange.fail(400, "bad_request", f"what is here speaks {PROTOCOL.decode()}, behind nothing else")

    def flowing(self, exchange: Exchange) -> bool:
        return not self._choked and bool(self._exchanges) and self._exchanges[0] is exchange

    def follow(self, stream: Stream) -> None:
        self._stream = stream
        self._expect(ConnectionPhase.NOTHING)
        self.advance()

    def leave(self, exchange: Exchange, heir: Heir) -> None:
        """Called by a handler, so the parser is still at work and goes later. What the client sent together with its
        request is dropped: a client waits for the word that the protocol changes."""
        self._hung_up = True
        self._exchanges.clear()
        self._unserved.clear()
        self._transport.write(b"".join(exchange.take()))
        self._connections.forget(self)
        self._transport.set_protocol(heir)
        self._loop.call_soon(self.connection_lost, None)
        heir.connection_made(self._transport)

    def drain(self) -> None:
        if self._phase is not ConnectionPhase.REQUEST:
            return
        if self._exchanges:
            self._expect(ConnectionPhase.NOTHING)
            self._exchanges[-1].close = True
        else:
            self._refuse(*LAST_WORD)
        self._steer()

    def abort(self) -> None:
        self._transport.abort()

    def sweep(self, now: float) -> None:
        """Hang up if a limit on time is over."""
        if now > self._write_deadline:
            self._transport.abort()
        elif now > self._read_deadline:
            if self._phase in (ConnectionPhase.HEAD, ConnectionPhase.BODY):
                self._refuse(408, "timeout", "the request took too long to arrive")
                self._steer()
            elif self._on_trial and self._phase is ConnectionPhase.REQUEST:
                self._refuse(*self._crowded())
                self._steer()
            else:
                self._transport.abort()

    def _repeat(self, data: bytes) -> bool:
        """Serve a request that differs from the last one in nothing but its address. False: nothing was done."""
        repetition, connections = self._repetition, self._connections
        target = repetition.target(data)
        if target is None or self._full or connections.draining or len(data) > self._limits.head_bytes:
            return False
        if repetition.lasting and not self._exchanges:
            answer = connections.ready.young.get(target)
            if answer is not None:
                self._recite(answer)
                return True
        if TARGET.fullmatch(target) is None:
            return False
        path, _, query = target.partition(b"#")[0].partition(b"?")
        self._feeding = True
        self._begin_turn()
        self._take(Exchange(HttpRequest("GET", path, query, repetition.headers, b""), self, False))
        self._feeding = False
        self._steer()
        return True

    def _recite(self, answer: bytes) -> None:
        self._connections.ready.served += 1
        self._transport.write(answer)
        self._read_deadline = self._connections.now + self._limits.idle_timeout_s
        if self._choked:
            self._steer()

    def _take(self, exchange: Exchange) -> None:
        self._exchanges.append(exchange)
        self._expect(ConnectionPhase.NOTHING if exchange.close else ConnectionPhase.REQUEST)
        if self._unserved or not self._may_serve:
            self._unserved.append(exchange)
        else:
            self._serve(exchange)

    def _begin_turn(self) -> None:
        """Its first request is served however late it is: a process that was not run for a while would get nowhere, and
        a greeting of a peer cannot wait."""
        self._turn_ends = perf_counter() + self._limits.turn_s
        self._turn_is_fresh = True

    def _turn(self) -> None:
        """Serve what was read before and had to wait, as much as fits into a turn."""
        self._scheduled = False
        if not self._unserved:
            return
        self._begin_turn()
        self._feeding = self._deferred = True
        while self._unserved and self._may_serve:
            self._serve(self._unserved.popleft())
        self._feeding = self._deferred = False
        self._steer()

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
            self._repetition.learn(data, self._incoming.url, self._incoming.headers)

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
            # Frames, if the request was answered so; otherwise it was served as plain HTTP, as RFC 9110 allows.
            if self._switch is not None:
                self._become_frames(*self._switch, bytes(piece[upgrade.args[0] :]))
        except httptools.HttpParserCallbackError as error:
            match error.__context__:
                case Refusal() as refusal:
                    self._refuse(refusal.status, refusal.code, refusal.message)
                case StopReading():
                    pass
                case _:
                    raise
        except httptools.HttpParserError as error:
            if self._phase is not ConnectionPhase.NOTHING:
                self._refuse(400, "bad_request", f"not HTTP/1.1: {error}")

    def _become_frames(self, session: PeerSession, handler: FrameHandler, already: bytes) -> None:
        """From here on another object has this connection, with what it holds."""
        self._connections.forget(self)
        self._account.add(-self._account.bytes)
        self._let_go()
        server = FrameServer(session, handler, self._limits, self._connections, self._account)
        server.begin(self._transport, already)

    def _serve(self, exchange: Exchange) -> None:
        self._turn_is_fresh = False
        try:
            self._handler(exchange)
        except Exception as error:
            self._report(error)
            if not exchange.answered:
                exchange.fail(500, "internal", "a bug; the log has more", definite=False)

    def _report(self, error: Exception) -> None:
        self._loop.call_exception_handler({"message": "a request's handler failed", "exception": error})

    def _refuse(self, status: int, code: str, message: str) -> None:
        """The last answer of this connection, in its turn."""
        self._expect(ConnectionPhase.NOTHING)
        self._backlog = b""
        self._lingers = True
        exchange = Exchange(NO_REQUEST, self, True)
        self._exchanges.append(exchange)
        exchange.fail(status, code, message)

    def _crowded(self) -> tuple[int, str, str]:
        return 503, "too_many_connections", f"{self._connections.limit} connections are open already"

    def _check_budget(self) -> None:
        if self._account.exceeds(self._limits.held_bytes):
            raise Refusal(503, "busy", "too many long requests are under way")

    def _keep_promise(self) -> None:
        """100 Continue, once it is this request's turn."""
        if self._owes_continue and not self._exchanges:
            self._owes_continue = False
            self._transport.write(response.CONTINUE)

    @property
    def _has_room(self) -> bool:
        """For another answer. Otherwise the client does not read what it has, or waits for an earlier one."""
        return not self._choked and self._unsent < self._limits.unsent_bytes

    @property
    def _may_serve(self) -> bool:
        return self._has_room and (self._turn_is_fresh or perf_counter() < self._turn_ends)

    @property
    def _full(self) -> bool:
        """Enough requests, or bytes of them, are under way or wait for their turn, or too much of their answers."""
        return (
            bool(self._unserved)
            or not self._has_room
            or len(self._exchanges) >= self._limits.pipelined
            or self._account.bytes >= self._limits.pipelined_bytes
        )

    def _expect(self, phase: ConnectionPhase) -> None:
        self._phase = phase
        timeout_s = patience_s(phase, self._limits, waits_for_us=bool(self._exchanges))
        if self._on_trial and phase is not ConnectionPhase.NOTHING:
            timeout_s = self._limits.trial_s
        self._read_deadline = self._connections.now + timeout_s

    def _steer(self) -> None:
        """Go on reading, stop reading, or hang up, as things are now."""
        while self._backlog and not self._full:
            backlog, self._backlog = self._backlog, b""
            self._feed(backlog)
        if self._phase is ConnectionPhase.NOTHING and not self._exchanges:
            self._hang_up()
            return
        self._keep_promise()
        if self._unserved and self._has_room and not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._turn)
        if (self._full and self._phase is not ConnectionPhase.NOTHING) != self._paused:
            self._toggle_reading()
        elif self._phase is ConnectionPhase.REQUEST and not self._exchanges:
            self._expect(ConnectionPhase.REQUEST)

    def _toggle_reading(self) -> None:
        self._paused = not self._paused
        if self._paused:
            self._transport.pause_reading()
            self._read_deadline = math.inf
        else:
            self._transport.resume_reading()
            self._expect(self._phase)

    def _drop_exchanges(self) -> None:
        for exchange in self._exchanges:
            exchange.lost()
        self._exchanges.clear()
        self._unserved.clear()
        self._unsent = 0
        if self._stream is not None:
            stream, self._stream = self._stream, None
            stream.lost()

    def _hang_up(self) -> None:
        if self._hung_up or self._transport.is_closing():
            return
        self._hung_up = True
        self._write_deadline = self._connections.now + self._limits.write_timeout_s
        if self._lingers and self._connections.draining:
            asyncio.get_running_loop().call_later(LEAVE_S, self._part)
        if not self._lingers or not self._transport.can_write_eof():
            self._transport.close()
            return
        if self._paused:
            self._toggle_reading()
        self._transport.write_eof()
        self._read_deadline = self._connections.now + self._limits.linger_s

    def _part(self) -> None:
        """From a client that has had our last word, and time to read it, unless earlier ones are still on their way."""
        if not self._choked and not self._transport.get_write_buffer_size():
            self._transport.abort()


async def serve_http(
    handler: Handler,
    host: str,
    port: int,
    *,
    ssl: tls.SSLContext | None = None,
    limits: HttpLimits | None = None,
    connections: Connections | None = None,
) -> Listener:
    """Listen. Whoever wants to drain the connections when it is over brings its own `connections`."""
    limits = limits or HttpLimits()
    if connections is None:
        connections = Connections(limits.connections)
    make = partial(HttpServer, handler, limits, connections)
    return await listen(make, host, port, ssl)
