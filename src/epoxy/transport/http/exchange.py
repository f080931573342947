"""One request and its one answer, as a handler sees them."""

from collections.abc import Callable
from typing import Protocol

from epoxy.transport.holdings import FREE_BYTES
from epoxy.transport.http import response
from epoxy.transport.http.request import HttpRequest
from epoxy.transport.http.request_body import RequestBody
from epoxy.transport.http.response import Headers
from epoxy.transport.http.upgraded import UpgradedProtocol
from epoxy.transport.peers.forwarded_mark import ForwardedClient
from epoxy.transport.peers.frames import FrameHandler
from epoxy.transport.peers.session import PeerSession

Handler = Callable[["Exchange"], None]


UNREAD = "too many long answers wait for clients that do not read them; try again"


class Owner(Protocol):
    """The connection an exchange belongs to."""

    certified: bool
    certificate_names: tuple[str, ...]

    @property
    def is_busy(self) -> bool:
        """Whether the clients of the node together leave too much unread."""

    def stall(self) -> None:
        """Begin no further request for a moment."""

    def advance(self) -> None:
        """Send what may be sent."""

    def count_unsent(self, size: int) -> None:
        """An answer of so many bytes waits to be sent."""

    def mark_as_peer(self) -> None:
        """The client has proved to be a peer."""

    @property
    def on_trial(self) -> bool:
        """It is beyond the limit of connections, and has not proved yet to be a peer's or an operator's."""

    def mark_as_operator(self) -> bool:
        """The client has proved to be an operator. False: there are too many of them."""

    def cache_response(self, exchange: "Exchange", answer: bytes, lasting: tuple[bytes, ...]) -> None:
        """The same request will have this answer for ever."""

    @property
    def address(self) -> str:
        """Of the client, as text."""

    def abort(self) -> None:
        """End the connection at once: the answer broke off."""

    def shrink(self, exchange: "Exchange", size: int) -> None:
        """The exchange holds so many bytes less."""

    def attach_stream(self, stream: "Stream") -> None:
        """The answer is sent in pieces until the stream is closed."""

    def switch(self, exchange: "Exchange", session: PeerSession, handler: FrameHandler) -> None:
        """Go on with frames (`frames.py`) for this handler."""

    def flowing(self, exchange: "Exchange") -> bool:
        """Whether what this exchange adds is sent at once."""

    def upgrade(self, exchange: "Exchange", protocol: UpgradedProtocol) -> None:
        """Send the answer, and hand the connection over."""


class Exchange:
    """One request and its one answer. An answer is ignored if the connection is lost. `size`: bytes that the connection
    holds for the request; `unsent`: bytes of the answer while it waits for earlier ones; `shared`: headers that every
    answer to this client has (CORS); `generation`: the cache's when the request came; `body`: of a request that is
    served while its body arrives; `forwarded`: the client, if another node of the datacenter forwards its request."""

    __slots__ = (
        "_connection",
        "_leaving",
        "_pieces",
        "answered",
        "body",
        "close",
        "forwarded",
        "generation",
        "request",
        "shared",
        "size",
        "stream_open",
        "unsent",
    )

    def __init__(self, request: HttpRequest, connection: Owner, close: bool) -> None:
        self.request = request
        self.close = close
        self.size = self.unsent = self.generation = 0
        self.answered = False
        self.stream_open = False
        self.shared: Headers = ()
        self.body: RequestBody | None = None
        self.forwarded: ForwardedClient | None = None
        self._connection: Owner | None = connection
        self._leaving: Callable[[], None] | None = None
        self._pieces: list[bytes] = []

    def respond(
        self,
        status: int,
        body: bytes = b"",
        *,
        content_type: bytes = b"application/octet-stream",
        headers: Headers = (),
        lasting: tuple[bytes, ...] = (),
        length_known: bool = True,
    ) -> None:
        """`lasting`, if not empty: the answer can never change, and may be cached for ever, for clients without a
        page's origin. This one may have cached answers for all addresses that begin like one of these. `length_known`
        is false only in an answer to HEAD: the one to GET would come in pieces."""
        assert not self.answered, "one answer for each request"
        self.answered = True
        if (connection := self._connection) is None:
            return
        if self.shared:
            headers, lasting = (*headers, *self.shared), ()
        if self.body is not None and not self.body.is_complete:
            self.close = True  # The rest is not read.
        if len(body) > FREE_BYTES and connection.is_busy and self.request.method == "GET":
            status, content_type, headers, lasting = 503, response.JSON, (), ()
            body = response.problem("busy", UNREAD)
            connection.stall()
        silent = status in response.WITHOUT_BODY or not length_known
        framing = b"" if silent else response.length(len(body))
        start = response.head(status, content_type, headers, framing=framing, close=self.close)
        silent = silent or self.request.method == "HEAD"
        self._pieces = [start] if silent else [start, body]
        self.unsent = len(start) if silent else len(start) + len(body)
        connection.count_unsent(self.unsent)
        if lasting:
            connection.cache_response(self, b"".join(self._pieces), lasting)
        connection.advance()

    def fail(self, status: int, code: str, message: str, *, definite: bool = True) -> None:
        """Answer with an error, as JSON."""
        self.respond(status, response.problem(code, message, definite=definite), content_type=response.JSON)

    def stream(self, status: int, *, content_type: bytes, headers: Headers = ()) -> "Stream":
        """An answer in pieces that ends when the stream is closed. It is the last of its connection."""
        assert not self.answered, "one answer for each request"
        self.answered = self.stream_open = self.close = True
        framing = b"transfer-encoding: chunked\r\n"
        self._pieces = [response.head(status, content_type, (*headers, *self.shared), framing=framing, close=True)]
        stream = Stream(self)
        if self._connection is None:
            stream.lost()
        else:
            self._connection.attach_stream(stream)
        return stream

    def switch(self, session: PeerSession, handler: FrameHandler) -> None:
        """Instead of an answer: the connection goes on with frames (`frames.py`)."""
        assert not self.answered, "one answer for each request"
        self.answered = True
        if self._connection is not None:
            self._connection.switch(self, session, handler)

    def upgrade(self, protocol: UpgradedProtocol, headers: Headers) -> bool:
        """Answer 101 and hand the connection to `protocol`, whose `connection_made` is called. False: the connection is
        lost, or earlier answers are outstanding; nothing was done."""
        if self._connection is None or not self.flowing:
            return False
        self.answered = True
        self._pieces = [response.switching(headers)]
        self._connection.upgrade(self, protocol)
        return True

    def abort(self) -> None:
        if self._connection is not None:
            self._connection.abort()

    def take(self) -> list[bytes]:
        """The bytes to send now."""
        pieces, self._pieces = self._pieces, []
        return pieces

    def add(self, *pieces: bytes) -> None:
        if self._connection is not None:
            self._pieces += pieces
            self._connection.advance()

    @property
    def certified(self) -> bool:
        """Whether the client has shown a certificate signed by our authority."""
        return self._connection is not None and self._connection.certified

    @property
    def certificate_names(self) -> tuple[str, ...]:
        """The names (SANs) in that certificate; empty without one. They say who a client is; only a signature makes it
        a peer."""
        if self.forwarded is not None:
            return self.forwarded.certificate_names
        return self._connection.certificate_names if self._connection is not None else ()

    def mark_as_peer(self) -> None:
        """The client has proved to be a peer: its connection is not counted among clients from here on."""
        if self._connection is not None:
            self._connection.mark_as_peer()

    @property
    def on_trial(self) -> bool:
        return self._connection is not None and self._connection.on_trial

    def admit_operator(self) -> bool:
        """The client of a connection on trial has proved to be an operator, and is served. False: too many are."""
        return self._connection is not None and self._connection.mark_as_operator()

    @property
    def address(self) -> str:
        """Of the client, as text; empty if the connection is lost."""
        if self.forwarded is not None:
            return self.forwarded.address
        return self._connection.address if self._connection is not None else ""

    def drop_body(self) -> None:
        """The request is refused, and the answer waits: its body is not held for so long."""
        size, request = len(self.request.body), self.request
        if size and self._connection is not None:
            self.request = HttpRequest(request.method, request.path, request.query, request.headers, b"")
            self._connection.shrink(self, size)

    @property
    def flowing(self) -> bool:
        return self._connection is not None and self._connection.flowing(self)

    def when_client_leaves(self, callback: Callable[[], None]) -> None:
        """Called once, before or after the answer: the client sends nothing more, and probably reads nothing more."""
        if self._connection is None:
            callback()
        else:
            self._leaving = callback

    def client_leaves(self) -> None:
        callback, self._leaving = self._leaving, None
        if callback is not None:
            callback()

    def lost(self) -> None:
        self._connection = None
        if self._leaving is not None:
            self.client_leaves()


class Stream:
    """The body of an answer in pieces. Check `writable` before writing more than memory can hold."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._drained: list[Callable[[], None]] = []
        self._closed: list[Callable[[], None]] = []
        self._gone = False

    @property
    def writable(self) -> bool:
        """False: the client reads too slowly, or earlier requests of its connection are not answered yet."""
        return not self._gone and self._exchange.flowing

    def write(self, data: bytes) -> None:
        if data and not self._gone:
            self._exchange.add(*response.chunk(data))

    def close(self) -> None:
        if not self._gone:
            self._exchange.stream_open = False
            self._exchange.add(response.LAST_CHUNK)

    def abort(self) -> None:
        """The rest does not come. Without the last chunk the client sees that."""
        if not self._gone:
            self._exchange.abort()

    def on_drain(self, callback: Callable[[], None]) -> None:
        """Called whenever the stream becomes writable again."""
        self._drained.append(callback)

    def on_close(self, callback: Callable[[], None]) -> None:
        """Called once, when either side has ended the stream; at once if it has ended."""
        if self._gone:
            callback()
        else:
            self._closed.append(callback)

    def drained(self) -> None:
        for callback in self._drained:
            callback()

    def lost(self) -> None:
        self._gone = True
        closed, self._closed = self._closed, []
        for callback in closed:
            callback()
