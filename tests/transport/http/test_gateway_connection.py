"""What passes through a node to its gateway and back: bodies, streams and WebSockets, fast ends and slow ones."""

import asyncio
import os
from contextlib import suppress

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from epoxy.transport.http.exchange import Exchange, Stream
from epoxy.transport.http.gateway_connection import MAX_ANSWER_HEAD_BYTES, WHOLE_ANSWER_BYTES, ClientPipe
from epoxy.transport.http.response import problem_of
from epoxy.transport.http.websocket import WebSocket, accept
from epoxy.transport.limits import ACTOR_PATH
from tests.transport.http.forwarding_bench import MARK, hop_to
from tests.transport.http.harness import get, put, run, until

LONG = os.urandom(1 << 20)
MANY = 32 << 20


def test_headers_go_along_and_those_of_a_connection_do_not() -> None:
    seen: list[dict[bytes, bytes]] = []

    def answer(exchange: Exchange) -> None:
        seen.append(exchange.request.headers)
        exchange.respond(201, b"made", content_type=b"text/plain", headers=((b"epoxy-version", b"7"),))

    async def story() -> None:
        async with hop_to(answer) as hop:
            client = await hop.shard.dial()
            headers = b"authorization: Bearer epx_a", b"keep-alive: 5", b"te: x", b"%b: %b" % (MARK[0], b"forged")
            client.send(put(b"/a", b"x", b"host: shard", *headers))
            head, body = await client.answer()
            assert body == b"made"
            assert head.startswith(b"HTTP/1.1 201 ")
            assert b"content-type: text/plain\r\n" in head
            assert b"epoxy-version: 7\r\n" in head

    run(story())
    given = {b"host": b"shard", b"authorization": b"Bearer epx_a", b"content-length": b"1", MARK[0]: MARK[1]}
    assert seen == [given]


def test_head_and_answers_without_a_body() -> None:
    def answer(exchange: Exchange) -> None:
        exchange.respond(204 if exchange.request.path == b"/none" else 200, b"12345")

    async def story() -> None:
        async with hop_to(answer) as hop:
            client = await hop.shard.dial()
            client.send(b"HEAD / HTTP/1.1\r\nhost: x\r\n\r\n")
            head = await client.reader.readuntil(b"\r\n\r\n")
            assert b"content-length: 5\r\n" in head
            client.send(get(b"/none"))
            head = await client.reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 204 ")
            assert b"transfer-encoding" not in head
            client.send(get(b"/some"))
            assert (await client.answer())[1] == b"12345"
            assert len(hop.forwarder._open) == 1, "all on one connection"

    run(story())


async def chunks(reader: asyncio.StreamReader) -> bytes:
    """The body of an answer in pieces."""
    found = []
    while size := int(await reader.readline(), 16):
        found.append(await reader.readexactly(size))
        await reader.readexactly(2)
    await reader.readexactly(2)
    return b"".join(found)


def test_long_bodies_both_ways() -> None:
    async def story() -> None:
        async with hop_to(lambda exchange: exchange.respond(200, exchange.request.body)) as hop:
            for size in (WHOLE_ANSWER_BYTES, WHOLE_ANSWER_BYTES + 1, len(LONG)):
                client = await hop.shard.dial()
                client.send(put(b"/a", LONG[:size]))
                head = await client.reader.readuntil(b"\r\n\r\n")
                whole = size <= WHOLE_ANSWER_BYTES
                assert (b"transfer-encoding: chunked" in head) is not whole
                body = await (client.reader.readexactly(size) if whole else chunks(client.reader))
                assert body == LONG[:size]

    run(story())


@pytest.mark.parametrize("framing", [b"content-length: 1048576", b"transfer-encoding: chunked"])
def test_a_body_is_forwarded_as_it_arrives(framing: bytes) -> None:
    """Of a request to an actor: the gateway has the beginning before the client has sent the end."""

    async def story() -> None:
        begun: list[Exchange] = []
        async with hop_to(begun.append) as hop:
            client = await hop.shard.dial()
            client.send(b"POST %bx HTTP/1.1\r\nhost: x\r\n%b\r\n\r\n" % (ACTOR_PATH, framing))
            chunked = framing.startswith(b"transfer")
            half = len(LONG) // 2
            read = b""

            def has_read(size: int) -> bool:
                nonlocal read
                if begun and begun[0].body is not None:
                    read += begun[0].body.read(1 << 20)
                return len(read) == size

            client.send(b"%x\r\n%b\r\n" % (half, LONG[:half]) if chunked else LONG[:half])
            await until(lambda: has_read(half))
            client.send(b"%x\r\n%b\r\n0\r\n\r\n" % (half, LONG[half:]) if chunked else LONG[half:])
            await until(lambda: has_read(len(LONG)))
            body = begun[0].body
            assert body is not None
            await until(lambda: body.is_over)
            assert read == LONG
            begun[0].respond(200, b"thanks")
            assert (await client.answer())[1] == b"thanks"

    run(story())


def test_events_are_passed_on_one_by_one() -> None:
    async def story() -> None:
        streams: list[Stream] = []
        async with hop_to(
            lambda exchange: streams.append(exchange.stream(200, content_type=b"text/event-stream"))
        ) as hop:
            client = await hop.shard.dial()
            client.send(get(b"/changes"))
            head = await client.reader.readuntil(b"\r\n\r\n")
            assert b"content-type: text/event-stream\r\n" in head
            for number in range(3):
                streams[0].write(b"data: %d\n\n" % number)
                size = int(await client.reader.readline(), 16)
                assert await client.reader.readexactly(size + 2) == b"data: %d\n\n\r\n" % number
            streams[0].close()
            assert await client.reader.read() == b"0\r\n\r\n"
            await until(lambda: not hop.forwarder._open)

    run(story())


def test_a_client_that_leaves_ends_the_stream_at_the_gateway() -> None:
    async def story() -> None:
        streams: list[Stream] = []
        ended: list[None] = []
        async with hop_to(
            lambda exchange: streams.append(exchange.stream(200, content_type=b"text/event-stream"))
        ) as hop:
            client = await hop.shard.dial()
            client.send(get(b"/changes"))
            await client.reader.readuntil(b"\r\n\r\n")
            streams[0].on_close(lambda: ended.append(None))
            client.reset()
            await until(lambda: bool(ended))
            await until(lambda: not hop.forwarder._open)

    run(story())


def test_a_client_that_leaves_before_the_answer_is_told_to_the_gateway() -> None:
    async def story() -> None:
        held: list[Exchange] = []
        left: list[None] = []

        def hold(exchange: Exchange) -> None:
            held.append(exchange)
            exchange.when_client_leaves(lambda: left.append(None))

        async with hop_to(hold) as hop:
            client = await hop.shard.dial()
            client.send(get())
            await until(lambda: bool(held))
            client.writer.write_eof()
            await until(lambda: bool(left))
            held[0].respond(200, b"still")
            assert b"still" in await client.rest(), "who says no more may still read"
            await until(lambda: not hop.forwarder._open)

    run(story())


def test_a_gateway_that_is_gone_in_mid_answer_breaks_the_answer_off() -> None:
    async def story() -> None:
        streams: list[Stream] = []
        async with hop_to(lambda exchange: streams.append(exchange.stream(200, content_type=b"text/plain"))) as hop:
            client = await hop.shard.dial()
            client.send(get())
            await client.reader.readuntil(b"\r\n\r\n")
            streams[0].write(b"half")
            await client.reader.readuntil(b"half\r\n")
            streams[0].abort()
            with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
                await client.reader.readexactly(1)

    run(story())


def test_a_gateway_that_is_gone_before_its_answer() -> None:
    async def story() -> None:
        async with hop_to(lambda exchange: exchange.abort()) as hop:
            client = await hop.shard.dial()
            client.send(put(b"/a", b"x"))
            _, body = await client.answer()
            assert problem_of(body)[0] == "gateway_lost"
            assert b'"definite":false' in body

    run(story())


def test_a_slow_reader_slows_the_gateway_down() -> None:
    """Of an answer that is longer than all buffers on the way the gateway can write only a part, until it is read."""

    async def story() -> None:
        written = 0
        streams: list[Stream] = []

        def fill() -> None:
            nonlocal written
            while streams[0].writable and written < MANY:
                streams[0].write(LONG)
                written += len(LONG)
            if written >= MANY:
                streams[0].close()

        def answer(exchange: Exchange) -> None:
            streams.append(exchange.stream(200, content_type=b"application/octet-stream"))
            streams[0].on_drain(fill)
            fill()

        async with hop_to(answer) as hop:
            client = await hop.shard.dial()
            client.transport.pause_reading()
            client.send(get())
            before = -1
            while before != written:
                before = written
                await asyncio.sleep(0.1)
            assert 0 < written < MANY
            client.transport.resume_reading()
            await client.reader.readuntil(b"\r\n\r\n")
            assert len(await chunks(client.reader)) == MANY

    run(story())


def test_an_endless_head_is_no_answer() -> None:
    async def story() -> None:
        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nx: " + b"a" * (2 * MAX_ANSWER_HEAD_BYTES))
            with suppress(ConnectionError):
                await reader.read()
            writer.close()

        server = await asyncio.start_server(talk, "127.0.0.1", 0)
        async with hop_to(lambda _: None) as hop:
            hop.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            client = await hop.shard.dial()
            client.send(get())
            assert problem_of((await client.answer())[1])[0] == "gateway_lost"
        server.close()

    run(story())


# WebSockets


class Echo:
    def __init__(self, socket: WebSocket) -> None:
        self.socket = socket
        self.ended = asyncio.Event()

    def heard(self, message: bytes, *, text: bool) -> None:
        self.socket.send(message, text=text)

    def drained(self) -> None:
        pass

    def lost(self) -> None:
        self.ended.set()


def test_a_websocket_is_piped_both_ways() -> None:
    async def story() -> None:
        echoes: list[Echo] = []

        def listen(socket: WebSocket) -> Echo:
            echoes.append(Echo(socket))
            return echoes[-1]

        async with hop_to(lambda exchange: accept(exchange, listen)) as hop:
            url = f"ws://127.0.0.1:{hop.shard.port}/socket"
            async with connect(url, proxy=None, open_timeout=60) as socket:
                for message in ("words", LONG, b""):
                    await socket.send(message)
                    assert await socket.recv() == message
                assert hop.forwarder.under_way == 1
            await echoes[0].ended.wait()
            await until(lambda: not hop.forwarder._open)
            async with connect(url, proxy=None, open_timeout=60) as socket:
                await socket.send("x")
                await socket.recv()
                echoes[1].socket.close("enough")
                with pytest.raises(ConnectionClosed):
                    await socket.recv()
            async with connect(url, proxy=None, open_timeout=60) as socket:
                await socket.send("x")
                await socket.recv()
                hop.forwarder.last_call()
                with pytest.raises(ConnectionClosed):
                    await socket.recv()
            await until(lambda: not hop.forwarder._open)

    run(story())


def test_a_refused_websocket_is_an_answer_as_any_other() -> None:
    async def story() -> None:
        async with hop_to(lambda exchange: exchange.fail(403, "forbidden", "no")) as hop:
            client = await hop.shard.dial()
            client.send(get(b"/socket", b"connection: Upgrade", b"upgrade: websocket"))
            head, body = await client.answer()
            assert (head.split()[1], problem_of(body)[0]) == (b"403", "forbidden")

    run(story())


def test_a_slow_reader_of_a_websocket_slows_its_gateway_down() -> None:
    """Nothing is kept between the two but what their sockets hold."""

    async def story() -> None:
        echoes: list[Echo] = []

        def listen(socket: WebSocket) -> Echo:
            echoes.append(Echo(socket))
            return echoes[-1]

        async with hop_to(lambda exchange: accept(exchange, listen)) as hop:
            url = f"ws://127.0.0.1:{hop.shard.port}/socket"
            async with connect(url, proxy=None, open_timeout=60, max_queue=1, max_size=None) as socket:
                await socket.send("x")
                await socket.recv()
                (connection,) = hop.forwarder._open
                pipe = connection._pipe
                assert pipe is not None
                socket.transport.pause_reading()
                sent = 0
                while pipe._transport is not None and not pipe._transport.get_write_buffer_size():
                    echoes[0].socket.send(LONG[: 64 << 10], text=False)
                    sent += 1
                    await asyncio.sleep(0)
                assert pipe._transport is not None
                most = 0
                for _ in range(64):
                    echoes[0].socket.send(LONG[: 64 << 10], text=False)
                    await asyncio.sleep(0.001)
                    most = max(most, pipe._transport.get_write_buffer_size())
                socket.transport.resume_reading()
                for _ in range(sent + 64):
                    assert await socket.recv() == LONG[: 64 << 10]
            assert most < 512 << 10, "what one read of a socket brings, and the mark at which it is paused"

    run(story())


def test_a_planted_fault_a_pipe_that_does_not_wait_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ClientPipe, "pause_writing", lambda _: None)
    with pytest.raises(AssertionError, match="what one read of a socket brings"):
        test_a_slow_reader_of_a_websocket_slows_its_gateway_down()


def test_last_call_ends_event_streams_in_order() -> None:
    async def story() -> None:
        async with hop_to(lambda exchange: exchange.stream(200, content_type=b"text/event-stream").write(b"a")) as hop:
            client = await hop.shard.dial()
            client.send(get())
            await client.reader.readuntil(b"a\r\n")
            hop.forwarder.last_call()
            assert await client.reader.read() == b"0\r\n\r\n"

    run(story())
