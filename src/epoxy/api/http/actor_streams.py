"""A client's request to an actor: its body goes there as it arrives, and the answer comes back as it is made.

The window of `model/exchanges` ends here on both ways: the body is read from the socket while the actor takes it, and
the actor gets credit when the socket has taken its answer. So a slow actor slows down its client, and a slow client the
actor, with a bounded number of bytes between them.
"""

import re
from collections.abc import Callable, Iterable

from epoxy.actors.messages import Responded, Verdict
from epoxy.actors.streams import FromActor, FromClient, Upward
from epoxy.api.http.calls import ApiCall, Header
from epoxy.model.exchanges import (
    MAX_PIECE_BYTES,
    WHOLE_BYTES,
    WINDOW_BYTES,
    Credit,
    Head,
    Headers,
    Piece,
    Reset,
    cost,
)
from epoxy.transport.http.exchange import Stream
from epoxy.transport.http.response import WITHOUT_BODY

CREDIT_BYTES = WINDOW_BYTES // 4
"""Given back together: a sender has most of its window left when it comes."""

MAX_UNREAD_BYTES = 2 * WINDOW_BYTES + MAX_PIECE_BYTES
"""Of one stream, after which it is ended: the sender does not respect its window. Twice a window, because an actor that
wakes begins with a new one."""

OCTETS = b"application/octet-stream"

HOP_BY_HOP = frozenset(
    (
        *("connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te"),
        *("trailer", "transfer-encoding", "upgrade", "content-length", "expect"),
    )
)
"""Of one connection, and not for the actor or its client; bodies are framed anew."""

NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}")
VALUE = re.compile(r"[\t -~\x80-\xff]*")

SANDBOX: tuple[Header, ...] = (
    (b"Content-Security-Policy", b"sandbox allow-scripts allow-forms allow-popups allow-downloads"),
    (b"X-Content-Type-Options", b"nosniff"),
)
"""A page that an actor answers with has no origin: its scripts must not speak to the node as its own pages could."""


class BadAnswer(Exception):
    """What the actor answers is not HTTP."""


def passed_on(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """Of a request, as the actor sees them: without what is about the connection, and without the token."""
    given = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in headers]
    named = {word.strip().lower() for name, value in given if name == "connection" for word in value.split(",")}
    hidden = HOP_BY_HOP | named | {"authorization"}
    ours = ("sec-websocket-", "epoxy-")
    return tuple((name, value) for name, value in given if name not in hidden and not name.startswith(ours))


def answer_headers(status: int, headers: Headers) -> tuple[bytes, list[Header]]:
    """The content type and the other headers of an actor's answer. Raises BadAnswer."""
    if not 200 <= status <= 599:
        raise BadAnswer(f"the actor answered with the status {status}")
    content_type, found = OCTETS, list(SANDBOX)
    for name, value in headers:
        lower = name.lower()
        if not NAME.fullmatch(name) or not VALUE.fullmatch(value):
            raise BadAnswer(f"the actor answered with a header that is none: {name[:64]!r}")
        if lower == "content-type":
            content_type = value.encode("latin-1")
        elif lower not in HOP_BY_HOP and not lower.startswith(("epoxy-", "access-control-")):
            found.append((name.encode("latin-1"), value.encode("latin-1")))
    return content_type, found


class HttpStream:
    """The client's end of one request. `failed` answers with a verdict that is none of the actor's."""

    def __init__(self, call: ApiCall, failed: Callable[[Verdict], None]) -> None:
        self._call = call
        self._failed = failed
        self._body = call.exchange.body
        self._sends_body = self._body is not None
        self._send: Upward | None = None
        self._out: Stream | None = None
        self._credit = self._unread = 0
        self._over = self._pushing = False
        if self._body is not None:
            self._body.on_more = self._push
            call.exchange.when_client_leaves(self._left)

    # The way to the actor

    def opened(self, send: Upward) -> None:
        self._send = send
        if self._over:
            send(Reset(stream=0, reason="the client left"))

    def _tell(self, message: FromClient) -> None:
        if self._send is not None:
            self._send(message)

    def _push(self) -> None:
        """Pass on of the body what has come, as far as there is credit. When some of it is read, more may come at
        once, which is not to overtake it."""
        body = self._body
        if self._pushing:
            return
        self._pushing = True
        while body is not None and self._sends_body and self._credit > 0 and (body.size or body.is_complete):
            piece = body.read(WHOLE_BYTES)
            self._sends_body = not body.is_over
            self._credit -= cost(piece)
            self._tell(Piece(stream=0, body=piece, fin=not self._sends_body))
        self._pushing = False

    def _left(self) -> None:
        """The client is gone, or sends no more of a body that it began."""
        if not self._over:
            self._over = True
            self._tell(Reset(stream=0, reason="the client left"))
            if self._out is None:
                self._call.exchange.abort()

    # The answer

    def answered(self, verdict: Verdict) -> None:
        if self._over:
            return
        if isinstance(verdict, Responded) and not verdict.error:
            self._begin(Head(stream=0, status=verdict.status, headers=verdict.headers, body=verdict.body, fin=True))
        else:
            self._over = True
            self._failed(verdict)

    def heard(self, message: FromActor) -> None:
        if self._over:
            return
        match message:
            case Credit(amount=amount):
                self._credit += amount
                self._push()
            case Head():
                self._begin(message)
            case Piece():
                self._write(message)
            case Reset():
                self._over = True
                self._call.exchange.abort()

    def _begin(self, head: Head) -> None:
        try:
            content_type, headers = answer_headers(head.status, head.headers)
        except BadAnswer as bad:
            self._over = True
            self._tell(Reset(stream=0, reason=str(bad)))
            self._failed(Responded(body=str(bad).encode(), error=True))
            return
        silent = self._call.request.method == "HEAD" or head.status in WITHOUT_BODY
        if head.fin or silent:
            self._over = True
            if not head.fin:
                self._tell(Reset(stream=0, reason="an answer without a body"))
            # The server sends no body to HEAD, nor with these statuses; its length is told where it is known.
            body = head.body if head.fin else b""
            self._call.answer(head.status, body, content_type=content_type, headers=headers, length_known=head.fin)
            return
        self._out = self._call.stream(content_type, headers, status=head.status)
        self._out.on_drain(self._give_credit)
        self._out.on_close(self._left)
        self._out.write(head.body)

    def _write(self, piece: Piece) -> None:
        assert self._out is not None
        self._unread += cost(piece.body)
        self._out.write(piece.body)
        if piece.fin:
            self._over = True
            self._out.close()
        elif self._unread > MAX_UNREAD_BYTES:
            self._over = True
            self._tell(Reset(stream=0, reason="more was sent than the window allows"))
            self._call.exchange.abort()
        elif self._out.writable:
            self._give_credit()

    def _give_credit(self) -> None:
        if self._unread >= CREDIT_BYTES and not self._over:
            amount, self._unread = self._unread, 0
            self._tell(Credit(stream=0, amount=amount))
