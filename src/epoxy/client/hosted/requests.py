"""Requests to an actor and its answers, as its code sees them."""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Callable
from typing import Any

import msgspec

from epoxy.client.hosted.headers import GivenHeaders, HeaderMap, checked_headers
from epoxy.client.hosted.windows import BodyBuffer
from epoxy.model.actors import MAX_REQUEST_BYTES
from epoxy.model.errors import ConnectionLost, InvalidRequest
from epoxy.model.exchanges import Headers, RequestHead

Body = bytes | bytearray | memoryview | str
JsonBody = dict[str, Any] | list[Any]

PLAIN = RequestHead()


class Response:
    """An answer: `Response("not here", status=404)`. A dict or list is sent as JSON.

    A body that is an async iterator of bytes is sent in pieces, as its reader takes them. It is run beside later turns
    of the actor, so that a long answer does not hold it up.
    """

    __slots__ = ("body", "content", "pairs", "status")

    def __init__(
        self,
        body: Body | JsonBody | AsyncIterable[bytes] = b"",
        status: int = 200,
        headers: GivenHeaders | None = None,
    ) -> None:
        """Raises TypeError for another body, InvalidRequest for what HTTP cannot carry."""
        if type(status) is not int or not 200 <= status <= 599:
            raise InvalidRequest(f"the status of an answer is a number from 200 to 599, not {status!r}")
        self.status = status
        self.pairs: Headers = checked_headers(headers)
        self.body = b""
        """Empty, if it comes from `content`."""
        self.content: AsyncIterable[bytes] | None = None
        kind = ""
        if isinstance(body, bytes | bytearray | memoryview):
            self.body = bytes(body)
        elif isinstance(body, str):
            self.body, kind = encoded_text(body), "text/plain; charset=utf-8"
        elif isinstance(body, dict | list):
            self.body, kind = encoded_json(body), "application/json"
        elif isinstance(body, AsyncIterable):
            self.content = body
        else:
            raise TypeError(f"an actor answers with bytes, str, dict, list or a Response, not {type(body).__name__}")
        if kind and not any(name.lower() == "content-type" for name, _ in self.pairs):
            self.pairs = (*self.pairs, ("content-type", kind))

    def __repr__(self) -> str:
        return f"<Response {self.status}, {'a stream' if self.content is not None else f'{len(self.body)} bytes'}>"

    @property
    def headers(self) -> HeaderMap:
        return HeaderMap(self.pairs)

    @property
    def text(self) -> str:
        return self.body.decode(errors="replace")

    def json(self) -> Any:
        """Raises InvalidRequest."""
        return parsed_json(self.body, "the answer")


class FailedAnswer:
    """In place of an answer. `refused`: the code never saw the request. `busy`: because too much waits for it."""

    __slots__ = ("busy", "reason", "refused")

    def __init__(self, reason: str, *, refused: bool = False, busy: bool = False) -> None:
        self.reason = reason
        self.refused = refused
        self.busy = busy


Answer = Response | FailedAnswer


class Request:
    """One request to an actor, answered once: with what `on_request` returns, or with `respond` or `fail`.

    Its answer leaves when the changes of its turn are saved.
    """

    def __init__(
        self,
        number: int,
        body: bytes,
        answered: Callable[["Request", Answer], None],
        *,
        head: RequestHead = PLAIN,
        buffer: BodyBuffer | None = None,
        streamed: bool = False,
    ) -> None:
        self.number = number
        self.head = head
        self.answer: Answer | None = None
        self.streamed = streamed
        """It is a stream on the wire, and its answer has a head."""
        self.buffer = buffer
        self._more: asyncio.Event | None = None
        self.parked = False
        """Its body is being gathered."""
        self.seen = False
        """The code has it."""
        self._body: bytes | None = body if buffer is None else None
        self._answered = answered
        self._headers: HeaderMap | None = None

    def __repr__(self) -> str:
        return f"<Request {self.method} {self.path}>"

    @property
    def method(self) -> str:
        return self.head.method

    @property
    def path(self) -> str:
        """Begins with "/"."""
        return self.head.path

    @property
    def query(self) -> str:
        """As it was sent, without the "?"; `urllib.parse.parse_qs` takes it apart."""
        return self.head.query

    @property
    def headers(self) -> HeaderMap:
        if self._headers is None:
            self._headers = HeaderMap(self.head.headers)
        return self._headers

    @property
    def caller(self) -> str:
        """The name of the grant that the client's token has; empty at a node that asks for none."""
        return self.head.caller

    @property
    def idempotency_key(self) -> str:
        """Empty: none. With one, the answer is kept with the state for an hour, and given again."""
        return self.head.idempotency_key

    # Its body

    @property
    def body(self) -> bytes:
        """A body whose length was declared and is at most 1 MiB is here whole. Raises InvalidRequest for others: `await
        request.read()`, or use `stream()`."""
        if self._body is None and self.buffer is not None and self.buffer.has_ended:
            self._body = b"".join(iter(self.buffer.take, None))
        if self._body is None:
            raise InvalidRequest("this body comes in pieces: await request.read(), or use request.stream()")
        return self._body

    async def read(self, limit: int = MAX_REQUEST_BYTES) -> bytes:
        """The whole body. Raises InvalidRequest if it has more bytes than `limit`, ConnectionLost if the client went
        away."""
        if self._body is None:
            found = bytearray()
            async for piece in self.stream():
                found += piece
                if len(found) > limit:
                    raise InvalidRequest(f"the body has more than {limit:,} bytes")
            self._body = bytes(found)
        return self._body

    async def stream(self) -> AsyncIterator[bytes]:
        """The body in pieces, once. A client that sends faster than they are taken waits. Raises ConnectionLost."""
        if self._body is not None:
            if self._body:
                yield self._body
            return
        buffer = self.buffer
        assert buffer is not None, "a body is whole or in a buffer"
        while True:
            self._more = asyncio.Event()
            while (piece := buffer.take()) is not None:
                yield piece
            if buffer.has_ended:
                return
            if buffer.failure:
                raise ConnectionLost(buffer.failure)
            await self._more.wait()

    @property
    def text(self) -> str:
        """The body as UTF-8. If it is not, the request is answered with an error, and the code sees replacement
        characters: an exception here would end an actor (of the function form) for the mistake of one client."""
        try:
            return self.body.decode()
        except UnicodeDecodeError as error:
            self.fail(f"the request is not UTF-8, at byte {error.start}")
            return self.body.decode(errors="replace")

    def json(self) -> Any:
        """Raises InvalidRequest; on_request may let it pass, and the client is told."""
        return parsed_json(self.body, "the request")

    # Its answer

    def respond(
        self,
        body: Body | JsonBody | AsyncIterable[bytes] | Response = b"",
        status: int = 200,
        headers: GivenHeaders | None = None,
    ) -> None:
        """Raises TypeError for another body. Text that cannot be encoded (half of a surrogate pair, which JSON of a
        client may hold) is answered with an error, and does not end the actor."""
        try:
            answer = body if isinstance(body, Response) else Response(body, status, headers)
        except UnicodeEncodeError as error:
            self.fail(f"the answer is not Unicode text, at character {error.start}")
            return
        if len(answer.body) > MAX_REQUEST_BYTES and self.head is PLAIN:
            self.fail(f"the answer has {len(answer.body)} bytes; the limit is {MAX_REQUEST_BYTES}")
        else:
            self._give(answer)

    def fail(self, reason: str) -> None:
        """The code saw the request: what it did about it is not known to the client."""
        self._give(FailedAnswer(reason))

    def refuse(self, reason: str, *, busy: bool = False) -> None:
        """The code never saw it."""
        self._give(FailedAnswer(reason, refused=True, busy=busy))

    def grew(self) -> None:
        """There is more of its body."""
        if self._more is not None:
            self._more.set()

    def _give(self, answer: Answer) -> None:
        if self.answer is None:
            self.answer = answer
            self._answered(self, answer)


def encoded_text(text: str) -> bytes:
    return text.encode()


def encoded_json(value: JsonBody) -> bytes:
    """Raises TypeError for what JSON has no form for."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        raise
    except (msgspec.MsgspecError, ValueError, TypeError, RecursionError) as error:
        raise TypeError(f"the answer cannot be sent as JSON: {error}") from error


def parsed_json(body: bytes, what: str) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidRequest(f"{what} is not JSON: {error}") from error
