"""An HTTP server with clients that are slow, many, gone or talk nonsense, its streams, and its end."""

import asyncio
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epoxy.transport.http.exchange import Exchange, Stream
from epoxy.transport.http.server import SMALL_BYTES
from epoxy.transport.limits import HttpLimits
from tests.transport.http.harness import Client, Keeper, RunningServer, bodies, echo, get, put, until, with_server

# Slow clients. The sweeper is told that time has passed.


@pytest.mark.parametrize(
    ("part", "seconds"),
    [
        (b"GET / HTTP/1.1\r\nhos", HttpLimits().head_timeout_s),
        (b"PUT / HTTP/1.1\r\ncontent-length: 2\r\n\r\nv", HttpLimits().body_timeout_s),
    ],
)
def test_a_request_that_takes_too_long(part: bytes, seconds: float) -> None:
    async def test(server: RunningServer) -> None:
        client = await server.dial()
        client.send(get(b"/first") + part)
        await client.answer()
        server.late(seconds - 1)
        assert len(server.connections) == 1
        server.late(seconds + 3)
        assert (await client.rest()).startswith(b"HTTP/1.1 408 ")

    with_server(echo, test)


def test_an_idle_connection_is_closed_and_one_that_waits_for_us_is_not() -> None:
    keeper = Keeper()

    async def test(server: RunningServer) -> None:
        client = await server.dial()
        client.send(get())
        await until(lambda: len(keeper.exchanges) == 1)
        server.late(3600)
        server.late(0)
        keeper.exchanges[0].respond(200, b"patience")
        assert (await client.answer())[1] == b"patience"
        server.late(HttpLimits().idle_timeout_s + 3)
        assert await client.rest() == b""

    with_server(keeper, test)


def test_a_client_that_does_not_read_is_cut_off() -> None:
    """And before that it is not read from: its answers would pile up."""
    served: list[int] = []

    def handler(exchange: Exchange) -> None:
        served.append(1)
        exchange.respond(200, b"v" * (1 << 20))

    async def test(server: RunningServer) -> None:
        client = await server.dial()
        client.transport.pause_reading()
        client.send(*(get() for _ in range(100)))
        await until(lambda: len(served) > 0)
        quiet = 0
        while quiet < 50:
            before = len(served)
            await asyncio.sleep(0.001)
            quiet = quiet + 1 if len(served) == before else 0
        assert len(served) < 100
        server.late(HttpLimits().write_timeout_s + 3)
        await until(lambda: not server.connections)

    with_server(handler, test, HttpLimits(pipelined=4))


def test_many_long_bodies_together_are_too_many() -> None:
    keeper = Keeper()

    async def test(server: RunningServer) -> None:
        clients = [await server.dial() for _ in range(4)]
        for number, client in enumerate(clients[:3]):
            client.send(put(b"/%d" % number, b"v" * 10_000))
        await until(lambda: len(keeper.exchanges) == 3)
        held = server.connections.client_budget.bytes
        assert 30_000 < held < 30_300, "heads count too"
        clients[3].send(put(b"/3", b"v" * 10_000))
        assert (await clients[3].rest()).startswith(b"HTTP/1.1 503 ")
        keeper.exchanges[0].respond(204)
        clients[1].reset()
        await until(lambda: server.connections.client_budget.bytes == held // 3)
        clients[0].send(put(b"/4", b"v" * 10_000))
        await until(lambda: len(keeper.exchanges) == 4)
        for exchange in keeper.exchanges[1:]:
            exchange.respond(204)
        await until(lambda: server.connections.client_budget.bytes == 0)

    with_server(keeper, test, HttpLimits(held_bytes=35_000))


def test_while_others_hold_everything_a_short_request_gets_in() -> None:
    keeper = Keeper()

    async def test(server: RunningServer) -> None:
        crowd = [await server.dial() for _ in range(3)]
        for client in crowd:
            client.send(put(b"/hanging", b"v" * 10_000)[:-1])
        await until(lambda: server.connections.client_budget.bytes > 30_000)
        short, long = await server.dial(), await server.dial()
        short.send(put(b"/short", b"v" * SMALL_BYTES))
        await until(lambda: len(keeper.exchanges) == 1)
        long.send(put(b"/long", b"v" * (SMALL_BYTES + 1)))
        assert (await long.rest()).startswith(b"HTTP/1.1 503 ")
        assert keeper.paths == [b"/short"]

    with_server(keeper, test, HttpLimits(held_bytes=30_000))


def test_heads_that_wait_for_their_turn_are_held_too() -> None:
    keeper = Keeper()

    async def test(server: RunningServer) -> None:
        client = await server.dial()
        client.send(*(get(b"/%d" % number, b"x: " + b"y" * 1000) for number in range(40)))
        answers = await until_refused(client, keeper)
        assert 20 < len(keeper.exchanges) < 40
        assert bodies(answers)[-1].startswith(b'{"error":{"code":"busy"')

    with_server(keeper, test, HttpLimits(held_bytes=30_000))


async def until_refused(client: Client, keeper: Keeper) -> bytes:
    """The refusal comes in its turn, so what is before it must be answered. Nothing new in many turns of the loop, each
    of which looks at the sockets: all is read that will be."""
    quiet = 0
    while quiet < 50:
        seen = len(keeper.exchanges)
        await asyncio.sleep(0.001)
        quiet = quiet + 1 if 0 < seen == len(keeper.exchanges) else 0
    for exchange in keeper.exchanges:
        exchange.respond(200)
    return await client.rest()


def test_a_body_must_fit_into_what_a_connection_may_hold() -> None:
    with pytest.raises(AssertionError, match="must fit"):
        HttpLimits(pipelined_bytes=1 << 20)


def test_one_connection_too_many() -> None:
    async def test(server: RunningServer) -> None:
        clients = [await server.dial() for _ in range(2)]
        for client in clients:
            client.send(get())
            await client.answer()
        refused = await server.dial()
        refused.send(get())
        assert (await refused.rest()).startswith(b"HTTP/1.1 503 ")
        clients.pop().hang_up()
        await until(lambda: len(server.connections) == 1)
        assert (await server.ask(get())).startswith(b"HTTP/1.1 200 ")
        clients.pop().hang_up()

    with_server(echo, test, HttpLimits(connections=2))


# The end.


def test_drain_finishes_what_is_under_way() -> None:
    keeper = Keeper()

    async def test(server: RunningServer) -> None:
        idle, busy, halfway = [await server.dial() for _ in range(3)]
        idle.send(get(b"/idle"))
        busy.send(get(b"/1"), get(b"/2"))
        halfway.send(get(b"/3") + b"PUT /4 HTTP/1.1\r\ncontent-length: 2\r\n\r\nv")
        await until(lambda: len(keeper.exchanges) == 4)
        by_path = {exchange.request.path: exchange for exchange in keeper.exchanges}
        by_path[b"/idle"].respond(200)
        by_path[b"/3"].respond(200)
        await idle.answer()
        draining = asyncio.ensure_future(server.connections.drain(grace_s=20))
        assert (await idle.rest()).startswith(b"HTTP/1.1 503 ")
        halfway.send(b"v")
        await until(lambda: len(keeper.exchanges) == 5)
        for exchange in (by_path[b"/1"], by_path[b"/2"], keeper.exchanges[4]):
            exchange.respond(200, exchange.request.path)
        answers = await busy.rest()
        assert bodies(answers) == [b"/1", b"/2"]
        assert answers.count(b"connection: close") == 1
        assert bodies(await halfway.rest()) == [b"", b"/4"]
        await draining

    with_server(keeper, test)


def test_a_request_that_meets_the_end_of_its_connection_is_told_that_nothing_was_done() -> None:
    """It was sent before the client could know, so its fate must not depend on which of the two was first."""
    keeper = Keeper()

    async def test(server: RunningServer) -> None:
        client = await server.dial()
        client.send(get(b"/before"))
        await until(lambda: len(keeper.exchanges) == 1)
        keeper.exchanges[0].respond(200)
        await client.answer()
        draining = asyncio.ensure_future(server.connections.drain(grace_s=20))
        await asyncio.sleep(0)
        client.send(b"PUT /crossing HTTP/1.1\r\ncontent-length: 2\r\n\r\nvv")
        answer = await client.rest()
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert b"connection: close" in answer
        assert b'"code":"stopping"' in answer
        assert b'"definite":true' in answer
        await draining
        assert len(keeper.exchanges) == 1, "what was refused was served"

    with_server(keeper, test)


def test_after_the_last_call_every_answer_closes_its_connection() -> None:
    async def test(server: RunningServer) -> None:
        client = await server.dial()
        client.send(get(b"/before"))
        await client.answer()
        server.connections.last_call()
        client.send(get(b"/after"))
        answer = await client.rest()
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert b"connection: close" in answer

    with_server(echo, test)


def test_drain_does_not_wait_for_ever() -> None:
    keeper = Keeper()

    async def test(server: RunningServer) -> None:
        client = await server.dial()
        client.send(get())
        await until(lambda: len(keeper.exchanges) == 1)
        await server.connections.drain(grace_s=0.01)
        with suppress(ConnectionResetError):
            assert await client.rest() == b""
        assert not server.connections

    with_server(keeper, test)


# Streams.


def test_a_stream_in_pieces() -> None:
    streams: list[Stream] = []
    ended: list[str] = []
    plain = Keeper()

    def handler(exchange: Exchange) -> None:
        if exchange.request.path == b"/plain":
            plain(exchange)
            return
        stream = exchange.stream(200, content_type=b"text/event-stream", headers=[(b"cache-control", b"no-store")])
        stream.on_close(lambda: ended.append("closed"))
        stream.write(b"early")
        streams.append(stream)

    async def test(server: RunningServer) -> None:
        client = await server.dial()
        client.send(get(b"/plain") + get(b"/stream"))
        await until(lambda: bool(streams))
        assert not streams[0].writable, "an answer before it is not sent yet"
        plain.exchanges[0].respond(200, b"plain")
        assert (await client.answer())[1] == b"plain"
        assert streams[0].writable
        head = await client.reader.readuntil(b"\r\n\r\n")
        assert b"transfer-encoding: chunked" in head
        assert b"cache-control: no-store" in head
        streams[0].write(b"")
        streams[0].write(b"late")
        streams[0].close()
        assert ended == ["closed"]
        assert await client.rest() == b"5\r\nearly\r\n4\r\nlate\r\n0\r\n\r\n"

    with_server(handler, test)


def test_a_stream_tells_when_the_client_has_gone() -> None:
    ended: list[str] = []

    def handler(exchange: Exchange) -> None:
        stream = exchange.stream(200, content_type=b"text/plain")
        stream.write(b"hello")
        stream.on_close(lambda: ended.append(exchange.request.path.decode()))

    async def test(server: RunningServer) -> None:
        for path in (b"/abort", b"/half"):
            client = await server.dial()
            client.send(get(path))
            await client.reader.readuntil(b"hello")
            if path == b"/half":
                client.writer.write_eof()
            else:
                client.hang_up()
            await until(lambda path=path: ended[-1:] == [path.decode()])

    with_server(handler, test)


def test_a_stream_waits_for_its_reader() -> None:
    streams: list[Stream] = []
    drained: list[int] = []

    def handler(exchange: Exchange) -> None:
        streams.append(exchange.stream(200, content_type=b"text/plain"))
        streams[0].on_drain(lambda: drained.append(1))

    async def test(server: RunningServer) -> None:
        client = await server.dial()
        client.send(get())
        await until(lambda: bool(streams))
        client.transport.pause_reading()
        while streams[0].writable:
            streams[0].write(b"v" * 65536)
            await asyncio.sleep(0)
        assert drained == []
        client.transport.resume_reading()
        reading = asyncio.ensure_future(client.rest())
        await until(lambda: drained == [1])
        assert streams[0].writable
        streams[0].close()
        assert (await reading).endswith(b"0\r\n\r\n")

    with_server(handler, test)


# Garbage.

WHOLE = (get(b"/a"), put(b"/b", b"value"), b"POST /c HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n1\r\nv\r\n0\r\n\r\n")


@given(data=st.data())
@settings(max_examples=60)
def test_garbage_hurts_nobody_else(data: st.DataObject) -> None:
    stream = bytearray(b"".join(data.draw(st.lists(st.sampled_from(WHOLE), min_size=1, max_size=5))))
    for _ in range(data.draw(st.integers(1, 6))):
        position = data.draw(st.integers(0, len(stream) - 1))
        stream[position : position + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    cut = data.draw(st.integers(0, len(stream)))

    async def test(server: RunningServer) -> None:
        neighbour = await server.dial()
        neighbour.send(get(b"/before"))
        await neighbour.answer()
        await server.ask(bytes(stream[:cut]), bytes(stream[cut:]))
        neighbour.send(get(b"/after"))
        assert (await neighbour.answer())[1] == b"GET /after  "
        neighbour.hang_up()

    with_server(echo, test)
