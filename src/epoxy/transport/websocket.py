"""The server's side of a WebSocket, on a connection that the HTTP door gives away. Messages are whole."""

import asyncio
import base64
import hashlib
from collections.abc import Callable
from typing import Protocol, cast

from websockets.frames import CloseCode, Frame, Opcode
from websockets.protocol import Protocol as Framing
from websockets.protocol import Side, State

from epoxy.transport.exchange import Exchange

GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
"""RFC 6455, section 1.3: what proves that whoever answers knows what a WebSocket is."""

MAX_MESSAGE_BYTES = 2 << 20
"""An actor's answer of a megabyte in base64, or the names of the actors of the largest envoy."""

MAX_UNSENT_BYTES = 8 << 20
"""Whoever reads so slowly is hung up on: it will be told everything again when it comes back."""

CLOSE_S = 5.0
"""For the other side to say goodbye."""


class Listener(Protocol):
    def heard(self, message: bytes) -> None: ...

    def lost(self) -> None:
        """Once, when the connection has ended, whoever ended it."""


class WebSocket(asyncio.Protocol):
    """One connection. `listener` is told what comes."""

    def __init__(self, listen: Callable[["WebSocket"], Listener]) -> None:
        self._framing = Framing(Side.SERVER, state=State.OPEN, max_size=MAX_MESSAGE_BYTES)
        self._pieces: list[bytes] = []
        self._transport: asyncio.Transport | None = None
        self._listen = listen
        self._listener: Listener | None = None

    def send(self, message: bytes) -> None:
        if self._transport is None or self._framing.state is not State.OPEN:
            return
        self._framing.send_text(message)
        self._flush()
        if self._transport.get_write_buffer_size() > MAX_UNSENT_BYTES:
            self._transport.abort()

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
        self._framing.receive_data(data)
        for event in self._framing.events_received():
            if isinstance(event, Frame):
                self._read(event)
        self._flush()

    def eof_received(self) -> bool:
        self._framing.receive_eof()
        return False

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._transport = None
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.lost()

    def _read(self, frame: Frame) -> None:
        """The framing answers pings and closes by itself, and keeps the order of fragments and their size."""
        if frame.opcode in (Opcode.TEXT, Opcode.BINARY, Opcode.CONT):
            self._pieces.append(bytes(frame.data))
            if frame.fin:
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


def accept(exchange: Exchange, listen: Callable[[WebSocket], Listener]) -> None:
    """The handshake, or a definite answer why not."""
    asked = exchange.request.headers
    key = asked.get(b"sec-websocket-key", b"")
    if exchange.request.method != "GET" or asked.get(b"upgrade", b"").lower() != b"websocket" or not key:
        exchange.fail(426, "upgrade_required", "this is a WebSocket: connect to it as to one")
    elif asked.get(b"sec-websocket-version") != b"13":
        exchange.fail(426, "upgrade_required", "version 13 of the WebSocket protocol is spoken here")
    elif b"origin" in asked:
        exchange.fail(403, "forbidden", "not from a browser: a page of somebody else's could pretend to be an envoy")
    else:
        proof = base64.b64encode(hashlib.sha1(key + GUID).digest())
        headers = ((b"upgrade", b"websocket"), (b"sec-websocket-accept", proof))
        if not exchange.leave_to(WebSocket(listen), headers):
            exchange.fail(400, "bad_request", "a WebSocket is opened on a connection of its own")
