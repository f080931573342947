"""A WebSocket of a client, a browser's among them, to an actor: each message is one piece of a stream.

It is opened when the actor has accepted it. A way that breaks, an actor that moves or ends, and a node that stops close
it with 1012, after which the client connects again; what is too much with 1013.
"""

from collections import deque
from collections.abc import Callable

from epoxy.actors.messages import OwnerUnavailable, Responded, Unknown, Verdict
from epoxy.actors.streams import CLOSE_MOVED, FromActor, FromClient, Upward
from epoxy.api.http.actor_streams import CREDIT_BYTES, MAX_UNREAD_BYTES, BadAnswer, answer_headers
from epoxy.api.http.authorization import TOKEN_PROTOCOL
from epoxy.api.http.calls import ApiCall
from epoxy.model.exchanges import MAX_PIECE_BYTES, Credit, Head, Piece, Reset, cost
from epoxy.transport.http import websocket
from epoxy.transport.http.websocket import WebSocket

MAX_SOCKETS = 8192
"""Of clients to actors, at one node."""

PING_S = 20.0
"""Between two pings. A client that is silent for three of them is gone."""

CLOSE_TRY_LATER = 1013
CLOSE_INVALID_TEXT = 1007
CLOSE_POLICY = 1008
CLOSE_NORMAL = 1000
CLOSE_ABNORMAL = 1006

PLAIN_PROTOCOL = "epoxy"
"""Chosen if the client offers it and the actor chooses none: a browser that offers protocols wants one of them."""

ENDED = "its grant or token is not in force any more"


def offered(call: ApiCall) -> tuple[str, ...]:
    """The protocols that the client offers, without its token."""
    words = [word.strip() for word in call.request.headers.get(b"sec-websocket-protocol", b"").split(b",")]
    return tuple(word.decode("latin-1") for word in words if word and not word.startswith(TOKEN_PROTOCOL))


def chosen(protocols: tuple[str, ...], protocol: str) -> str:
    """What the handshake answers with."""
    if protocol in protocols:
        return protocol
    return PLAIN_PROTOCOL if PLAIN_PROTOCOL in protocols else ""


class ClientMessages:
    """The listener of the WebSocket, whose end of the stream is another object: both hear messages."""

    def __init__(self, end: "ActorSocket") -> None:
        self._end = end

    def heard(self, message: bytes, *, text: bool) -> None:
        self._end.from_client(message, text=text)

    def drained(self) -> None:
        self._end.drained()

    def lost(self) -> None:
        self._end.lost()


class ActorSocket:
    """The client's end of a stream. `failed` answers a handshake with a verdict;
    `ended` is called once, after which it is no socket any more."""

    def __init__(
        self,
        call: ApiCall,
        protocols: tuple[str, ...],
        failed: Callable[[Verdict], None],
        ended: Callable[["ActorSocket"], None],
    ) -> None:
        self._call = call
        self._protocols = protocols
        self._failed = failed
        self._ended = ended
        self._send: Upward | None = None
        self._socket: WebSocket | None = None
        self._waiting: deque[Piece] = deque()
        self._credit = self._unread = 0
        self._over = False
        call.exchange.when_client_leaves(self._left)

    # The way to the actor

    def opened(self, send: Upward) -> None:
        self._send = send
        if self._over:
            send(Reset(stream=0, reason="the client left", code=CLOSE_ABNORMAL))

    def _tell(self, message: FromClient) -> None:
        if self._send is not None:
            self._send(message)

    def _left(self) -> None:
        """Before it was accepted."""
        if self._socket is None and not self._over:
            self._tell(Reset(stream=0, reason="the client left", code=CLOSE_ABNORMAL))
            self._finish()
            self._call.exchange.abort()

    def _finish(self) -> None:
        self._over = True
        self._waiting.clear()
        self._ended(self)

    # What the client sends

    def from_client(self, message: bytes, *, text: bool) -> None:
        if self._over:
            return
        if text and not is_utf8(message):
            self.close(CLOSE_INVALID_TEXT, "text that is not UTF-8")
            return
        self._waiting.append(Piece(stream=0, body=message, text=text))
        self._push()

    def _push(self) -> None:
        while self._waiting and self._credit > 0:
            piece = self._waiting.popleft()
            self._credit -= cost(piece.body)
            self._tell(piece)
        if self._socket is not None and not self._over:
            if self._credit > 0:
                self._socket.resume_reading()
            else:
                self._socket.pause_reading()

    def drained(self) -> None:
        if self._unread >= CREDIT_BYTES and not self._over:
            amount, self._unread = self._unread, 0
            self._tell(Credit(stream=0, amount=amount))

    def lost(self) -> None:
        if self._over:
            return
        code, reason = self._socket.closed_with if self._socket is not None else (CLOSE_ABNORMAL, "")
        self._tell(Reset(stream=0, reason=reason, code=code))
        self._finish()

    def look_again(self) -> None:
        """What is in force has changed."""
        principal = self._call.principal_now()
        if not self._over and (principal is None or not principal.calls):
            self.close(CLOSE_POLICY, ENDED)

    def close(self, code: int, reason: str) -> None:
        """By this node: the actor is told, too."""
        if not self._over:
            self._tell(Reset(stream=0, reason=reason, code=code))
            self._finish()
            self._close(code, reason)

    # What the actor sends

    def answered(self, verdict: Verdict) -> None:
        """It was not accepted. A browser tells its page the code of a close frame, and no status: what a client should
        try again is accepted and closed."""
        if self._over:
            return
        self._finish()
        match verdict:
            case OwnerUnavailable(reason=reason):
                self._close(CLOSE_TRY_LATER, reason)
            case Unknown(reason=reason):
                self._close(CLOSE_MOVED, reason)
            case Responded(error=False):
                self._refuse(Head(stream=0, status=verdict.status, headers=verdict.headers, body=verdict.body))
            case _:
                self._failed(verdict)

    def heard(self, message: FromActor) -> None:
        if self._over:
            return
        match message:
            case Head(status=101):
                self._accept(message.protocol)
            case Head():
                self._finish()
                self._refuse(message)
            case Credit(amount=amount):
                self._credit += amount
                self._push()
            case Piece():
                self._write(message)
            case Reset():
                self._finish()
                self._close(message.code or CLOSE_NORMAL, message.reason)

    def _accept(self, protocol: str) -> None:
        self._socket = self._upgrade(protocol)
        if self._socket is None:
            self._tell(Reset(stream=0, reason="the client left", code=CLOSE_ABNORMAL))
            self._finish()
        else:
            self._call.upgraded()
            self._push()

    def _upgrade(self, protocol: str = "") -> WebSocket | None:
        word = chosen(self._protocols, protocol)
        socket = WebSocket(lambda _socket: ClientMessages(self), max_bytes=MAX_PIECE_BYTES, ping_s=PING_S)
        return socket if websocket.switch(self._call.exchange, socket, word) else None

    def _refuse(self, head: Head) -> None:
        """With an answer of the actor's in HTTP."""
        try:
            content_type, headers = answer_headers(head.status, head.headers)
        except BadAnswer as bad:
            self._failed(Responded(body=str(bad).encode(), error=True))
            return
        if head.status < 300:
            self._failed(Responded(body=b"the actor answered a WebSocket with a status of success", error=True))
        else:
            self._call.answer(head.status, head.body, content_type=content_type, headers=headers)

    def _write(self, piece: Piece) -> None:
        assert self._socket is not None
        self._unread += cost(piece.body)
        if len(piece.body) > MAX_PIECE_BYTES or self._unread > MAX_UNREAD_BYTES:
            self.close(CLOSE_POLICY, "the actor sent more than the window allows")
            return
        self._socket.send(piece.body, text=piece.text)
        if self._socket.writable:
            self.drained()

    def _close(self, code: int, reason: str) -> None:
        if self._socket is None:
            self._socket = self._upgrade()
        if self._socket is not None:
            self._socket.close(reason, code=code)


def is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True
