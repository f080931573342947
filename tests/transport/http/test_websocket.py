"""A real client, from the library that envoys use, against a server of ours."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from epoxy.transport.http import websocket
from epoxy.transport.http.connections import Connections
from epoxy.transport.http.exchange import Exchange
from epoxy.transport.http.server import serve_http
from epoxy.transport.http.websocket import MAX_MESSAGE_BYTES, WebSocket, accept
from epoxy.transport.limits import HttpLimits


class Echo:
    def __init__(self, socket: WebSocket) -> None:
        self.socket = socket
        self.ended = asyncio.Event()

    def heard(self, message: bytes, *, text: bool) -> None:
        if message == b"go":
            self.socket.close("as you wish")
        else:
            self.socket.send(message, text=text)

    def drained(self) -> None:
        pass

    def lost(self) -> None:
        assert not self.ended.is_set()
        self.ended.set()


class SocketServer:
    def __init__(self) -> None:
        self.echoes: list[Echo] = []
        self.connections = Connections(100)
        self.port = 0

    def listen(self, socket: WebSocket) -> Echo:
        self.echoes.append(Echo(socket))
        return self.echoes[-1]

    def __call__(self, exchange: Exchange) -> None:
        if exchange.request.path == b"/socket":
            accept(exchange, self.listen)
        else:
            exchange.respond(200, b"plain")

    def connect(self) -> connect:
        return connect(f"ws://127.0.0.1:{self.port}/socket", proxy=None, open_timeout=60)


@asynccontextmanager
async def opened() -> AsyncIterator[SocketServer]:
    server = SocketServer()
    listener = await serve_http(server, "127.0.0.1", 0, connections=server.connections)
    server.port = listener.sockets[0].getsockname()[1]
    async with listener:
        yield server


def run(story: Callable[[SocketServer], object]) -> None:
    async def main() -> None:
        async with opened() as server:
            told = story(server)
            assert asyncio.iscoroutine(told)
            await asyncio.wait_for(told, 60)

    asyncio.run(main())


def test_messages_go_both_ways_whole_and_in_order() -> None:
    async def story(server: SocketServer) -> None:
        async with server.connect() as client:
            words = ["a", "ä" * 70_000, "", "x" * (1 << 20)]
            for word in words:
                await client.send(word)
            assert [await client.recv() for _ in words] == words
            await client.send(["frag", "ment", "ed"])
            assert await client.recv() == "fragmented"
            await (await client.ping())
        await server.echoes[0].ended.wait()

    run(story)


def test_the_connection_is_no_longer_the_doors() -> None:
    async def story(server: SocketServer) -> None:
        async with server.connect() as client:
            await client.send("x")
            assert await client.recv() == "x"
            assert len(server.connections) == 0
            server.connections.sweep(1e9)
            await client.send("y")
            assert await client.recv() == "y"

    run(story)


def test_binary_messages_stay_binary_and_text_stays_text() -> None:
    async def story(server: SocketServer) -> None:
        async with server.connect() as client:
            words: list[str | bytes] = ["text", b"\xff\x00", "", b""]
            for word in words:
                await client.send(word)
            await client.send([b"frag", b"ment", b"ed"])
            assert [await client.recv() for _ in range(5)] == [*words, b"fragmented"]

    run(story)


def test_a_listener_that_pauses_hears_the_rest_when_it_goes_on() -> None:
    class Slow(Echo):
        heard_so_far: list[bytes]

        def heard(self, message: bytes, *, text: bool) -> None:  # noqa: ARG002
            self.heard_so_far.append(message)
            self.socket.pause_reading()

    async def story(server: SocketServer) -> None:
        slow: list[Slow] = []

        def listen(socket: WebSocket) -> Slow:
            slow.append(Slow(socket))
            slow[0].heard_so_far = []
            return slow[0]

        server.listen = listen  # type: ignore[method-assign]
        async with server.connect() as client:
            words = [bytes([number]) * 3 * websocket.SLICE_BYTES for number in range(5)]
            for word in words:
                await client.send(word)
            for count in range(1, 6):
                while len(slow[0].heard_so_far) < count:
                    await asyncio.sleep(0)
                await asyncio.sleep(0.01)
                assert slow[0].heard_so_far == words[:count]
                slow[0].socket.resume_reading()

    run(story)


async def end_of(client: ClientConnection) -> ConnectionClosed:
    with pytest.raises(ConnectionClosed) as caught:
        await client.recv()
    return caught.value


def test_either_side_may_end_it() -> None:
    async def story(server: SocketServer) -> None:
        async with server.connect() as client:
            await client.send("go")
            ended = await end_of(client)
            assert ended.rcvd is not None
            assert (ended.rcvd.code, ended.rcvd.reason) == (1001, "as you wish")
        await server.echoes[0].ended.wait()
        server.echoes[0].socket.send(b"into the void")
        server.echoes[0].socket.close()
        async with server.connect() as client:
            client.transport.abort()
        await server.echoes[1].ended.wait()

    run(story)


def test_a_message_that_is_too_long_ends_it() -> None:
    async def story(server: SocketServer) -> None:
        async with server.connect() as client:
            await client.send("x" * (MAX_MESSAGE_BYTES + 1))
            ended = await end_of(client)
            assert ended.rcvd is not None
            assert ended.rcvd.code == 1009
        await server.echoes[0].ended.wait()

    run(story)


async def ask(server: SocketServer, *lines: str) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write("\r\n".join(["GET /socket HTTP/1.1", "host: x", *lines, "", ""]).encode())
    head = await reader.readuntil(b"\r\n\r\n")
    writer.close()
    return head.split(b"\r\n")[0]


UPGRADE = ("connection: upgrade", "upgrade: websocket", "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==")


def test_what_is_no_websocket_is_told_so() -> None:
    async def story(server: SocketServer) -> None:
        assert b" 426 " in await ask(server)
        assert b" 426 " in await ask(server, *UPGRADE, "sec-websocket-version: 8")
        assert b" 101 " in await ask(server, *UPGRADE, "sec-websocket-version: 13")
        assert b" 403 " in await ask(server, *UPGRADE, "sec-websocket-version: 13", "origin: http://evil.example")
        with pytest.raises(InvalidStatus):
            async with connect(f"ws://127.0.0.1:{server.port}/other", proxy=None):
                pass

    run(story)


def test_behind_an_answer_that_is_not_there_yet_there_is_no_websocket() -> None:
    async def story(server: SocketServer) -> None:
        held: list[Exchange] = []
        plain = server.__class__.__call__

        def hold(exchange: Exchange) -> None:
            if exchange.request.path == b"/slow":
                held.append(exchange)
            else:
                plain(server, exchange)

        # Both in one turn: on a slow machine the second would be served behind the first's answer, as it may be.
        listener = await serve_http(hold, "127.0.0.1", 0, limits=HttpLimits(turn_s=60))
        reader, writer = await asyncio.open_connection(*listener.sockets[0].getsockname())
        lines = ["GET /slow HTTP/1.1", "host: x", ""]
        lines += ["GET /socket HTTP/1.1", "host: x", *UPGRADE, "sec-websocket-version: 13", "", ""]
        writer.write("\r\n".join(lines).encode())
        while not held:
            await asyncio.sleep(0)
        while not held[0].answered:
            held[0].respond(200, b"late")
        answer = await reader.read()
        assert b"late" in answer
        assert b" 400 " in answer
        writer.close()
        listener.close()

    run(story)


PING = b"\x89\xfd" + b"mask" + b"p" * 125
HANDSHAKE = (
    b"GET /socket HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
    b"sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nsec-websocket-version: 13\r\n\r\n"
)


async def shaken(server: SocketServer) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A client that reads no more than it asks for."""
    raw = socket.socket()
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    raw.setblocking(False)
    await asyncio.get_running_loop().sock_connect(raw, ("127.0.0.1", server.port))
    reader, writer = await asyncio.open_connection(sock=raw, limit=1024)
    writer.write(HANDSHAKE)
    await reader.readuntil(b"\r\n\r\n")
    return reader, writer


def test_pings_whose_answers_are_not_read_end_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(websocket, "MAX_UNSENT_BYTES", 64 << 10)

    async def story(server: SocketServer) -> None:
        _, writer = await shaken(server)
        try:
            while not server.echoes[0].ended.is_set():
                writer.write(PING * 100)
                await asyncio.wait_for(writer.drain(), 60)
                await asyncio.sleep(0)
        except OSError:
            await server.echoes[0].ended.wait()
        finally:
            writer.transport.abort()

    run(story)


def test_empty_fragments_are_not_kept() -> None:
    """Their sizes come to nothing, so no limit on the size of a message would end them."""
    first, empty, last = b"\x01\x81mask" + bytes((ord("a") ^ ord("m"),)), b"\x00\x80mask", b"\x80\x80mask"
    ping, pong = b"\x89\x80mask", b"\x8a\x00"

    async def story(server: SocketServer) -> None:
        reader, writer = await shaken(server)
        writer.write(first + empty * 1000 + ping)
        assert await reader.readexactly(2) == pong
        assert server.echoes[0].socket._pieces == [b"a"]
        writer.write(last)
        assert await reader.readexactly(3) == b"\x81\x01a"
        writer.transport.abort()
        await server.echoes[0].ended.wait()

    run(story)


def test_between_many_short_frames_others_have_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(websocket, "TURN_S", 0.0)
    message = b"\x81\x81" + b"mask" + bytes((ord("a") ^ ord("m"),))
    heard_before: list[int] = []
    count = 30_000

    class Counting(Echo):
        heard_so_far = 0

        def heard(self, message: bytes, *, text: bool) -> None:  # noqa: ARG002
            self.heard_so_far += 1

    async def story(server: SocketServer) -> None:
        counting: list[Counting] = []

        def listen(socket: WebSocket) -> Counting:
            counting.append(Counting(socket))
            return counting[0]

        server.listen = listen  # type: ignore[method-assign]
        reader, writer = await shaken(server)
        writer.write(message * count)
        while not counting[0].heard_so_far:
            await asyncio.sleep(0)
        while counting[0].heard_so_far < count:
            heard_before.append(counting[0].heard_so_far)
            await asyncio.sleep(0)
        assert len(heard_before) > 10, "turns of the loop, between frames that came together"
        del reader
        writer.transport.abort()

    run(story)
