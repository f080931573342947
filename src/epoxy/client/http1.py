"""HTTP/1.1 as bytes, without a socket: requests are encoded, answers are fed in as they arrive."""

from collections.abc import Callable
from urllib.parse import urlsplit

import httptools
from msgspec import Struct

from epoxy.model.errors import InvalidRequest

MAX_ANSWER_BYTES = 64 << 20
"""The largest answers are pages of values and what every replica holds for a key: tens of values of at most 1 MiB. More
than this does not come from a node."""

DEFAULT_PORTS = {"http": 80, "https": 443}


class NodeAddress(Struct, frozen=True, kw_only=True):
    """Where a node listens."""

    url: str
    host: str
    port: int
    secure: bool
    prefix: str = ""

    @property
    def host_header(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def parse_url(text: str) -> NodeAddress:
    """`http://host:port`, or `host:port` for short. A path is taken as a prefix, for nodes behind a proxy."""
    example = "write http://host:port, as in http://127.0.0.1:7800"
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        port = parts.port
    except ValueError as error:
        raise InvalidRequest(f"{text!r} is no address of a node ({error}); {example}") from error
    if parts.scheme not in DEFAULT_PORTS or not parts.hostname or not text.isascii() or not text.isprintable():
        raise InvalidRequest(f"{text!r} is no address of a node; {example}")
    if parts.query or parts.fragment or parts.username is not None or " " in text:
        raise InvalidRequest(f"{text!r} has parts that the address of a node does not have; {example}")
    return NodeAddress(
        url=f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}",
        host=parts.hostname,
        port=port if port is not None else DEFAULT_PORTS[parts.scheme],
        secure=parts.scheme == "https",
        prefix=parts.path.rstrip("/"),
    )


def encode_request(
    node: NodeAddress,
    method: str,
    target: str,
    body: bytes | None = None,
    accept: str = "application/octet-stream",
    content_type: str = "application/octet-stream",
    authorization: str = "",
) -> bytes:
    """`authorization`: the header line, with its end; other lines may follow it."""
    first = f"{method} {node.prefix}{target} HTTP/1.1\r\nHost: {node.host_header}\r\n"
    head = f"{first}Accept: {accept}\r\n{authorization}"
    if body is None:
        return f"{head}\r\n".encode("ascii")
    typed = f"{head}Content-Type: {content_type}\r\nContent-Length: {len(body)}\r\n\r\n"
    return typed.encode("ascii") + body


class HttpResponse(Struct, frozen=True, kw_only=True):
    """Header names are lower case. `latency_ms` is what the caller waited, other nodes that were tried included."""

    status: int
    headers: dict[str, str]
    body: bytes
    latency_ms: float = 0.0

    @property
    def media_type(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


class NotHttp(Exception):
    """The other side sends something that is no HTTP answer, or too much of it. The message follows the address."""


class AnswerReader:
    """Reads one answer after another from the bytes of a connection.

    `on_body`, if given, gets the parts of a body as they come, for streams that never end; otherwise they are kept.
    """

    def __init__(self, on_body: Callable[[bytes], None] | None = None) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._stream = on_body
        self.answer: HttpResponse | None = None
        self.head: HttpResponse | None = None
        self.keep_alive = False
        self._begin()

    def _begin(self) -> None:
        self._headers: dict[str, str] = {}
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> HttpResponse | None:
        """The answer, once it is whole."""
        self.answer = None
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as error:
            raise NotHttp("answered that it wants another protocol") from error
        except httptools.HttpParserError as error:
            cause = error.__context__ if isinstance(error.__context__, NotHttp) else None
            raise cause or NotHttp("answered something that is no HTTP") from error
        return self.answer

    # What httptools calls.

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value))
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        self.head = HttpResponse(status=self._parser.get_status_code(), headers=self._headers, body=b"")

    def on_body(self, part: bytes) -> None:
        if self._stream is not None and self.head is not None and self.head.status == 200:
            self._stream(part)
            return
        self._count(len(part))
        self._parts.append(part)

    def on_message_complete(self) -> None:
        self.keep_alive = self._parser.should_keep_alive()
        status = self._parser.get_status_code()
        if status >= 200:  # those below are informational
            self.answer = HttpResponse(status=status, headers=self._headers, body=b"".join(self._parts))
        self._begin()

    def _count(self, size: int) -> None:
        self._size += size
        if self._size > MAX_ANSWER_BYTES:
            raise NotHttp(f"answered with more than {MAX_ANSWER_BYTES >> 20} MiB")
