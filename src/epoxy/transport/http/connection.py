"""The sending half of an HTTP connection: answers in order, time limits, and its end. `server.py` has the rest."""

import asyncio
import math
from collections import deque

from epoxy.transport.holdings import BUSY_S
from epoxy.transport.http.connections import Account, Connections
from epoxy.transport.http.exchange import Exchange, Stream
from epoxy.transport.http.graceful_close import CLOSE_DELAY_S
from epoxy.transport.http.header_memo import HeaderMemo
from epoxy.transport.http.phases import ConnectionPhase, patience_s
from epoxy.transport.http.request import HttpRequest
from epoxy.transport.http.request_body import RequestBody
from epoxy.transport.http.upgraded import UpgradedProtocol
from epoxy.transport.limits import HttpLimits
from epoxy.transport.peers.frames import FrameHandler
from epoxy.transport.peers.negotiation import version_of
from epoxy.transport.peers.session import PeerSession

STOPPING = 503, "stopping", "the node is stopping: further requests on this connection are not read"
"""Sent unasked on an idle connection when the server stops. A client whose request is on its way reads it as the
answer, and it is a true one; a client's pool finds unexpected bytes on the connection and discards it."""

NO_REQUEST = HttpRequest(method="", path=b"", query=b"", headers={}, body=b"")


class HttpConnection(asyncio.Protocol):
    """Implements `Owner`, the interface that its exchanges use."""

    _transport: asyncio.Transport
    _loop: asyncio.AbstractEventLoop
    certified: bool
    certificate_names: tuple[str, ...]

    def __init__(self, limits: HttpLimits, connections: Connections) -> None:
        self._limits = limits
        self._connections = connections
        self._account = Account(connections.client_budget)
        self._exchanges: deque[Exchange] = deque()
        self._unserved: deque[Exchange] = deque()
        self._unsent = self._last_sent = 0
        self._stream: Stream | None = None
        self._body: RequestBody | None = None
        self._switch: tuple[PeerSession, FrameHandler] | None = None
        self._header_memo = HeaderMemo()
        self._phase = ConnectionPhase.REQUEST
        self._backlog = b""
        self._write_paused = self._read_paused = self._lingers = self._closing = self._on_trial = False
        self._feeding = self._in_later_turn = self._is_peer = self._stalled = False
        self._read_deadline = self._write_deadline = math.inf

    def _update_reading(self) -> None:
        """Read on, pause reading, or close, as the state of the connection demands."""
        raise NotImplementedError

    def pause_writing(self) -> None:
        self._write_paused = True
        self._write_deadline = self._connections.now + self._limits.write_timeout_s
        self._note_unsent()

    def resume_writing(self) -> None:
        self._write_paused = False
        self._connections.holdings.forget(self)
        self._write_deadline = math.inf
        self._update_reading()
        if self._stream is not None and self._stream.writable:
            self._stream.drained()

    # Answers

    def advance(self) -> None:
        """Send the answers that are ready, in the order of the requests, up to the first that is not."""
        while self._exchanges and self._exchanges[0].answered:
            exchange = self._exchanges[0]
            data = b"".join(exchange.take())
            self._last_sent = len(data)
            self._transport.write(data)
            if exchange.stream_open:
                break
            self._exchanges.popleft()
            if self._stream is not None and self._stream.writable:  # It waited for this answer.
                self._stream.drained()
            self._account.add(-exchange.size)
            self._unsent -= exchange.unsent
            exchange.lost()
            if exchange.close:
                self._drop_exchanges()
        if not self._feeding:
            self._update_reading()

    @property
    def is_busy(self) -> bool:
        return self._connections.holdings.is_full and not self._is_peer

    def stall(self) -> None:
        if not self._stalled:
            self._stalled = True
            self._loop.call_later(BUSY_S, self._go_on)

    def _go_on(self) -> None:
        self._stalled = False
        if not self._closing and not self._transport.is_closing():
            self._update_reading()

    def count_unsent(self, size: int) -> None:
        self._unsent += size
        if not self._has_room:
            self._note_unsent()

    def _note_unsent(self) -> None:
        unsent = self._unsent + self._transport.get_write_buffer_size() + self._last_sent  # Kept until all is sent.
        if unsent > self._limits.unsent_cap_bytes:
            self._transport.abort()
        else:
            self._connections.note_unsent(self, unsent)

    @property
    def _has_room(self) -> bool:
        """Room for another answer. False: the client does not read its answers, or they wait for an earlier one."""
        return not (self._write_paused or self._stalled) and self._unsent < self._limits.unsent_bytes

    def flowing(self, exchange: Exchange) -> bool:
        return not self._write_paused and bool(self._exchanges) and self._exchanges[0] is exchange

    def attach_stream(self, stream: Stream) -> None:
        """It is the last answer of its connection. Requests that were read behind its own are dropped: a second stream
        would take its place, and the first would never end."""
        self._stream = stream
        while self._unserved:
            dropped = self._unserved.pop()
            self._exchanges.pop()
            self._account.add(-dropped.size)
            dropped.lost()
        if self._body is None:
            self._expect(ConnectionPhase.NOTHING)
        self.advance()

    def cache_response(self, exchange: Exchange, answer: bytes, lasting: tuple[bytes, ...]) -> None:
        request, cache, memo = exchange.request, self._connections.response_cache, self._header_memo
        if request.method == "GET" and not request.query and not exchange.close:
            cache.keep(request.path, answer)
            if request.headers is memo.headers and exchange.generation == cache.generation:
                memo.lasting, memo.generation = lasting, cache.generation

    def shrink(self, exchange: Exchange, size: int) -> None:
        exchange.size -= size
        self._account.add(-size)

    @property
    def address(self) -> str:
        found = self._transport.get_extra_info("peername")
        return str(found[0]) if isinstance(found, tuple) else ""

    def switch(self, exchange: Exchange, session: PeerSession, handler: FrameHandler) -> None:
        first = exchange is self._exchanges[0] and not self._in_later_turn
        if first and version_of(exchange.request.headers.get(b"upgrade", b"")) is not None:
            self._switch = session, handler
        else:
            exchange.answered = False
            exchange.fail(400, "bad_request", "frames are asked for by the first request of a connection")

    def upgrade(self, exchange: Exchange, protocol: UpgradedProtocol) -> None:
        """A handler calls this while the parser is at work, so the parser is released later. What the client sent
        together with its request is dropped: it has to wait for the answer before it speaks the other protocol."""
        self._closing = True
        self._exchanges.clear()
        self._unserved.clear()
        self._transport.write(b"".join(exchange.take()))
        self._connections.forget(self)
        protocol.holdings = self._connections.holdings
        self._transport.set_protocol(protocol)
        self._loop.call_soon(self.connection_lost, None)
        protocol.connection_made(self._transport)

    def mark_as_peer(self) -> None:
        self._is_peer = True
        self._account.move(self._connections.peer_budget)
        self._connections.mark_as_peer(self)
        self._on_trial = False

    @property
    def on_trial(self) -> bool:
        return self._on_trial

    def mark_as_operator(self) -> bool:
        self._on_trial = not self._connections.mark_as_operator(self)
        return not self._on_trial

    def _refuse(self, status: int, code: str, message: str) -> None:
        """The last answer of this connection, after those of earlier requests. A request that is served while its body
        arrives has its answer already, or waits for the rest."""
        if self._body is not None:
            self._transport.abort()
            return
        self._expect(ConnectionPhase.NOTHING)
        self._backlog = b""
        self._lingers = True
        exchange = Exchange(NO_REQUEST, self, True)
        self._exchanges.append(exchange)
        exchange.fail(status, code, message)

    def _too_many_connections(self) -> tuple[int, str, str]:
        return 503, "too_many_connections", f"{self._connections.limit} connections are open already"

    def _drop_exchanges(self) -> None:
        if self._body is not None:
            self._give_up_body(self._body)
        for exchange in self._exchanges:
            exchange.lost()
        self._exchanges.clear()
        self._unserved.clear()
        self._unsent = 0
        if self._stream is not None:
            stream, self._stream = self._stream, None
            stream.lost()

    def _give_up_body(self, body: RequestBody) -> None:
        """It is answered, or lost, before all of it came."""
        self._body = None
        self._account.add(-body.size)
        body.drop()
        self._backlog = b""
        self._lingers = True
        self._expect(ConnectionPhase.NOTHING)

    # Time limits

    def _expect(self, phase: ConnectionPhase) -> None:
        self._phase = phase
        timeout_s = patience_s(phase, self._limits, awaits_answers=bool(self._exchanges))
        if self._on_trial and phase is not ConnectionPhase.NOTHING:
            timeout_s = self._limits.trial_s
        self._read_deadline = self._connections.now + timeout_s

    def sweep(self, now: float) -> None:
        if now > self._write_deadline:
            self._transport.abort()
        elif now > self._read_deadline:
            if self._phase in (ConnectionPhase.HEAD, ConnectionPhase.BODY):
                self._refuse(408, "timeout", "the request took too long to arrive")
                self._update_reading()
            elif self._on_trial and self._phase is ConnectionPhase.REQUEST:
                self._refuse(*self._too_many_connections())
                self._update_reading()
            else:
                self._transport.abort()

    def _toggle_reading(self) -> None:
        self._read_paused = not self._read_paused
        if self._read_paused:
            self._transport.pause_reading()
            self._read_deadline = math.inf
        else:
            self._transport.resume_reading()
            self._expect(self._phase)

    # The end

    def drain(self) -> None:
        if self._phase is not ConnectionPhase.REQUEST:
            return
        if self._exchanges:
            self._expect(ConnectionPhase.NOTHING)
            self._exchanges[-1].close = True
        else:
            self._refuse(*STOPPING)
        self._update_reading()

    def abort(self) -> None:
        self._transport.abort()

    def _close(self) -> None:
        if self._closing or self._transport.is_closing():
            return
        self._closing = True
        self._write_deadline = self._connections.now + self._limits.write_timeout_s
        if self._lingers and self._connections.draining:
            asyncio.get_running_loop().call_later(CLOSE_DELAY_S, self._abort_if_flushed)
        if not self._lingers or not self._transport.can_write_eof():
            self._transport.close()
            return
        if self._read_paused:
            self._toggle_reading()
        self._transport.write_eof()
        self._read_deadline = self._connections.now + self._limits.linger_s

    def _abort_if_flushed(self) -> None:
        """The client had time to read the last answer. If earlier ones are not sent yet, the sweep aborts later."""
        if not self._write_paused and not self._transport.get_write_buffer_size():
            self._transport.abort()
