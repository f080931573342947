"""WebSockets of an actor's clients, as its code sees them."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from epoxy.client.hosted.headers import HeaderMap
from epoxy.client.hosted.windows import SendWindow
from epoxy.model.errors import InvalidRequest
from epoxy.model.exchanges import MAX_ATTACHMENT_BYTES, MAX_PIECE_BYTES, Head, HeldSocket, Piece, RequestHead, Reset

MAX_UNSENT_BYTES = 4 << 20
"""Messages of one socket that wait for their save or for a slow client. With more of them it is closed (1013): the
actor must not collect what a client does not read."""

DRAINED_BYTES = 64 << 10

NORMAL, TOO_SLOW = 1000, 1013
MAX_REASON_BYTES = 123
"""Of a close frame."""


class SocketHost(Protocol):
    """What a socket needs of its actor."""

    def emit(self, then: Callable[[], None], size: int = 0, dropped: Callable[[], None] | None = None) -> None: ...

    def send(self, message: Head | Piece | Reset) -> None: ...

    def point(self) -> None: ...

    def socket_closed(self, socket: "Socket") -> None: ...


class Socket:
    """A WebSocket of a client, from `on_connect` to `on_disconnect`; across sleeps of the actor, too.

    Messages leave when the changes of their turn are saved, in the order of `send`.
    """

    def __init__(self, host: SocketHost, held: HeldSocket, *, accepted: bool) -> None:
        self.stream = held.stream
        self.head = held.head
        self.is_open = True
        self.accepted = accepted
        self.seen = accepted
        """Its `on_connect` has accepted it, so there will be an `on_disconnect`."""
        self.closed_here = False
        self._protocol = held.protocol
        self._attachment = held.attachment
        self._host = host
        self._held_bytes = 0
        self._over = False
        self._changed = asyncio.Event()
        self.window = SendWindow(host.send, self._changed.set)

    def __repr__(self) -> str:
        return f"<Socket {self.id} {self.path}{'' if self.is_open else ', closed'}>"

    @property
    def id(self) -> str:
        """Differs among the sockets of an actor, and stays the same across sleeps."""
        return str(self.stream)

    @property
    def path(self) -> str:
        return self.head.path

    @property
    def query(self) -> str:
        """As it was sent, without the "?"."""
        return self.head.query

    @property
    def headers(self) -> HeaderMap:
        """Of the handshake."""
        return HeaderMap(self.head.headers)

    @property
    def caller(self) -> str:
        """The name of the grant that the client's token has; empty at a node that asks for none."""
        return self.head.caller

    @property
    def protocols(self) -> tuple[str, ...]:
        """The subprotocols that the client offers."""
        return self.head.protocols

    @property
    def protocol(self) -> str:
        """The subprotocol: the first that the client offers, unless `on_connect` sets another of them."""
        return self._protocol

    @protocol.setter
    def protocol(self, chosen: str) -> None:
        if self.accepted or (chosen and chosen not in self.head.protocols):
            raise InvalidRequest(f"on_connect may choose one of {list(self.head.protocols)}, not {chosen!r}")
        self._protocol = chosen

    @property
    def attachment(self) -> bytes:
        """What the actor notes about this socket, at most 2 KiB. It stays across sleeps; it is not in the state."""
        return self._attachment

    @attachment.setter
    def attachment(self, note: bytes) -> None:
        if not isinstance(note, bytes):
            raise TypeError(f"an attachment is bytes, not {type(note).__name__}")
        if len(note) > MAX_ATTACHMENT_BYTES:
            raise InvalidRequest(f"an attachment has at most {MAX_ATTACHMENT_BYTES:,} bytes, not {len(note):,}")
        self._attachment = note

    @property
    def unsent_bytes(self) -> int:
        return self._held_bytes + self.window.unsent_bytes

    def send(self, message: str | bytes) -> None:
        """Does nothing if the socket is closed. A client that is too slow (4 MiB unsent) is disconnected. Raises
        TypeError, and InvalidRequest for more than 1 MiB."""
        if isinstance(message, str):
            body, text = _encoded(message), True
        elif isinstance(message, bytes | bytearray | memoryview):
            body, text = bytes(message), False
        else:
            raise TypeError(f"a message is str or bytes, not {type(message).__name__}")
        if len(body) > MAX_PIECE_BYTES:
            raise InvalidRequest(f"a message has at most {MAX_PIECE_BYTES:,} bytes, not {len(body):,}")
        if not self.is_open:
            return
        if self.unsent_bytes + len(body) > MAX_UNSENT_BYTES:
            self.abort("this client is too slow", TOO_SLOW)
            return
        self.accept()
        self._emit(Piece(stream=self.stream, body=body, text=text))

    def close(self, code: int = NORMAL, reason: str = "") -> None:
        """Behind the messages that were sent. In `on_connect`, too: the client then sees this code. 1000 or 3000 to
        4999, as RFC 6455 has them for applications; others raise InvalidRequest."""
        if code != NORMAL and not 3000 <= code <= 4999:
            raise InvalidRequest(f"a WebSocket is closed with 1000, or 3000 to 4999, not {code}")
        if len(reason.encode(errors="replace")) > MAX_REASON_BYTES:
            raise InvalidRequest(f"the reason has at most {MAX_REASON_BYTES} bytes")
        if self.is_open:
            self.accept()
            self.is_open, self.closed_here = False, True
            self._host.emit(lambda: self.window.finish(lambda: self._close(code, reason)), dropped=self._reopen)

    async def drained(self) -> None:
        """Returns when little of what was sent waits any more, or the socket is closed. The changes of this turn so far
        are saved first: what follows cannot undo them."""
        self._host.point()
        while self.is_open and self.unsent_bytes > DRAINED_BYTES:
            self._changed.clear()
            await self._changed.wait()

    # The worker calls these.

    def accept(self) -> None:
        if not self.accepted:
            self.accepted = True
            self._host.emit(self._say_accepted, dropped=self._not_accepted)

    def abort(self, reason: str, code: int) -> None:
        """At once: what is unsent is dropped."""
        if self.is_open:
            self._host.send(Reset(stream=self.stream, reason=reason, code=code))
            self.ended()

    def ended(self) -> None:
        """Whichever end closed it."""
        if not self._over:
            self._over = True
            self.is_open = False
            self.window.drop()
            self._changed.set()
            self._host.socket_closed(self)

    def held(self) -> HeldSocket:
        return HeldSocket(stream=self.stream, head=self.head, protocol=self._protocol, attachment=self._attachment)

    def _emit(self, piece: Piece) -> None:
        size = len(piece.body)

        def leave() -> None:
            self._held_bytes -= size
            if not self._over:
                self.window.push(piece)

        def dropped() -> None:
            self._held_bytes -= size

        self._held_bytes += size
        self._host.emit(leave, size, dropped)

    def _say_accepted(self) -> None:
        if not self._over:
            self._host.send(Head(stream=self.stream, status=101, protocol=self._protocol))

    def _not_accepted(self) -> None:
        self.accepted = False

    def _reopen(self) -> None:
        self.is_open, self.closed_here = not self._over, False

    def _close(self, code: int, reason: str) -> None:
        self._host.send(Reset(stream=self.stream, reason=reason, code=code))
        self.ended()


def _encoded(message: str) -> bytes:
    try:
        return message.encode()
    except UnicodeEncodeError as error:
        raise InvalidRequest(f"the message is not Unicode text, at character {error.start}") from None


def new_socket(stream: int, head: RequestHead) -> HeldSocket:
    return HeldSocket(stream=stream, head=head, protocol=head.protocols[0] if head.protocols else "")
