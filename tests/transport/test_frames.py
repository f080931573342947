"""Connections between peers that were switched to frames: the same rules as over HTTP, in another envelope."""

import asyncio
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epoxy.codec import wire
from epoxy.model.frames import PeerResponse
from epoxy.model.messages import Behind
from epoxy.transport import auth, frames
from epoxy.transport.auth import MAC_HEADER
from epoxy.transport.claim import Claim
from epoxy.transport.exchange import Exchange
from epoxy.transport.frames import MAX_FRAME_BYTES, BadFrame, FrameDial, Frames
from epoxy.transport.gate import Gate
from epoxy.transport.http import HttpLimits
from epoxy.transport.limits import MESSAGE_PATH, STREAM_PATH
from epoxy.transport.peers import PeerEndpoint
from epoxy.transport.request import Answer
from tests.transport.harness import Client, Door, door, expect_report, run, until, with_door
from tests.transport.pair import ME, PEER, SECRET, Replica, accept, read
from tests.transport.test_endpoint import NONCES, NOW_MS, frame, post, verifier


def signature(path: bytes, body: bytes, *, secret: bytes = SECRET) -> bytes:
    return auth.sign(secret, Claim(ME, PEER, 1, NOW_MS, next(NONCES)), path, body)[0]


def hello(*, secret: bytes = SECRET) -> bytes:
    return frames.greeting(b"x", signature(STREAM_PATH, b"", secret=secret))


def framed(body: bytes, *, secret: bytes = SECRET) -> bytes:
    signed = signature(MESSAGE_PATH, body, secret=secret)
    return frames.request_head(signed, len(body)) + body


async def answer(client: Client) -> Answer:
    size = int.from_bytes(await client.reader.readexactly(4), "little")
    return frames.read_answer(await client.reader.readexactly(size))


async def switched(opened: Door) -> Client:
    client = await opened.dial()
    client.send(hello())
    assert await client.reader.readuntil(b"\r\n\r\n") == frames.SWITCHING
    return client


def endpoint(replica: Replica) -> PeerEndpoint:
    return PeerEndpoint(replica.handle, Gate(verifier()))


# Cutting


@given(st.lists(st.binary(max_size=40)), st.lists(st.integers(1, 9), min_size=1))
def test_frames_come_out_as_they_went_in_however_they_are_cut(bodies: list[bytes], sizes: list[int]) -> None:
    data = b"".join(len(body).to_bytes(4, "little") + body for body in bodies)
    cutter, found = Frames(), []
    while data:
        for size in sizes:
            found += cutter.feed(data[:size]) if data[:size] else []
            data = data[size:]
    assert found == bodies
    assert not cutter.is_waiting


def test_a_frame_that_is_too_long_is_refused_by_its_length() -> None:
    Frames().feed((MAX_FRAME_BYTES - 4).to_bytes(4, "little"))
    with pytest.raises(BadFrame):
        Frames().feed((MAX_FRAME_BYTES - 3).to_bytes(4, "little"))


@pytest.mark.parametrize("data", [b"", b"\x00", b"\x00\x00", b"\x05\x00abcd", b"\xff\xff" + bytes(70_000)])
def test_a_frame_without_a_signature_is_none(data: bytes) -> None:
    with pytest.raises(BadFrame):
        frames.read_request(data)


# The server's end


def test_frames_are_answered_in_order_and_proved() -> None:
    replica = Replica(lambda request: Behind(version=int(request.key)))  # type: ignore[union-attr]

    async def test(opened: Door) -> None:
        client = await switched(opened)
        requests = [framed(frame(read(n))) for n in (1, 2, 3)]
        client.send(b"".join(requests))
        for number, request in enumerate(requests, 1):
            got = await answer(client)
            mac = frames.read_request(request[4:]).headers[b"authorization"].rpartition(b",")[2]
            assert got.status == 200
            assert wire.decode_peer_response(got.body) == PeerResponse(replies=(Behind(version=number),))
            assert auth.store_of(SECRET, mac, 200, got.headers[MAC_HEADER], got.body) == 0

    with_door(endpoint(replica), test)


def test_an_answer_waits_for_those_before_it() -> None:
    replica = Replica()
    replica.silent = True

    async def test(opened: Door) -> None:
        client = await switched(opened)
        client.send(framed(frame(accept(1))), framed(b"no frame"))
        await until(lambda: len(replica.waiting) == 1)
        replica.speak()
        assert [(await answer(client)).status, (await answer(client)).status] == [200, 400]

    with_door(endpoint(replica), test)


def test_every_frame_is_verified_and_heard_once() -> None:
    replica = Replica()

    async def test(opened: Door) -> None:
        client = await switched(opened)
        once = framed(frame(accept(1)))
        client.send(once, once, framed(frame(accept(2)), secret=b"another"), framed(frame(accept(3), sender=7)))
        assert [(await answer(client)).status for _ in range(4)] == [200, 401, 401, 400]
        assert replica.asked == [accept(1)]

    with_door(endpoint(replica), test)


def test_only_who_holds_the_secret_is_switched() -> None:
    async def test(opened: Door) -> None:
        for words in (hello(secret=b"another"), hello().replace(b"Epoxy", b"Poxy")):
            assert (await opened.ask(words)).startswith(b"HTTP/1.1 401 ")

    with_door(endpoint(Replica()), test)


def test_a_connection_that_does_not_ask_for_frames_gets_none() -> None:
    async def test(opened: Door) -> None:
        for words in (
            hello().replace(b"upgrade: epoxy-frames", b"upgrade: websocket"),
            hello().replace(b"upgrade", b"x"),
        ):
            assert (await opened.ask(words)).startswith(b"HTTP/1.1 400 ")

    with_door(endpoint(Replica()), test)


def test_those_who_speak_http_are_still_served() -> None:
    async def test(opened: Door) -> None:
        assert (await opened.ask(post(frame(accept(1))))).startswith(b"HTTP/1.1 200 ")

    with_door(endpoint(Replica()), test)


def test_nonsense_ends_the_connection() -> None:
    async def test(opened: Door) -> None:
        for nonsense in (b"\xff" * 8, b"\x02\x00\x00\x00\x00\x00"):
            client = await switched(opened)
            client.send(nonsense)
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await client.reader.readexactly(1)

    with_door(endpoint(Replica()), test)


def test_who_asks_more_than_is_answered_waits() -> None:
    replica = Replica()
    replica.silent = True

    async def story() -> None:
        async with door(endpoint(replica), HttpLimits(pipelined=2)) as opened:
            client = await switched(opened)
            client.send(*(framed(frame(accept(n))) for n in range(5)))
            await until(lambda: len(replica.waiting) == 2)
            for taken in (2, 4, 5):
                await until(lambda taken=taken: len(replica.asked) == taken)
                replica.speak()
            assert [(await answer(client)).status for _ in range(5)] == [200] * 5

    run(story())


def test_a_silent_connection_is_hung_up_on() -> None:
    async def test(opened: Door) -> None:
        client = await switched(opened)
        opened.late(70)
        assert len(opened.connections) == 1
        opened.late(80)
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await client.reader.readexactly(1)
        await until(lambda: not opened.connections)

    with_door(endpoint(Replica()), test)


def test_what_has_begun_is_answered_before_the_door_closes() -> None:
    replica = Replica()
    replica.silent = True

    async def test(opened: Door) -> None:
        client = await switched(opened)
        client.send(framed(frame(accept(1))))
        await until(lambda: len(replica.waiting) == 1)
        draining = asyncio.create_task(opened.connections.drain(20))
        await asyncio.sleep(0)
        replica.speak()
        await draining
        assert (await answer(client)).status == 200
        assert await client.rest() == b""

    with_door(endpoint(replica), test)


def test_a_handler_that_fails_says_so() -> None:
    reports: list[BaseException] = []

    def handle(exchange: Exchange) -> None:
        if exchange.request.path == STREAM_PATH:
            exchange.switch(handle)
        else:
            raise ZeroDivisionError

    async def test(opened: Door) -> None:
        expect_report(reports)
        client = await switched(opened)
        client.send(framed(frame(accept(1))))
        assert (await answer(client)).status == 500
        assert [type(error) for error in reports] == [ZeroDivisionError]

    with_door(handle, test)


# The client's end


async def gone(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        await reader.read()
    writer.transport.abort()
    with suppress(OSError):
        await writer.wait_closed()


@pytest.mark.parametrize(
    "words", [b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n", b"SSH-2.0\r\n", b"HTTP/1.1 101 " + b"x" * 2000]
)
def test_who_does_not_switch_is_no_peer(words: bytes) -> None:
    async def story() -> None:
        async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(words)
            await gone(reader, writer)

        server = await asyncio.start_server(listen, "127.0.0.1", 0)
        dial = FrameDial(lambda: None, hello)
        port = server.sockets[0].getsockname()[1]
        await asyncio.get_running_loop().create_connection(lambda: dial, "127.0.0.1", port)
        with pytest.raises(ConnectionError, match="answered"):
            await dial.opened
        await dial.lost
        server.close()

    run(story())


def test_the_answer_to_the_greeting_may_come_in_pieces() -> None:
    async def story() -> None:
        answers: list[Answer | None] = []

        async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            for byte in frames.SWITCHING:
                writer.write(bytes((byte,)))
                await writer.drain()
            await reader.readexactly(4)
            writer.write(frames.answer_head(200, 5, b"proof", 4) + b"body")
            await gone(reader, writer)

        server = await asyncio.start_server(listen, "127.0.0.1", 0)
        dial = FrameDial(lambda: None, hello)
        port = server.sockets[0].getsockname()[1]
        await asyncio.get_running_loop().create_connection(lambda: dial, "127.0.0.1", port)
        await dial.opened
        dial.request(b"signature", b"question", answers.append)
        await until(lambda: bool(answers))
        assert answers == [Answer(200, {MAC_HEADER: b"proof", frames.TOOK_HEADER: b"5"}, b"body")]
        dial.abort()
        await dial.lost
        server.close()

    run(story())
