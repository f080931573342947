"""What an HTTP server does not take. Each refusal is its connection's last answer, and comes in its turn."""

import asyncio

import pytest

from epoxy.transport.http.exchange import Exchange
from epoxy.transport.limits import HttpLimits
from tests.transport.http.harness import Keeper, RunningServer, bodies, echo, get, put, until, with_server

LONG = b"x" * 3000
REFUSED = {
    "not HTTP": (400, b"hello there\r\n\r\n"),
    "TLS": (400, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64)),
    "HTTP/2": (400, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    "a target that is no path": (400, get(b"*")),
    "two lengths": (400, b"PUT / HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab"),
    "a length and chunks": (400, b"PUT / HTTP/1.1\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"),
    "a negative length": (400, b"PUT / HTTP/1.1\r\ncontent-length: -1\r\n\r\n"),
    "another coding": (501, b"PUT / HTTP/1.1\r\ntransfer-encoding: gzip, chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"),
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

    async def test(server: RunningServer) -> None:
        client = await server.dial()
        client.send(get(b"/first"), request)
        first, refusal = bodies(answers := await client.rest())
        assert first == b"first"
        assert b"HTTP/1.1 %d " % status in answers
        assert b"connection: close" in answers
        assert refusal.startswith(b'{"error":{"code":"')
        assert refusal.endswith(b'"definite":true}}')

    with_server(handler, test, SMALL)
    assert served == [b"/first"]


def test_what_just_fits_is_served() -> None:
    async def test(server: RunningServer) -> None:
        assert bodies(await server.ask(put(b"/", b"v" * 1000))) == [b"PUT /  " + b"v" * 1000]
        assert bodies(await server.ask(put(b"/long", b"v" * 2000))) == [b"PUT /long  " + b"v" * 2000]
        assert (await server.ask(put(b"/long", b"v" * 2001))).startswith(b"HTTP/1.1 413 ")
        exact = 2048 - len(b"/") - len(b"host") - len(b"x") - 4 - len(b"a") - 4
        assert (await server.ask(get(b"/", b"a: " + b"v" * exact))).startswith(b"HTTP/1.1 200 ")
        assert (await server.ask(get(b"/", b"a: " + b"v" * (exact + 1)))).startswith(b"HTTP/1.1 431 ")

    with_server(echo, test, SMALL)


@pytest.mark.parametrize(
    "start", [b"GET / HTTP/1.1\r\nendless: ", b"GET /", b"\r\n\r\n", b"PUT / HTTP/1.1\r\ncontent-length: 9999\r\nx:"]
)
def test_a_head_that_never_ends(start: bytes) -> None:
    async def test(server: RunningServer) -> None:
        more = b"\r\n" * 500 if start.startswith(b"\r") else b"x" * 1000
        assert (await flood(server, start, more)).startswith(b"HTTP/1.1 431 ")

    with_server(echo, test, SMALL)


async def flood(server: RunningServer, start: bytes, more: bytes) -> bytes:
    """Send without end until there is an answer."""
    client = await server.dial()
    client.send(start)
    answer = asyncio.ensure_future(client.rest())
    while not answer.done():
        client.send(more)
        await asyncio.sleep(0.001)
    return answer.result()


@pytest.mark.parametrize("start", [b"0\r\ntrailer: ", b"1;extension"])
def test_framing_that_never_ends(start: bytes) -> None:
    async def test(server: RunningServer) -> None:
        answer = await flood(server, b"PUT / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n" + start, b"z" * 1000)
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert b"more framing than body" in answer

    with_server(echo, test, SMALL)


def test_an_upgrade_nobody_speaks_is_served_as_http() -> None:
    async def test(server: RunningServer) -> None:
        client = await server.dial()
        client.send(get(b"/", b"connection: upgrade", b"upgrade: websocket"), b"\x81\x05hello")
        assert bodies(await client.rest()) == [b"GET /  "]

    with_server(echo, test)


def test_continue_is_said_when_it_is_its_turn() -> None:
    keeper = Keeper()

    async def test(server: RunningServer) -> None:
        client = await server.dial()
        client.send(get(b"/first"), b"PUT /second HTTP/1.1\r\ncontent-length: 2\r\nexpect: 100-continue\r\n\r\n")
        await until(lambda: len(keeper.exchanges) == 1)
        keeper.exchanges[0].respond(200, b"1")
        assert (await client.answer())[1] == b"1"
        assert await client.answer() == (b"HTTP/1.1 100 Continue\r\n\r\n", b"")
        client.send(b"ok")
        await until(lambda: len(keeper.exchanges) == 2)
        keeper.exchanges[1].respond(200, keeper.exchanges[1].request.body)
        assert (await client.answer())[1] == b"ok"

    with_server(keeper, test)


def test_a_body_that_is_too_long_is_not_asked_for() -> None:
    async def test(server: RunningServer) -> None:
        client = await server.dial()
        client.send(b"PUT / HTTP/1.1\r\ncontent-length: 5000\r\nexpect: 100-continue\r\n\r\n")
        assert (await client.rest()).startswith(b"HTTP/1.1 413 ")

    with_server(echo, test, SMALL)


def test_a_refusal_reaches_a_client_that_goes_on_sending() -> None:
    """Hanging up on unread bytes would reset the connection and lose the answer."""

    async def test(server: RunningServer) -> None:
        for _ in range(20):
            client = await server.dial()
            client.send(b"PUT / HTTP/1.1\r\ncontent-length: 5000000\r\n\r\n", b"v" * 500_000)
            assert (await client.rest()).startswith(b"HTTP/1.1 413 ")

    with_server(echo, test, SMALL)
