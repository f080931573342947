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
from epoxy.transport.http.exchange import Exchange, UpgradedProtocol

MAX_MESSAGE_BYTES = 2 << 20
"""An actor's answer of a megabyte in base64, or the names of the actors of the largest envoy."""

MAX_UNSENT_BYTES = 8 << 20
"""A connection that leaves more unread, be it messages or answers to its pings, is aborted. An envoy is sent
everything again when it reconnects."""

SLICE_BYTES = 4 << 10
"""Read in one go: seven hundred of the shortest frames at most, some milliseconds."""

TURN_S = 0.001
"""As long as pipelined requests of one HTTP connection have (`HttpLimits.turn_s`)."""

CLOSE_S = 5.0
"""For the client to answer a close frame."""


class WebSocketListener(Protocol):
    def heard(self, message: bytes) -> None: ...

    def lost(self) -> None:
        """Called once, when either side has ended the connection."""


class WebSocket(UpgradedProtocol):
    """One connection. `listen` makes the object that receives its messages."""

    def __init__(self, listen: Callable[["WebSocket"], WebSocketListener]) -> None:
        super().__init__()
        self._framing = Framing(Side.SERVER, state=State.OPEN, max_size=MAX_MESSAGE_BYTES)
        self._pieces: list[bytes] = []
        self._partial = 0
        self._is_held = False
        self._backlog = b""
        self._scheduled = self._paused = False
        self._transport: asyncio.Transport | None = None
        self._listen = listen
        self._listener: WebSocketListener | None = None

    def send(self, message: bytes) -> None:
        if self._transport is None or self._framing.state is not State.OPEN:
            return
        self._framing.send_text(message)
        self._flush()
        self._note()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()
        self._backlog = b""

    def close(self, reason: str = "") -> None:
        if self._transport is not None and self._framing.state is State.OPEN:
            self._framing.send_close(CloseCode.GOING_AWAY, reason)
            self._flush()
            asyncio.get_running_loop().call_later(CLOSE_S, self._transport.abort)

    # The transport calls these.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but name
        self._listener = self._listen(self)

    def data_received(self, data: bytes) -> None:
        self._backlog += data
        if not self._scheduled:
            self._turn()

    def eof_received(self) -> bool:
        self._backlog = b""
        self._framing.receive_eof()
        return False

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._transport = None
        self._backlog = b""
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
        while self._backlog and self._transport is not None:
            piece, self._backlog = self._backlog[:SLICE_BYTES], self._backlog[SLICE_BYTES:]
            self._digest(piece)
            if self._backlog and perf_counter() > ends:
                self._scheduled = True
                asyncio.get_running_loop().call_soon(self._turn)
                break
        if self._transport is not None and self._scheduled != self._paused:
            self._paused = self._scheduled
            (self._transport.pause_reading if self._paused else self._transport.resume_reading)()

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
            if frame.data:  # Empty ones add nothing to the size that is limited.
                self._pieces.append(bytes(frame.data))
            if frame.fin:
                self._partial = 0
                message, self._pieces = b"".join(self._pieces), []
                if self._listener is not None:
                    self._listener.heard(message)

    def _flush(self) -> None:
        if self._transport is None:
            return
        for data in self._framing.data_to_send():
            if data:
                self._transport.write(data)
            else:
                self._transport.close()


def accept(exchange: Exchange, listen: Callable[[WebSocket], WebSocketListener]) -> None:
    """Answer the handshake, or refuse it with a reason."""
    asked = exchange.request.headers
    key = asked.get(b"sec-websocket-key", b"")
    if exchange.request.method != "GET" or asked.get(b"upgrade", b"").lower() != b"websocket" or not key:
        exchange.fail(426, "upgrade_required", "a WebSocket: the request lacks the headers of its handshake")
    elif asked.get(b"sec-websocket-version") != b"13":
        exchange.fail(426, "upgrade_required", "version 13 of the WebSocket protocol is spoken here")
    elif b"origin" in asked:
        exchange.fail(403, "forbidden", "refused to browsers: a page of another origin could pretend to be an envoy")
    else:
        proof = accept_key(key.decode("latin-1")).encode()
        headers = ((b"upgrade", b"websocket"), (b"sec-websocket-accept", proof))
        if not exchange.upgrade(WebSocket(listen), headers):
            exchange.fail(400, "bad_request", "a WebSocket is opened on a connection of its own")
