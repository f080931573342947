"""The server's side of HTTP on real sockets: what a good client gets."""

import asyncio

import pytest

from epoxy.transport.http.exchange import Exchange
from epoxy.transport.http.request import HttpRequest
from epoxy.transport.http.server import SLICE_BYTES
from epoxy.transport.limits import HttpLimits
from tests.transport.http.harness import (
    Keeper,
    RunningServer,
    bodies,
    echo,
    expect_report,
    get,
    put,
    until,
    with_server,
)


def test_a_request_in_all_its_parts() -> None:
    seen: list[HttpRequest] = []

    def handler(exchange: Exchange) -> None:
        seen.append(exchange.request)
        exchange.respond(201, b"made", content_type=b"text/plain", headers=[(b"epoxy-version", b"7")])

    async def test(server: RunningServer) -> None:
        answer = await server.ask(put(b"/v2/kv/a%2Fb?mode=put&x=%3F#part", b"value", b"X-Name: One", b"x-name:two"))
        assert answer == (
            b"HTTP/1.1 201 Created\r\ncontent-type: text/plain\r\ncontent-length: 4\r\nepoxy-version: 7\r\n\r\nmade"
        )

    with_server(handler, test)
    headers = {b"content-length": b"5", b"x-name": b"One, two"}
    assert seen == [HttpRequest("PUT", b"/v2/kv/a%2Fb", b"mode=put&x=%3F", headers, b"value")]


def test_the_shapes_a_request_may_have() -> None:
    async def test(server: RunningServer) -> None:
        chunked = (
            b"POST /c HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2;ext=1\r\nde\r\n0\r\nx: 1\r\n\r\n"
        )
        assert bodies(await server.ask(chunked)) == [b"POST /c  abcde"]
        assert bodies(await server.ask(get(b"http://host:1/path?q"))) == [b"GET /path q "]
        assert bodies(await server.ask(get(b"http://host?q"))) == [b"GET / q "]
        # Byte by byte: no piece is too small.
        client = await server.dial()
        for byte in put(b"/slowly", b"v"):
            client.send(bytes([byte]))
            await asyncio.sleep(0)
        assert (await client.answer())[1] == b"PUT /slowly  v"

    with_server(echo, test)


def test_trailers_are_no_headers() -> None:
    keeper = Keeper()

    async def test(server: RunningServer) -> None:
        client = await server.dial()
        client.send(b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n0\r\nauthorization: mine\r\n\r\n")
        await until(lambda: len(keeper.exchanges) == 1)
        assert keeper.exchanges[0].request.headers == {b"transfer-encoding": b"chunked"}

    with_server(keeper, test)


def test_answers_leave_in_the_order_of_the_requests() -> None:
    keeper = Keeper()

    async def test(server: RunningServer) -> None:
        client = await server.dial()
        client.send(*(get(b"/%d" % number) for number in range(20)))
        await until(lambda: len(keeper.exchanges) == 20)
        for exchange in reversed(keeper.exchanges):
            exchange.respond(200, exchange.request.path)
        assert [(await client.answer())[1] for _ in range(20)] == [b"/%d" % number for number in range(20)]

    with_server(keeper, test)


def test_a_long_pipeline_is_read_only_as_far_as_the_limit() -> None:
    """The parser overshoots by what fits into a piece of SLICE_BYTES."""
    keeper = Keeper()
    padding = b"x-padding: " + b"p" * 1000
    limits = HttpLimits(pipelined=4)

    async def test(server: RunningServer) -> None:
        client = await server.dial()
        client.send(*(get(b"/%d" % number, padding) for number in range(300)))
        answered = 0
        while answered < 300:
            await until(lambda seen=answered: len(keeper.exchanges) > seen)
            assert len(keeper.exchanges) - answered <= 4 + SLICE_BYTES // 1000
            keeper.exchanges[answered].respond(200, keeper.paths[answered])
            answered += 1
        assert [(await client.answer())[1] for _ in range(300)] == [b"/%d" % number for number in range(300)]

    with_server(keeper, test, limits)


def test_a_pipeline_of_long_bodies_is_held_by_its_bytes() -> None:
    keeper = Keeper()
    limits = HttpLimits(pipelined_bytes=1 << 20, body_limits={})

    async def test(server: RunningServer) -> None:
        client = await server.dial()
        client.send(*(put(b"/%d" % number, b"v" * (512 << 10)) for number in range(10)))
        await until(lambda: len(keeper.exchanges) == 2)
        for number in range(10):
            await until(lambda seen=number: len(keeper.exchanges) > seen)
            assert len(keeper.exchanges) <= number + 2
            keeper.exchanges[number].respond(204)
            assert (await client.answer())[0].startswith(b"HTTP/1.1 204 ")

    with_server(keeper, test, limits)


def test_head_and_empty_answers() -> None:
    async def test(server: RunningServer) -> None:
        answer = await server.ask(b"HEAD /x HTTP/1.1\r\n\r\n")
        assert answer.endswith(b"content-length: 9\r\n\r\n")

    with_server(echo, test)

    async def nothing(server: RunningServer) -> None:
        answer = await server.ask(get())
        assert answer == b"HTTP/1.1 204 No Content\r\ncontent-type: application/octet-stream\r\n\r\n"

    with_server(lambda exchange: exchange.respond(204), nothing)


def test_a_client_that_closed_its_side_gets_its_answers() -> None:
    keeper = Keeper()

    async def test(server: RunningServer) -> None:
        client = await server.dial()
        client.send(get(b"/1"), get(b"/2"))
        client.writer.write_eof()
        await until(lambda: len(keeper.exchanges) == 2)
        for exchange in keeper.exchanges:
            exchange.respond(200, exchange.request.path)
        assert bodies(await client.rest()) == [b"/1", b"/2"]
        await until(lambda: not server.connections)

    with_server(keeper, test)


def test_a_client_that_closed_its_side_in_the_middle_is_hung_up_on() -> None:
    async def test(server: RunningServer) -> None:
        assert await server.ask(b"PUT / HTTP/1.1\r\ncontent-length: 5\r\n\r\nab") == b""
        assert await server.ask(b"GET / HT") == b""
        assert await server.ask(b"") == b""

    with_server(echo, test)


def test_an_answer_after_the_client_has_gone_is_ignored() -> None:
    keeper = Keeper()

    async def test(server: RunningServer) -> None:
        client = await server.dial()
        client.send(get(b"/1"), get(b"/2"))
        await until(lambda: len(keeper.exchanges) == 2)
        client.reset()
        await until(lambda: not server.connections)
        keeper.exchanges[0].respond(200, b"late")
        stream = keeper.exchanges[1].stream(200, content_type=b"text/plain")
        closed: list[int] = []
        stream.on_close(lambda: closed.append(1))
        assert closed == [1]
        stream.write(b"late")
        stream.close()
        assert not stream.writable

    with_server(keeper, test)


def test_a_request_has_one_answer() -> None:
    keeper = Keeper()

    async def test(server: RunningServer) -> None:
        client = await server.dial()
        client.send(get())
        await until(lambda: len(keeper.exchanges) == 1)
        keeper.exchanges[0].respond(200)
        with pytest.raises(AssertionError, match="one answer"):
            keeper.exchanges[0].respond(200)

    with_server(keeper, test)


@pytest.mark.parametrize("value", [b"a\r\nset-cookie: b", b"a\nb", b"a\rb"])
def test_no_line_of_a_header_ends_early(value: bytes) -> None:
    keeper = Keeper()

    async def test(server: RunningServer) -> None:
        client = await server.dial()
        client.send(get())
        await until(lambda: len(keeper.exchanges) == 1)
        with pytest.raises(AssertionError):
            keeper.exchanges[0].respond(200, headers=[(b"location", value)])

    with_server(keeper, test)


def test_close_means_close() -> None:
    async def test(server: RunningServer) -> None:
        client = await server.dial()
        client.send(get(b"/1"), get(b"/2", b"connection: close"), get(b"/3"))
        answers = await client.rest()
        assert bodies(answers) == [b"GET /1  ", b"GET /2  "]
        assert answers.count(b"connection: close") == 1
        client = await server.dial()
        client.send(b"GET /old HTTP/1.0\r\n\r\n")
        assert bodies(await client.rest()) == [b"GET /old  "]
        client = await server.dial()
        client.send(b"GET /old HTTP/1.0\r\nconnection: keep-alive\r\n\r\n")
        assert bodies(await client.rest()) == [b"GET /old  "]

    with_server(echo, test)


def test_a_handler_that_fails_fails_one_request() -> None:
    def handler(exchange: Exchange) -> None:
        if exchange.request.path == b"/bad":
            raise ValueError("planted")
        echo(exchange)

    async def test(server: RunningServer) -> None:
        reports: list[BaseException] = []
        expect_report(reports)
        answers = await server.ask(get(b"/bad"), get(b"/good"))
        assert answers.startswith(b"HTTP/1.1 500 ")
        assert bodies(answers)[1] == b"GET /good  "
        assert b'"definite":false' in bodies(answers)[0]
        assert [str(report) for report in reports] == ["planted"]

    with_server(handler, test)


@pytest.mark.parametrize("leave", ["close", "half"])
def test_a_handler_is_told_once_when_its_client_leaves(leave: str) -> None:
    """Before the answer: of a half-closed connection the answer still arrives."""
    keeper, told = Keeper(), list[str]()

    async def test(server: RunningServer) -> None:
        client = await server.dial()
        client.send(put(b"/one", b"1") + put(b"/two", b"2"))
        await until(lambda: len(keeper.exchanges) == 2)
        first, second = keeper.exchanges
        first.when_client_leaves(lambda: told.append("first"))
        second.when_client_leaves(lambda: told.append("second"))
        if leave == "half":
            client.writer.write_eof()
        else:
            client.writer.transport.abort()
        await until(lambda: told == ["first", "second"])
        first.respond(200, b"a")
        second.respond(200, b"b")
        if leave == "half":
            assert bodies(await client.reader.read()) == [b"a", b"b"]
        late = list[str]()
        second.when_client_leaves(lambda: late.append("at once"))
        assert (told, late) == (["first", "second"], ["at once"])

    with_server(keeper, test)
