"""Bodies that a handler reads while they arrive: in order, with backpressure, answered early, broken off."""

import asyncio
from collections.abc import Callable

from epoxy.transport.http.exchange import Exchange
from epoxy.transport.http.request_body import BUFFER_BYTES, RequestBody
from epoxy.transport.http.server import serve_http
from tests.transport.http.harness import run

TARGET = b"/v2/actors/at/room/lobby"


class Reader:
    """Serves streamed requests: `/slow` not before it is told to."""

    def __init__(self) -> None:
        self.taken: dict[Exchange, int] = {}
        self.left: list[Exchange] = []
        self.exchanges: list[Exchange] = []
        self.arrived = asyncio.Event()

    def __call__(self, exchange: Exchange) -> None:
        self.exchanges.append(exchange)
        self.arrived.set()
        body = exchange.body
        path = exchange.request.path
        if path.endswith(b"/refuse"):
            exchange.fail(401, "unauthenticated", "no")
        elif body is None:
            exchange.respond(200, b"whole:" + exchange.request.body)
        elif not path.endswith(b"/slow"):
            exchange.when_client_leaves(lambda: self.left.append(exchange))
            self.serve(exchange, body)

    def serve(self, exchange: Exchange, body: RequestBody) -> None:
        self.taken[exchange] = 0
        body.on_more = lambda: self.more(exchange, body)
        body.on_more()

    def more(self, exchange: Exchange, body: RequestBody) -> None:
        while piece := body.read(50_000):
            self.taken[exchange] += len(piece)
        if body.is_over and not exchange.answered:
            exchange.respond(200, b"%d" % self.taken[exchange])


class Peer:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    def begin(self, path: bytes = b"", length: int | None = None) -> None:
        framing = b"transfer-encoding: chunked" if length is None else b"content-length: %d" % length
        self.writer.write(b"POST %b%b HTTP/1.1\r\nhost: x\r\n%b\r\n\r\n" % (TARGET, path, framing))

    def chunk(self, data: bytes) -> None:
        self.writer.write(b"%x\r\n%b\r\n" % (len(data), data))

    async def answer(self) -> tuple[bytes, bytes]:
        head = await self.reader.readuntil(b"\r\n\r\n")
        size = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
        return head, await self.reader.readexactly(size)


def story(steps: Callable[[Reader, Peer], object]) -> None:
    async def whole() -> None:
        served = Reader()
        server = await serve_http(served, "127.0.0.1", 0)
        streams = await asyncio.open_connection("127.0.0.1", server.sockets[0].getsockname()[1])
        try:
            await steps(served, Peer(*streams))  # type: ignore[misc]
        finally:
            streams[1].close()
            server.close()

    run(whole())


def test_a_long_body_is_served_while_it_arrives_and_the_next_request_after_it() -> None:
    async def steps(served: Reader, peer: Peer) -> None:
        peer.begin()
        await served.arrived.wait()
        peer.chunk(b"abc")
        peer.chunk(bytes(100_000))
        peer.writer.write(b"0\r\n\r\n")
        peer.begin(length=300_000)
        peer.writer.write(bytes(300_000))
        peer.begin(length=3)
        peer.writer.write(b"end")
        answers = [await peer.answer() for _ in range(3)]
        assert [body for _, body in answers] == [b"100003", b"300000", b"whole:end"]
        assert b"connection: close" not in answers[0][0], "it is used again"

    story(steps)


def test_a_handler_that_does_not_read_stops_its_client() -> None:
    async def steps(served: Reader, peer: Peer) -> None:
        size = 16 << 20
        peer.begin(b"/slow", size)
        peer.writer.write(bytes(size))
        await served.arrived.wait()
        (exchange,) = served.exchanges
        body = exchange.body
        assert body is not None
        before = -1
        while before != body.size:
            before = body.size
            await asyncio.sleep(0.02)
        assert BUFFER_BYTES <= body.size <= BUFFER_BYTES + (256 << 10)
        served.serve(exchange, body)
        assert (await peer.answer())[1] == b"%d" % size

    story(steps)


def test_an_answer_before_the_end_of_the_body_is_the_last_of_its_connection() -> None:
    async def steps(_served: Reader, peer: Peer) -> None:
        peer.begin(b"/refuse")
        peer.chunk(bytes(5))
        head, _ = await peer.answer()
        assert b"connection: close" in head
        peer.chunk(bytes(5))
        peer.writer.write(b"0\r\n\r\nGET / HTTP/1.1\r\n\r\n")
        assert await peer.reader.read() == b"", "nothing after it is served"

    story(steps)


def test_a_body_that_breaks_off_is_told_to_its_handler() -> None:
    async def steps(served: Reader, peer: Peer) -> None:
        peer.begin()
        peer.chunk(b"half")
        await served.arrived.wait()
        peer.writer.write(b"zz\r\n")
        assert await peer.reader.read() == b"", "no second answer to one request"
        assert served.left == served.exchanges

    story(steps)


def test_pieces_are_read_as_wanted() -> None:
    taken: list[int] = []
    body = RequestBody(taken.append)
    told: list[int] = []
    body.on_more = lambda: told.append(body.size)
    body.arrived(b"abc")
    body.arrived(b"defg")
    assert (body.read(5), body.read(1), body.size) == (b"abcde", b"f", 1)
    assert (body.is_over, body.is_full) == (False, False)
    body.finish()
    assert (body.is_over, body.read(9), body.is_over, taken, told) == (False, b"g", True, [5, 1, 1], [3, 7, 1])
    body.arrived(bytes(BUFFER_BYTES))
    assert body.is_full
    body.drop()
    assert body.size == 0
