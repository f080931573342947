"""Pipelined requests of one connection: others have their turn between them, and answers nobody reads are few."""

import asyncio
from collections import Counter
from itertools import groupby
from time import perf_counter

import pytest

from epoxy.transport.http.exchange import Exchange, Stream
from epoxy.transport.limits import HttpLimits
from tests.transport.http.harness import Keeper, RunningServer, bodies, get, until, with_server

MIB = b"v" * (1 << 20)


class Large:
    """A handler that answers at once with a megabyte, and counts."""

    def __init__(self) -> None:
        self.begun = 0

    def __call__(self, exchange: Exchange) -> None:
        self.begun += 1
        exchange.respond(200, MIB)


def spin(seconds: float) -> None:
    end = perf_counter() + seconds
    while perf_counter() < end:
        pass


def test_answers_that_are_not_read_hold_back_the_requests_behind_them() -> None:
    """16 KB of requests for a megabyte each were as many megabytes in memory."""
    handler = Large()
    count = 300

    async def story(server: RunningServer) -> None:
        client = await server.dial()
        client.transport.pause_reading()
        client.send(get() * count)
        await until(lambda: handler.begun > 0)
        other = await server.dial()
        for _ in range(20):
            other.send(get(b"/other"))
            await other.answer()
        assert handler.begun - 20 <= 10, "the socket's own buffers take a few"
        client.transport.resume_reading()
        for _ in range(count):
            assert len((await client.answer())[1]) == len(MIB)
        assert handler.begun == count + 20

    with_server(handler, story)


def test_between_pipelined_requests_others_have_their_turn() -> None:
    served: list[bytes] = []
    count = 150

    def slow(exchange: Exchange) -> None:
        served.append(exchange.request.path)
        spin(0.002)
        exchange.respond(200, exchange.request.path)

    async def story(server: RunningServer) -> None:
        greedy, modest = await server.dial(), await server.dial()
        greedy.send(b"".join(get(b"/%d" % i) for i in range(count)))
        await until(lambda: len(served) > 0)
        modest.send(get(b"/modest"))
        await modest.answer()
        assert served.index(b"/modest") < count // 2, "not behind all that came in one piece"
        greedy.writer.write_eof()
        assert bodies(await greedy.rest()) == [b"/%d" % i for i in range(count)]

    with_server(slow, story)


def test_a_turn_is_long_enough_for_short_requests() -> None:
    """Whoever pipelines what costs nothing is not sent around the loop for each of them."""
    turns = 0
    over = False

    def count_turns() -> None:
        nonlocal turns
        turns += 1
        if not over:
            asyncio.get_running_loop().call_soon(count_turns)

    def quick(exchange: Exchange) -> None:
        if exchange.request.path == b"/0":
            count_turns()
        exchange.respond(200, b"")

    async def story(server: RunningServer) -> None:
        nonlocal over
        client = await server.dial()
        client.send(b"".join(get(b"/%d" % i) for i in range(100)))
        for _ in range(100):
            await client.answer()
        over = True
        assert turns < 50

    with_server(quick, story, HttpLimits(turn_s=60.0))


def test_a_connection_has_one_turn_at_a_time() -> None:
    """Answers to earlier requests of it, however many come at once, do not give it more."""
    keeper, rounds, count = Keeper(), 0, 60
    begun: list[int] = []

    def handler(exchange: Exchange) -> None:
        begun.append(rounds)
        keeper(exchange)

    def next_round() -> None:
        nonlocal rounds
        rounds += 1
        if len(keeper.exchanges) >= 10:
            for exchange in keeper.exchanges:
                exchange.respond(200, exchange.request.path)
            keeper.exchanges.clear()
        if len(begun) < count:
            asyncio.get_running_loop().call_soon(next_round)

    async def story(server: RunningServer) -> None:
        client = await server.dial()
        next_round()
        client.send(b"".join(get(b"/%d" % i) for i in range(count)))
        for i in range(count):
            assert (await client.answer())[1] == b"/%d" % i
        assert max(Counter(begun).values()) <= 2, "one that was read, and one that had waited"

    with_server(handler, story, HttpLimits(turn_s=0.0))


@pytest.mark.parametrize("size", [1 << 10, 1 << 20])
def test_answers_that_wait_for_an_earlier_one_are_bounded(size: int) -> None:
    """The first request thinks; what those behind it are told is held meanwhile."""
    waiting: list[Exchange] = []
    begun = 0

    def handler(exchange: Exchange) -> None:
        nonlocal begun
        begun += 1
        if exchange.request.path == b"/first":
            waiting.append(exchange)
        else:
            exchange.respond(200, b"v" * size)

    limits = HttpLimits(unsent_bytes=8 << 10)

    async def story(server: RunningServer) -> None:
        client = await server.dial()
        client.send(get(b"/first"), get(b"/next") * 40)
        other = await server.dial()
        for _ in range(5):
            other.send(get(b"/other"))
            await other.answer()
        assert begun - 5 <= 1 + max(1, limits.unsent_bytes // size)
        waiting[0].respond(200, b"at last")
        assert (await client.answer())[1] == b"at last"
        for _ in range(40):
            assert len((await client.answer())[1]) == size

    with_server(handler, story, limits)


def test_answers_of_requests_begun_before_are_too_much_in_the_end() -> None:
    """Nobody knew how long they would be when they were begun, so the connection goes."""
    keeper = Keeper()

    async def story(server: RunningServer) -> None:
        client = await server.dial()
        client.send(get() * 20)
        await until(lambda: len(keeper.exchanges) == 20)
        for exchange in keeper.exchanges[1:]:
            exchange.respond(200, MIB)
        await until(lambda: not server.connections)
        keeper.exchanges[0].respond(200, b"too late")

    with_server(keeper, story, HttpLimits(unsent_cap_bytes=10 << 20))


def test_what_waits_for_its_turn_is_forgotten_with_its_connection() -> None:
    served = 0

    def slow(exchange: Exchange) -> None:
        nonlocal served
        served += 1
        spin(0.002)
        exchange.respond(200, b"", headers=((b"x", b"y"),))

    async def story(server: RunningServer) -> None:
        client = await server.dial()
        client.send(get() * 400)
        await until(lambda: served > 0)
        client.reset()
        await until(lambda: not server.connections)
        after = served
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert served == after < 400

    with_server(slow, story)


def test_a_stream_is_the_last_answer_and_begins_when_its_turn_comes() -> None:
    """Whatever was read behind its request: a second stream in its place would keep the first from ever ending."""
    waiting: list[Exchange] = []
    streams: list[Stream] = []
    ended: list[Stream] = []

    def handler(exchange: Exchange) -> None:
        if exchange.request.path == b"/first":
            waiting.append(exchange)
            return
        stream = exchange.stream(200, content_type=b"text/plain")
        streams.append(stream)
        stream.on_close(lambda: ended.append(stream))
        stream.on_drain(stream.close)

    async def story(server: RunningServer) -> None:
        client = await server.dial()
        client.send(get(b"/first") + get(b"/stream") * 5)
        await until(lambda: bool(streams))
        assert not streams[0].writable
        waiting[0].respond(200, b"at last")
        assert (await client.answer())[1] == b"at last"
        assert (await client.rest()).endswith(b"0\r\n\r\n")
        await until(lambda: not server.connections)
        assert ended == streams
        assert len(streams) == 1
        assert server.connections.client_budget.bytes == 0

    with_server(handler, story, HttpLimits(turn_s=0.0))


def order_of_service(together_s: float) -> list[bytes]:
    """Of two connections that pipeline ten requests each, and have all the time they want but for what they share."""
    served: list[bytes] = []

    def quick(exchange: Exchange) -> None:
        served.append(exchange.request.path)
        exchange.respond(200)

    async def story(server: RunningServer) -> None:
        server.connections.turns.together_s = together_s
        clients = [await server.dial() for _ in range(2)]
        await until(lambda: len(server.connections) == 2)
        for client, name in zip(clients, (b"/a", b"/b"), strict=True):
            client.send(get(name) * 10)
        await until(lambda: len(served) == 20)
        assert server.connections.turns.waiting == 0

    with_server(quick, story, HttpLimits(turn_s=60))
    return served


def test_connections_share_the_time_of_clients() -> None:
    """So that a peer's frame waits for one request of each at most, and not for one full turn of each."""
    served = order_of_service(0.0)
    assert max(len(list(run)) for _, run in groupby(served[:18])) <= 2, served
    served = order_of_service(120.0)
    assert [name for name, _ in groupby(served)] in ([b"/a", b"/b"], [b"/b", b"/a"]), "a planted fault: no sharing"
