"""The server's side of HTTP on real sockets: what a good client gets, and what a bad one cannot do."""

import asyncio
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epoxy.transport.http import SLICE_BYTES, SMALL_BYTES, Exchange, HttpLimits, Request, Stream
from tests.transport.harness import Client, Door, echo, expect_report, get, put, until, with_door


def bodies(answers: bytes) -> list[bytes]:
    """Of answers that tell their length, one after the other."""
    found = []
    while answers:
        head, _, answers = answers.partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
        found.append(answers[:length])
        answers = answers[length:]
    return found


class Keeper:
    """A handler that keeps its exchanges."""

    def __init__(self) -> None:
        self.exchanges: list[Exchange] = []

    def __call__(self, exchange: Exchange) -> None:
        self.exchanges.append(exchange)

    @property
    def paths(self) -> list[bytes]:
        return [exchange.request.path for exchange in self.exchanges]


def test_a_request_in_all_its_parts() -> None:
    seen: list[Request] = []

    def handler(exchange: Exchange) -> None:
        seen.append(exchange.request)
        exchange.respond(201, b"made", content_type=b"text/plain", headers=[(b"epoxy-version", b"7")])

    async def test(door: Door) -> None:
        answer = await door.ask(put(b"/v2/kv/a%2Fb?mode=put&x=%3F#part", b"value", b"X-Name: One", b"x-name:two"))
        assert answer == (
            b"HTTP/1.1 201 Created\r\ncontent-type: text/plain\r\ncontent-length: 4\r\nepoxy-version: 7\r\n\r\nmade"
        )

    with_door(handler, test)
    headers = {b"content-length": b"5", b"x-name": b"One, two"}
    assert seen == [Request("PUT", b"/v2/kv/a%2Fb", b"mode=put&x=%3F", headers, b"value")]


def test_the_shapes_a_request_may_have() -> None:
    async def test(door: Door) -> None:
        chunked = (
            b"POST /c HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2;ext=1\r\nde\r\n0\r\nx: 1\r\n\r\n"
        )
        assert bodies(await door.ask(chunked)) == [b"POST /c  abcde"]
        assert bodies(await door.ask(get(b"http://host:1/path?q"))) == [b"GET /path q "]
        assert bodies(await door.ask(get(b"http://host?q"))) == [b"GET / q "]
        # Byte by byte: no piece is too small.
        client = await door.dial()
        for byte in put(b"/slowly", b"v"):
            client.send(bytes([byte]))
            await asyncio.sleep(0)
        assert (await client.answer())[1] == b"PUT /slowly  v"

    with_door(echo, test)


def test_trailers_are_no_headers() -> None:
    keeper = Keeper()

    async def test(door: Door) -> None:
        client = await door.dial()
        client.send(b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n0\r\nauthorization: mine\r\n\r\n")
        await until(lambda: len(keeper.exchanges) == 1)
        assert keeper.exchanges[0].request.headers == {b"transfer-encoding": b"chunked"}

    with_door(keeper, test)


def test_answers_leave_in_the_order_of_the_requests() -> None:
    keeper = Keeper()

    async def test(door: Door) -> None:
        client = await door.dial()
        client.send(*(get(b"/%d" % number) for number in range(20)))
        await until(lambda: len(keeper.exchanges) == 20)
        for exchange in reversed(keeper.exchanges):
            exchange.respond(200, exchange.request.path)
        assert [(await client.answer())[1] for _ in range(20)] == [b"/%d" % number for number in range(20)]

    with_door(keeper, test)


def test_a_long_pipeline_is_read_only_as_far_as_the_limit() -> None:
    """The parser overshoots by what fits into a piece of SLICE_BYTES."""
    keeper = Keeper()
    padding = b"x-padding: " + b"p" * 1000
    limits = HttpLimits(pipelined=4)

    async def test(door: Door) -> None:
        client = await door.dial()
        client.send(*(get(b"/%d" % number, padding) for number in range(300)))
        answered = 0
        while answered < 300:
            await until(lambda seen=answered: len(keeper.exchanges) > seen)
            assert len(keeper.exchanges) - answered <= 4 + SLICE_BYTES // 1000
            keeper.exchanges[answered].respond(200, keeper.paths[answered])
            answered += 1
        assert [(await client.answer())[1] for _ in range(300)] == [b"/%d" % number for number in range(300)]

    with_door(keeper, test, limits)


def test_a_pipeline_of_long_bodies_is_held_by_its_bytes() -> None:
    keeper = Keeper()
    limits = HttpLimits(pipelined_bytes=1 << 20, body_limits={})

    async def test(door: Door) -> None:
        client = await door.dial()
        client.send(*(put(b"/%d" % number, b"v" * (512 << 10)) for number in range(10)))
        await until(lambda: len(keeper.exchanges) == 2)
        for number in range(10):
            await until(lambda seen=number: len(keeper.exchanges) > seen)
            assert len(keeper.exchanges) <= number + 2
            keeper.exchanges[number].respond(204)
            assert (await client.answer())[0].startswith(b"HTTP/1.1 204 ")

    with_door(keeper, test, limits)


def test_head_and_empty_answers() -> None:
    async def test(door: Door) -> None:
        answer = await door.ask(b"HEAD /x HTTP/1.1\r\n\r\n")
        assert answer.endswith(b"content-length: 9\r\n\r\n")

    with_door(echo, test)

    async def nothing(door: Door) -> None:
        answer = await door.ask(get())
        assert answer == b"HTTP/1.1 204 No Content\r\ncontent-type: application/octet-stream\r\n\r\n"

    with_door(lambda exchange: exchange.respond(204), nothing)


def test_a_client_that_closed_its_side_gets_its_answers() -> None:
    keeper = Keeper()

    async def test(door: Door) -> None:
        client = await door.dial()
        client.send(get(b"/1"), get(b"/2"))
        client.writer.write_eof()
        await until(lambda: len(keeper.exchanges) == 2)
        for exchange in keeper.exchanges:
            exchange.respond(200, exchange.request.path)
        assert bodies(await client.rest()) == [b"/1", b"/2"]
        await until(lambda: not door.connections)

    with_door(keeper, test)


def test_a_client_that_closed_its_side_in_the_middle_is_hung_up_on() -> None:
    async def test(door: Door) -> None:
        assert await door.ask(b"PUT / HTTP/1.1\r\ncontent-length: 5\r\n\r\nab") == b""
        assert await door.ask(b"GET / HT") == b""
        assert await door.ask(b"") == b""

    with_door(echo, test)


def test_an_answer_after_the_client_has_gone_is_ignored() -> None:
    keeper = Keeper()

    async def test(door: Door) -> None:
        client = await door.dial()
        client.send(get(b"/1"), get(b"/2"))
        await until(lambda: len(keeper.exchanges) == 2)
        client.reset()
        await until(lambda: not door.connections)
        keeper.exchanges[0].respond(200, b"late")
        stream = keeper.exchanges[1].stream(200, content_type=b"text/plain")
        closed: list[int] = []
        stream.on_close(lambda: closed.append(1))
        assert closed == [1]
        stream.write(b"late")
        stream.close()
        assert not stream.writable

    with_door(keeper, test)


def test_a_request_has_one_answer() -> None:
    keeper = Keeper()

    async def test(door: Door) -> None:
        client = await door.dial()
        client.send(get())
        await until(lambda: len(keeper.exchanges) == 1)
        keeper.exchanges[0].respond(200)
        with pytest.raises(AssertionError, match="one answer"):
            keeper.exchanges[0].respond(200)

    with_door(keeper, test)


@pytest.mark.parametrize("value", [b"a\r\nset-cookie: b", b"a\nb", b"a\rb"])
def test_no_line_of_a_header_ends_early(value: bytes) -> None:
    keeper = Keeper()

    async def test(door: Door) -> None:
        client = await door.dial()
        client.send(get())
        await until(lambda: len(keeper.exchanges) == 1)
        with pytest.raises(AssertionError):
            keeper.exchanges[0].respond(200, headers=[(b"location", value)])

    with_door(keeper, test)


def test_close_means_close() -> None:
    async def test(door: Door) -> None:
        client = await door.dial()
        client.send(get(b"/1"), get(b"/2", b"connection: close"), get(b"/3"))
        answers = await client.rest()
        assert bodies(answers) == [b"GET /1  ", b"GET /2  "]
        assert answers.count(b"connection: close") == 1
        client = await door.dial()
        client.send(b"GET /old HTTP/1.0\r\n\r\n")
        assert bodies(await client.rest()) == [b"GET /old  "]

    with_door(echo, test)


def test_a_handler_that_fails_fails_one_request() -> None:
    def handler(exchange: Exchange) -> None:
        if exchange.request.path == b"/bad":
            raise ValueError("planted")
        echo(exchange)

    async def test(door: Door) -> None:
        reports: list[BaseException] = []
        expect_report(reports)
        answers = await door.ask(get(b"/bad"), get(b"/good"))
        assert answers.startswith(b"HTTP/1.1 500 ")
        assert bodies(answers)[1] == b"GET /good  "
        assert b'"definite":false' in bodies(answers)[0]
        assert [str(report) for report in reports] == ["planted"]

    with_door(handler, test)


# Refusals. Each is the last answer of its connection, and comes after those before it.

LONG = b"x" * 3000
REFUSED = {
    "not HTTP": (400, b"hello there\r\n\r\n"),
    "TLS": (400, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64)),
    "HTTP/2": (400, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    "a target that is no path": (400, get(b"*")),
    "two lengths": (400, b"PUT / HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab"),
    "a length and chunks": (400, b"PUT / HTTP/1.1\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"),
    "a negative length": (400, b"PUT / HTTP/1.1\r\ncontent-length: -1\r\n\r\n"),
    "chunks that are none": (400, b"PUT / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n"),
    "a header over two lines": (400, b"GET / HTTP/1.1\r\na: b\r\n c\r\n\r\n"),
    "a long address": (431, get(b"/" + LONG)),
    "a long header": (431, get(b"/", b"a: " + LONG)),
    "many headers": (431, get(b"/", *(b"a%d: b" % number for number in range(400)))),
    "a long body": (413, b"PUT / HTTP/1.1\r\ncontent-length: 1001\r\n\r\n"),
    "a body without any bound": (413, b"PUT / HTTP/1.1\r\ncontent-length: 99999999999999\r\n\r\n"),
    "a long body in chunks": (
        413,
        b"PUT / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n" + b"64\r\n%b\r\n" % (b"v" * 100) * 11,
    ),
    "an upgrade with a body": (501, put(b"/", b"v", b"connection: upgrade", b"upgrade: h2c")),
}
SMALL = HttpLimits(head_bytes=2048, body_bytes=1000, body_limits={b"/long": 2000})


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name: str) -> None:
    status, request = REFUSED[name]
    served: list[bytes] = []

    def handler(exchange: Exchange) -> None:
        served.append(exchange.request.path)
        exchange.respond(200, b"first")

    async def test(door: Door) -> None:
        client = await door.dial()
        client.send(get(b"/first"), request)
        first, refusal = bodies(answers := await client.rest())
        assert first == b"first"
        assert b"HTTP/1.1 %d " % status in answers
        assert b"connection: close" in answers
        assert refusal.startswith(b'{"error":{"code":"')
        assert refusal.endswith(b'"definite":true}}')

    with_door(handler, test, SMALL)
    assert served == [b"/first"]


def test_what_just_fits_is_served() -> None:
    async def test(door: Door) -> None:
        assert bodies(await door.ask(put(b"/", b"v" * 1000))) == [b"PUT /  " + b"v" * 1000]
        assert bodies(await door.ask(put(b"/long", b"v" * 2000))) == [b"PUT /long  " + b"v" * 2000]
        assert (await door.ask(put(b"/long", b"v" * 2001))).startswith(b"HTTP/1.1 413 ")
        exact = 2048 - len(b"/") - len(b"host") - len(b"x") - 4 - len(b"a") - 4
        assert (await door.ask(get(b"/", b"a: " + b"v" * exact))).startswith(b"HTTP/1.1 200 ")
        assert (await door.ask(get(b"/", b"a: " + b"v" * (exact + 1)))).startswith(b"HTTP/1.1 431 ")

    with_door(echo, test, SMALL)


@pytest.mark.parametrize(
    "start", [b"GET / HTTP/1.1\r\nendless: ", b"GET /", b"\r\n\r\n", b"PUT / HTTP/1.1\r\ncontent-length: 9999\r\nx:"]
)
def test_a_head_that_never_ends(start: bytes) -> None:
    async def test(door: Door) -> None:
        more = b"\r\n" * 500 if start.startswith(b"\r") else b"x" * 1000
        assert (await flood(door, start, more)).startswith(b"HTTP/1.1 431 ")

    with_door(echo, test, SMALL)


async def flood(door: Door, start: bytes, more: bytes) -> bytes:
    """Send without end until there is an answer."""
    client = await door.dial()
    client.send(start)
    answer = asyncio.ensure_future(client.rest())
    while not answer.done():
        client.send(more)
        await asyncio.sleep(0.001)
    return answer.result()


@pytest.mark.parametrize("start", [b"0\r\ntrailer: ", b"1;extension"])
def test_framing_that_never_ends(start: bytes) -> None:
    async def test(door: Door) -> None:
        answer = await flood(door, b"PUT / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n" + start, b"z" * 1000)
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert b"more framing than body" in answer

    with_door(echo, test, SMALL)


def test_an_upgrade_nobody_speaks_is_served_as_http() -> None:
    async def test(door: Door) -> None:
        client = await door.dial()
        client.send(get(b"/", b"connection: upgrade", b"upgrade: websocket"), b"\x81\x05hello")
        assert bodies(await client.rest()) == [b"GET /  "]

    with_door(echo, test)


def test_continue_is_said_when_it_is_its_turn() -> None:
    keeper = Keeper()

    async def test(door: Door) -> None:
        client = await door.dial()
        client.send(get(b"/first"), b"PUT /second HTTP/1.1\r\ncontent-length: 2\r\nexpect: 100-continue\r\n\r\n")
        await until(lambda: len(keeper.exchanges) == 1)
        keeper.exchanges[0].respond(200, b"1")
        assert (await client.answer())[1] == b"1"
        assert await client.answer() == (b"HTTP/1.1 100 Continue\r\n\r\n", b"")
        client.send(b"ok")
        await until(lambda: len(keeper.exchanges) == 2)
        keeper.exchanges[1].respond(200, keeper.exchanges[1].request.body)
        assert (await client.answer())[1] == b"ok"

    with_door(keeper, test)


def test_a_body_that_is_too_long_is_not_asked_for() -> None:
    async def test(door: Door) -> None:
        client = await door.dial()
        client.send(b"PUT / HTTP/1.1\r\ncontent-length: 5000\r\nexpect: 100-continue\r\n\r\n")
        assert (await client.rest()).startswith(b"HTTP/1.1 413 ")

    with_door(echo, test, SMALL)


def test_a_refusal_reaches_a_client_that_goes_on_sending() -> None:
    """Hanging up on unread bytes would reset the connection and lose the answer."""

    async def test(door: Door) -> None:
        for _ in range(20):
            client = await door.dial()
            client.send(b"PUT / HTTP/1.1\r\ncontent-length: 5000000\r\n\r\n", b"v" * 500_000)
            assert (await client.rest()).startswith(b"HTTP/1.1 413 ")

    with_door(echo, test, SMALL)


# Slow clients. The sweeper is told that time has passed.


@pytest.mark.parametrize(
    ("part", "seconds"),
    [
        (b"GET / HTTP/1.1\r\nhos", HttpLimits().head_timeout_s),
        (b"PUT / HTTP/1.1\r\ncontent-length: 2\r\n\r\nv", HttpLimits().body_timeout_s),
    ],
)
def test_a_request_that_takes_too_long(part: bytes, seconds: float) -> None:
    async def test(door: Door) -> None:
        client = await door.dial()
        client.send(get(b"/first") + part)
        await client.answer()
        door.late(seconds - 1)
        assert len(door.connections) == 1
        door.late(seconds + 3)
        assert (await client.rest()).startswith(b"HTTP/1.1 408 ")

    with_door(echo, test)


def test_an_idle_connection_is_closed_and_one_that_waits_for_us_is_not() -> None:
    keeper = Keeper()

    async def test(door: Door) -> None:
        client = await door.dial()
        client.send(get())
        await until(lambda: len(keeper.exchanges) == 1)
        door.late(3600)
        door.late(0)
        keeper.exchanges[0].respond(200, b"patience")
        assert (await client.answer())[1] == b"patience"
        door.late(HttpLimits().idle_timeout_s + 3)
        assert await client.rest() == b""

    with_door(keeper, test)


def test_a_client_that_does_not_read_is_cut_off() -> None:
    """And before that it is not read from: its answers would pile up."""
    served: list[int] = []

    def handler(exchange: Exchange) -> None:
        served.append(1)
        exchange.respond(200, b"v" * (1 << 20))

    async def test(door: Door) -> None:
        client = await door.dial()
        client.transport.pause_reading()
        client.send(*(get() for _ in range(100)))
        await until(lambda: len(served) > 0)
        quiet = 0
        while quiet < 50:
            before = len(served)
            await asyncio.sleep(0.001)
            quiet = quiet + 1 if len(served) == before else 0
        assert len(served) < 100
        door.late(HttpLimits().write_timeout_s + 3)
        await until(lambda: not door.connections)

    with_door(handler, test, HttpLimits(pipelined=4))


def test_many_long_bodies_together_are_too_many() -> None:
    keeper = Keeper()

    async def test(door: Door) -> None:
        clients = [await door.dial() for _ in range(4)]
        for number, client in enumerate(clients[:3]):
            client.send(put(b"/%d" % number, b"v" * 10_000))
        await until(lambda: len(keeper.exchanges) == 3)
        held = door.connections.strangers.bytes
        assert 30_000 < held < 30_300, "heads count too"
        clients[3].send(put(b"/3", b"v" * 10_000))
        assert (await clients[3].rest()).startswith(b"HTTP/1.1 503 ")
        keeper.exchanges[0].respond(204)
        clients[1].reset()
        await until(lambda: door.connections.strangers.bytes == held // 3)
        clients[0].send(put(b"/4", b"v" * 10_000))
        await until(lambda: len(keeper.exchanges) == 4)
        for exchange in keeper.exchanges[1:]:
            exchange.respond(204)
        await until(lambda: door.connections.strangers.bytes == 0)

    with_door(keeper, test, HttpLimits(held_bytes=35_000))


def test_while_others_hold_everything_a_short_request_gets_in() -> None:
    keeper = Keeper()

    async def test(door: Door) -> None:
        crowd = [await door.dial() for _ in range(3)]
        for client in crowd:
            client.send(put(b"/hanging", b"v" * 10_000)[:-1])
        await until(lambda: door.connections.strangers.bytes > 30_000)
        short, long = await door.dial(), await door.dial()
        short.send(put(b"/short", b"v" * SMALL_BYTES))
        await until(lambda: len(keeper.exchanges) == 1)
        long.send(put(b"/long", b"v" * (SMALL_BYTES + 1)))
        assert (await long.rest()).startswith(b"HTTP/1.1 503 ")
        assert keeper.paths == [b"/short"]

    with_door(keeper, test, HttpLimits(held_bytes=30_000))


def test_heads_that_wait_for_their_turn_are_held_too() -> None:
    keeper = Keeper()

    async def test(door: Door) -> None:
        client = await door.dial()
        client.send(*(get(b"/%d" % number, b"x: " + b"y" * 1000) for number in range(40)))
        answers = await until_refused(client, keeper)
        assert 20 < len(keeper.exchanges) < 40
        assert bodies(answers)[-1].startswith(b'{"error":{"code":"busy"')

    with_door(keeper, test, HttpLimits(held_bytes=30_000))


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
    async def test(door: Door) -> None:
        clients = [await door.dial() for _ in range(2)]
        for client in clients:
            client.send(get())
            await client.answer()
        refused = await door.dial()
        refused.send(get())
        assert (await refused.rest()).startswith(b"HTTP/1.1 503 ")
        clients.pop().hang_up()
        await until(lambda: len(door.connections) == 1)
        assert (await door.ask(get())).startswith(b"HTTP/1.1 200 ")
        clients.pop().hang_up()

    with_door(echo, test, HttpLimits(connections=2))


# The end.


def test_drain_finishes_what_is_under_way() -> None:
    keeper = Keeper()

    async def test(door: Door) -> None:
        idle, busy, halfway = [await door.dial() for _ in range(3)]
        idle.send(get(b"/idle"))
        busy.send(get(b"/1"), get(b"/2"))
        halfway.send(get(b"/3") + b"PUT /4 HTTP/1.1\r\ncontent-length: 2\r\n\r\nv")
        await until(lambda: len(keeper.exchanges) == 4)
        by_path = {exchange.request.path: exchange for exchange in keeper.exchanges}
        by_path[b"/idle"].respond(200)
        by_path[b"/3"].respond(200)
        await idle.answer()
        draining = asyncio.ensure_future(door.connections.drain(grace_s=20))
        assert await idle.rest() == b""
        halfway.send(b"v")
        await until(lambda: len(keeper.exchanges) == 5)
        for exchange in (by_path[b"/1"], by_path[b"/2"], keeper.exchanges[4]):
            exchange.respond(200, exchange.request.path)
        answers = await busy.rest()
        assert bodies(answers) == [b"/1", b"/2"]
        assert answers.count(b"connection: close") == 1
        assert bodies(await halfway.rest()) == [b"", b"/4"]
        await draining

    with_door(keeper, test)


def test_drain_does_not_wait_for_ever() -> None:
    keeper = Keeper()

    async def test(door: Door) -> None:
        client = await door.dial()
        client.send(get())
        await until(lambda: len(keeper.exchanges) == 1)
        await door.connections.drain(grace_s=0.01)
        with suppress(ConnectionResetError):
            assert await client.rest() == b""
        assert not door.connections

    with_door(keeper, test)


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

    async def test(door: Door) -> None:
        client = await door.dial()
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

    with_door(handler, test)


def test_a_stream_tells_when_the_client_has_gone() -> None:
    ended: list[str] = []

    def handler(exchange: Exchange) -> None:
        stream = exchange.stream(200, content_type=b"text/plain")
        stream.write(b"hello")
        stream.on_close(lambda: ended.append(exchange.request.path.decode()))

    async def test(door: Door) -> None:
        for path in (b"/abort", b"/half"):
            client = await door.dial()
            client.send(get(path))
            await client.reader.readuntil(b"hello")
            if path == b"/half":
                client.writer.write_eof()
            else:
                client.hang_up()
            await until(lambda path=path: ended[-1:] == [path.decode()])

    with_door(handler, test)


def test_a_stream_waits_for_its_reader() -> None:
    streams: list[Stream] = []
    drained: list[int] = []

    def handler(exchange: Exchange) -> None:
        streams.append(exchange.stream(200, content_type=b"text/plain"))
        streams[0].on_drain(lambda: drained.append(1))

    async def test(door: Door) -> None:
        client = await door.dial()
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

    with_door(handler, test)


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

    async def test(door: Door) -> None:
        neighbour = await door.dial()
        neighbour.send(get(b"/before"))
        await neighbour.answer()
        await door.ask(bytes(stream[:cut]), bytes(stream[cut:]))
        neighbour.send(get(b"/after"))
        assert (await neighbour.answer())[1] == b"GET /after  "
        neighbour.hang_up()

    with_door(echo, test)
