"""The server's side of a WebSocket, on a connection that began as HTTP. Messages arrive whole."""

import asyncio
from collections.abc import Callable
from time import perf_counter
from typing import Protocol, cast

from websockets.frames import CloseCode, Frame, Opcode
from websockets.protocol import Protocol as Framing
from websockets.protocol import Side, State
from websockets.utils import accept_key

from epoxy.transport.holdings import FREE_BYTES
from epoxy.transport.http.exchange import Exchange
from epoxy.transport.http.upgraded import UpgradedProtocol

MAX_MESSAGE_BYTES = 2 << 20
"""An actor's answer of a megabyte in base64, or the names of the actors of the largest envoy."""

MAX_UNSENT_BYTES = 8 << 20
"""A connection that leaves more unread, be it messages or answers to its pings, is aborted. An envoy is sent
everything again when it reconnects."""

SLICE_BYTES = 4 << 10
"""Read in one go: seven hundred of the shortest frames at most, some milliseconds."""

TURN_S = 0.001
"""As long as pipelined requests of one HTTP connection have (`HttpLimits.turn_s`)."""

MAX_REASON_BYTES = 123
"""Of a close frame, after its code."""

SILENT_PINGS = 3
"""Without a word of the client, after which it is gone."""

SENDABLE_CODES = frozenset((1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014))

CLOSE_S = 5.0
"""For the client to answer a close frame."""


class WebSocketListener(Protocol):
    def heard(self, message: bytes, *, text: bool) -> None: ...

    def drained(self) -> None:
        """What was sent has left: the client reads."""

    def lost(self) -> None:
        """Called once, when either side has ended the connection."""


class WebSocket(UpgradedProtocol):
    """One connection. `listen` makes the object that receives its messages, of at most `max_bytes`. `ping_s`: how often
    the client is pinged; after three of these without a word of it the connection is aborted. 0: never."""

    def __init__(
        self,
        listen: Callable[["WebSocket"], WebSocketListener],
        max_bytes: int = MAX_MESSAGE_BYTES,
        ping_s: float = 0.0,
    ) -> None:
        super().__init__()
        self._framing = Framing(Side.SERVER, state=State.OPEN, max_size=max_bytes)
        self._ping_s = ping_s
        self._silent_pings = 0
        self._timer: asyncio.TimerHandle | None = None
        self.writable = True
        """False: the client does not read."""
        self._pieces: list[bytes] = []
        self._is_text = False
        self._partial = 0
        self._is_held = False
        self._backlog = b""
        self._read_to = 0
        self._scheduled = self._paused = self._asked_to_pause = False
        self._transport: asyncio.Transport | None = None
        self._listen = listen
        self._listener: WebSocketListener | None = None

    def send(self, message: bytes, *, text: bool = True) -> None:
        if self._transport is None or self._framing.state is not State.OPEN:
            return
        if text:
            self._framing.send_text(message)
        else:
            self._framing.send_binary(message)
        self._flush()
        self._note()

    def pause_reading(self) -> None:
        """The listener has enough for now. It may still hear what came in the same read."""
        self._asked_to_pause = True
        self._set_reading()

    def resume_reading(self) -> None:
        self._asked_to_pause = False
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._turn)

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()
        self._drop_backlog()

    def close(self, reason: str = "", code: int = CloseCode.GOING_AWAY) -> None:
        """A reason that is too long for a close frame is cut."""
        if self._transport is not None and self._framing.state is State.OPEN:
            short = reason.encode(errors="replace")[:MAX_REASON_BYTES].decode(errors="ignore")
            self._framing.send_close(code if is_sendable(code) else CloseCode.INTERNAL_ERROR, short)
            self._flush()
            asyncio.get_running_loop().call_later(CLOSE_S, self._transport.abort)

    @property
    def closed_with(self) -> tuple[int, str]:
        """The code and the reason of the client's close frame, or of the end without one."""
        said = self._framing.close_rcvd
        return (int(said.code), said.reason) if said is not None else (int(CloseCode.ABNORMAL_CLOSURE), "")

    def _ping(self) -> None:
        """A ping that is sent counts as silence until anything comes."""
        if self._transport is None or self._framing.state is not State.OPEN:
            return
        if self._silent_pings >= SILENT_PINGS:
            self.abort()
            return
        self._silent_pings += 1
        self._framing.send_ping(b"")
        self._flush()
        self._timer = asyncio.get_running_loop().call_later(self._ping_s, self._ping)

    # The transport calls these.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but name
        self._listener = self._listen(self)
        if self._ping_s:
            self._timer = asyncio.get_running_loop().call_later(self._ping_s, self._ping)

    def pause_writing(self) -> None:
        self.writable = False

    def resume_writing(self) -> None:
        self.writable = True
        if self._listener is not None:
            self._listener.drained()

    def data_received(self, data: bytes) -> None:
        self._silent_pings = 0
        self._backlog = self._backlog[self._read_to :] + data
        self._read_to = 0
        if not self._scheduled:
            self._turn()

    def eof_received(self) -> bool:
        self._drop_backlog()
        self._framing.receive_eof()
        return False

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._transport = None
        if self._timer is not None:
            self._timer.cancel()
        self._drop_backlog()
        self._pieces = []
        self.holdings.forget(self)
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.lost()

    def _turn(self) -> None:
        """Read what came for at most one turn, then let other connections have theirs. The shortest frame has six
        bytes, so one read of a socket may hold forty thousand."""
        self._scheduled = False
        ends = perf_counter() + TURN_S
        while self._read_to < len(self._backlog) and self._transport is not None and not self._asked_to_pause:
            piece = self._backlog[self._read_to : self._read_to + SLICE_BYTES]
            self._read_to += len(piece)
            self._digest(piece)
            if self._read_to < len(self._backlog) and perf_counter() > ends:
                self._scheduled = True
                asyncio.get_running_loop().call_soon(self._turn)
                break
        if self._read_to >= len(self._backlog):
            self._drop_backlog()
        self._set_reading()

    def _drop_backlog(self) -> None:
        self._backlog = b""
        self._read_to = 0

    def _set_reading(self) -> None:
        paused = self._scheduled or self._asked_to_pause
        if self._transport is not None and paused != self._paused:
            self._paused = paused
            (self._transport.pause_reading if paused else self._transport.resume_reading)()

    def _digest(self, piece: bytes) -> None:
        self._partial += len(piece)
        self._framing.receive_data(piece)
        for event in self._framing.events_received():
            if isinstance(event, Frame):
                self._read(event)
        self._flush()
        self._note()

    def _note(self) -> None:
        """What is unread, and what has come of a message that is not complete."""
        if self._transport is None:
            return
        unread = self._transport.get_write_buffer_size()
        if unread > MAX_UNSENT_BYTES:
            self.abort()
        elif self._is_held or unread + self._partial > FREE_BYTES:
            self._is_held = self.holdings.note(self, unread + self._partial)

    def _read(self, frame: Frame) -> None:
        """The framing answers pings and closes by itself, and checks the order of fragments and their size."""
        if frame.opcode in (Opcode.TEXT, Opcode.BINARY, Opcode.CONT):
            if frame.opcode is not Opcode.CONT:
                self._is_text = frame.opcode is Opcode.TEXT
            if frame.data:  # Empty ones add nothing to the size that is limited.
                self._pieces.append(bytes(frame.data))
            if frame.fin:
                self._partial = 0
                message, self._pieces = b"".join(self._pieces), []
                if self._listener is not None:
                    self._listener.heard(message, text=self._is_text)

    def _flush(self) -> None:
        if self._transport is None:
            return
        for data in self._framing.data_to_send():
            if data:
                self._transport.write(data)
            else:
                self._transport.close()


def is_sendable(code: int) -> bool:
    """Codes that a close frame may have (RFC 6455, 7.4)."""
    return 3000 <= code <= 4999 or code in SENDABLE_CODES


def objection(exchange: Exchange) -> str | None:
    """Why a request is no handshake; None: it is one."""
    asked = exchange.request.headers
    is_asked = asked.get(b"upgrade", b"").lower() == b"websocket" and bool(asked.get(b"sec-websocket-key"))
    if exchange.request.method != "GET" or not is_asked:
        return "a WebSocket: the request lacks the headers of its handshake"
    if asked.get(b"sec-websocket-version") != b"13":
        return "version 13 of the WebSocket protocol is spoken here"
    return None


def switch(exchange: Exchange, socket: WebSocket, protocol: str = "") -> bool:
    """Answer a handshake that has no objection. False: nothing was done, because other answers of the connection come
    first, or it is lost."""
    key = exchange.request.headers[b"sec-websocket-key"].decode("latin-1")
    headers = [(b"upgrade", b"websocket"), (b"sec-websocket-accept", accept_key(key).encode())]
    if protocol:
        headers.append((b"sec-websocket-protocol", protocol.encode("latin-1")))
    return exchange.upgrade(socket, headers)


def accept(exchange: Exchange, listen: Callable[[WebSocket], WebSocketListener]) -> None:
    """Answer the handshake of a client that is no browser, or refuse it with a reason."""
    reason = objection(exchange)
    if reason is not None:
        exchange.fail(426, "upgrade_required", reason)
    elif b"origin" in exchange.request.headers:
        exchange.fail(403, "forbidden", "refused to browsers: a page of another origin could pretend to be an envoy")
    elif not switch(exchange, WebSocket(listen)):
        exchange.fail(400, "bad_request", "a WebSocket is opened on a connection of its own")
