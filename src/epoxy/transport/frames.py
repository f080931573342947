"""Requests and answers between peers in an envelope of a few bytes, on a connection that began as HTTP.

    GET /v2/epoxy/stream        signed like every request; `upgrade: epoxy-frames`, answered with 101
    request     length u32 | length of the signature u16 | signature | body
    answer      length u32 | status u16 | took, us u32 | length of the proof u16 | proof | body

Numbers are little endian; a length counts what follows it. Signature and proof are what HTTP's headers carry
(`auth.py`), of a POST of the body to `/v2/epoxy/message`: who may say what, and to whom, is decided in the same place
by the same rules, and that address still serves those who speak HTTP. Answers come in the order of the requests.
"""

import asyncio
import math
from collections import deque
from collections.abc import Callable
from typing import cast

from epoxy.codec.wire import MAX_ENCODED_BYTES
from epoxy.transport import auth
from epoxy.transport.connections import Account, Connections
from epoxy.transport.dial import Answered, Dial, report
from epoxy.transport.exchange import Exchange, Handler, Heir, Stream
from epoxy.transport.limits import MESSAGE_PATH, STREAM_PATH, HttpLimits
from epoxy.transport.request import Answer, Request
from epoxy.transport.response import Headers

PROTOCOL = b"epoxy-frames"
SWITCHING = b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: %b\r\n\r\n" % PROTOCOL

TOOK_HEADER = b"epoxy-took-us"

MAX_FRAME_BYTES = MAX_ENCODED_BYTES + (4 << 10)
"""The longest body, and what is in front of it."""

MAX_SIGNATURE_BYTES = 1 << 10
"""Five times as long as they are."""

MAX_TOOK_US = (1 << 32) - 1


def greeting(host: bytes, signature: bytes) -> bytes:
    return b"GET %b HTTP/1.1\r\nhost: %b\r\nauthorization: %b\r\nconnection: upgrade\r\nupgrade: %b\r\n\r\n" % (
        STREAM_PATH,
        host,
        signature,
        PROTOCOL,
    )


class BadFrame(Exception):
    """What came is no frame, or too long a one. Nothing after it can be understood."""


class Frames:
    """Cuts what arrives into frames. Holds one that is not complete, and at most one read of what follows it."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0
        self._wanted = 0

    @property
    def is_waiting(self) -> bool:
        """For the rest of a frame."""
        return self._size > 0

    def feed(self, data: bytes) -> list[bytes]:
        if self._size:
            self._parts.append(data)
            self._size += len(data)
            if self._size < self._wanted:
                return []
            data = b"".join(self._parts)
            self._parts, self._size = [], 0
        frames: list[bytes] = []
        position, wanted, end = 0, 4, len(data)
        while end - position >= 4:
            wanted = 4 + int.from_bytes(data[position : position + 4], "little")
            if wanted > MAX_FRAME_BYTES:
                raise BadFrame(f"a frame of {wanted} bytes")
            if position + wanted > end:
                break
            frames.append(data[position + 4 : position + wanted])
            position += wanted
            wanted = 4
        if position < end:
            rest = data[position:]
            self._parts, self._size, self._wanted = [rest], len(rest), wanted
        return frames


def request_head(signature: bytes, size: int) -> bytes:
    """Everything up to a body of this size."""
    return (2 + len(signature) + size).to_bytes(4, "little") + len(signature).to_bytes(2, "little") + signature


def read_request(frame: bytes) -> Request:
    end = 2 + int.from_bytes(frame[:2], "little")
    if len(frame) < end or not 2 < end <= MAX_SIGNATURE_BYTES:
        raise BadFrame("a frame without a signature")
    return Request("POST", MESSAGE_PATH, b"", {b"authorization": frame[2:end]}, frame[end:])


def answer_head(status: int, took_us: int, proof: bytes, size: int) -> bytes:
    return (
        (8 + len(proof) + size).to_bytes(4, "little")
        + status.to_bytes(2, "little")
        + min(took_us, MAX_TOOK_US).to_bytes(4, "little")
        + len(proof).to_bytes(2, "little")
        + proof
    )


def read_answer(frame: bytes) -> Answer:
    end = 8 + int.from_bytes(frame[6:8], "little")
    if len(frame) < end:
        raise BadFrame("an answer that ends too early")
    headers = {auth.MAC_HEADER: frame[8:end], TOOK_HEADER: b"%d" % int.from_bytes(frame[2:6], "little")}
    return Answer(int.from_bytes(frame[:2], "little"), headers, frame[end:])


class FrameExchange(Exchange):
    """One request of a peer and its one answer, for a handler that knows exchanges."""

    def respond(
        self,
        status: int,
        body: bytes = b"",
        *,
        content_type: bytes = b"application/octet-stream",  # noqa: ARG002 (peers know what they asked for)
        headers: Headers = (),
        lasting: bool = False,  # noqa: ARG002
    ) -> None:
        assert not self.answered, "one answer for each request"
        self.answered = True
        proof, took = b"", 0
        for name, value in headers:
            if name == auth.MAC_HEADER:
                proof = value
            elif name == TOOK_HEADER:
                took = int(value)
        connection = self._connection
        if connection is not None:
            self._pieces = [answer_head(status, took, proof, len(body)), body]
            connection.advance()


class FrameServer(asyncio.Protocol):
    """The server's end of a connection that was switched to frames. Whoever is there has proved to be a peer."""

    def __init__(
        self, handler: Handler, limits: HttpLimits, connections: Connections, account: Account, certified: bool
    ) -> None:
        self.certified = certified
        self._handler = handler
        self._limits = limits
        self._connections = connections
        self._account = account
        self._frames = Frames()
        self._waiting: deque[bytes] = deque()
        self._exchanges: deque[Exchange] = deque()
        self._transport: asyncio.Transport | None = None
        self._choked = self._paused = self._leaving = False
        self._read_deadline = self._write_deadline = math.inf

    def begin(self, transport: asyncio.Transport, already: bytes) -> None:
        """`already` came behind the request to switch."""
        self._transport = transport
        self._leaving = not self._connections.admit(self)
        transport.set_protocol(self)
        transport.write(SWITCHING)
        self._heard_something()
        if already:
            self.data_received(already)

    # The transport calls these.

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._transport = None
        self._connections.forget(self)
        self._waiting.clear()
        for exchange in self._exchanges:
            exchange.lost()
        self._exchanges.clear()
        self._account.add(-self._account.bytes)

    def data_received(self, data: bytes) -> None:
        try:
            frames = self._frames.feed(data)
        except BadFrame:
            self.abort()
            return
        self._heard_something()
        for frame in frames:
            self._account.add(len(frame))
        self._waiting.extend(frames)
        self._serve()

    def pause_writing(self) -> None:
        self._choked = True
        self._write_deadline = self._connections.now + self._limits.write_timeout_s

    def resume_writing(self) -> None:
        self._choked = False
        self._write_deadline = math.inf
        self._serve()

    # As the owner of exchanges.

    def advance(self) -> None:
        transport = self._transport
        if transport is None:
            return
        while self._exchanges and self._exchanges[0].answered:
            exchange = self._exchanges.popleft()
            transport.writelines(exchange.take())
            self._account.add(-exchange.size)
            exchange.lost()
        if self._waiting or self._leaving or self._paused:
            self._serve()

    def vouch(self) -> None:
        """It was, when it began."""

    def keep(self, exchange: Exchange, answer: bytes) -> None:
        raise NotImplementedError

    def follow(self, stream: Stream) -> None:
        raise NotImplementedError

    def switch(self, exchange: Exchange, handler: Handler) -> None:
        raise NotImplementedError

    def leave(self, exchange: Exchange, heir: Heir) -> None:
        raise NotImplementedError

    def flowing(self, exchange: Exchange) -> bool:
        return not self._choked and bool(self._exchanges) and self._exchanges[0] is exchange

    # As one of the door's connections.

    def sweep(self, now: float) -> None:
        if now > self._write_deadline or now > self._read_deadline:
            self.abort()

    def drain(self) -> None:
        self._leaving = True
        self._serve()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _heard_something(self) -> None:
        """A peer says something every second, and sends a frame in one go."""
        waits = self._frames.is_waiting
        timeout_s = self._limits.body_timeout_s if waits else self._limits.idle_timeout_s
        self._read_deadline = self._connections.now + timeout_s

    def _serve(self) -> None:
        """Begin what may begin; go on reading, or stop, as things are now."""
        while self._waiting and not self._is_full:
            frame = self._waiting.popleft()
            try:
                request = read_request(frame)
            except BadFrame:
                self.abort()
                return
            exchange = FrameExchange(request, self, False)
            exchange.size = len(frame)
            self._exchanges.append(exchange)
            self._handle(exchange)
        transport = self._transport
        if transport is None:
            return
        if self._leaving and not self._exchanges:
            transport.close()
        elif self._paused != bool(self._waiting):
            self._paused = not self._paused
            if self._paused:
                transport.pause_reading()
            else:
                transport.resume_reading()

    @property
    def _is_full(self) -> bool:
        return self._choked or self._leaving or len(self._exchanges) >= self._limits.pipelined

    def _handle(self, exchange: Exchange) -> None:
        try:
            self._handler(exchange)
        except Exception as error:
            report(error)
            if not exchange.answered:
                exchange.fail(500, "internal", "a bug; the log has more", definite=False)


class FrameDial(Dial):
    """The client's end. It is open when the other end has switched."""

    def __init__(self, drained: Callable[[], None], hello: Callable[[], bytes]) -> None:
        super().__init__(drained)
        self._hello = hello
        self._frames = Frames()
        self._greeting = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(self._hello())

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self.over("connection lost")

    def request(self, head: bytes, body: bytes, answered: Answered) -> None:
        """`head` is the signature."""
        if self._transport is None:
            answered(None)
            return
        self._waiting.append(answered)
        self._transport.writelines((request_head(head, len(body)), body))

    def data_received(self, data: bytes) -> None:
        if not self.opened.done():
            data = self._greeted(data)
        try:
            for frame in self._frames.feed(data) if data else ():
                self.hand_over(read_answer(frame))
        except BadFrame:
            self.abort()

    def _greeted(self, data: bytes) -> bytes:
        """What follows the answer to our greeting."""
        self._greeting += data
        head, end, rest = self._greeting.partition(b"\r\n\r\n")
        if not self._greeting.startswith(SWITCHING[:12][: len(self._greeting)]) or len(head) > MAX_SIGNATURE_BYTES:
            self.abort()
            self.over(f"answered {words_of(self._greeting)}")
            return b""
        if not end:
            return b""
        self._greeting = b""
        self.opened.set_result(None)
        return rest


def words_of(refusal: bytes) -> str:
    """The status of an answer in HTTP, and what it says."""
    head, _, body = refusal.partition(b"\r\n\r\n")
    words = head.partition(b"\r\n")[0].removeprefix(b"HTTP/1.1 ") + b": " + body[:200]
    return words.decode("utf-8", "replace")
