"""Requests that look like the one before: served without the parser, and never otherwise than with it."""

import pytest

from epoxy.transport.http.exchange import Exchange
from epoxy.transport.http.header_memo import BLOCK_BYTES, EVERYWHERE, HeaderMemo
from epoxy.transport.http.phases import ConnectionPhase
from epoxy.transport.http.request import HttpRequest
from epoxy.transport.http.response_cache import ANSWER_BYTES
from epoxy.transport.limits import HttpLimits
from tests.transport.http.harness import Client, RunningServer, get, put, until, with_server


class Registry:
    """A server whose names never change. JSON is another form, and nothing is kept of that, or of `/moving`."""

    def __init__(self) -> None:
        self.seen: list[HttpRequest] = []

    def __call__(self, exchange: Exchange) -> None:
        request = exchange.request
        self.seen.append(request)
        said = b" ".join((request.method.encode(), request.path, request.query))
        if request.headers.get(b"accept") == b"json":
            exchange.respond(200, b"{" + said + b"}")
        elif request.path == b"/moving":
            exchange.respond(200, b"%d" % len(self.seen))
        elif request.path == b"/long":
            exchange.respond(200, bytes(ANSWER_BYTES), lasting=EVERYWHERE)
        else:
            exchange.respond(200, said, lasting=EVERYWHERE)


async def body(client: Client, *pieces: bytes) -> bytes:
    client.send(*pieces)
    return (await client.answer())[1]


def test_the_third_time_nobody_is_asked() -> None:
    registry = Registry()

    async def test(server: RunningServer) -> None:
        client, other = await server.dial(), await server.dial()
        answers = [await body(client, get(b"/a")) for _ in range(5)]
        assert answers == [b"GET /a "] * 5
        assert (len(registry.seen), server.connections.response_cache.served) == (2, 3)
        for path in (b"/b", b"/b", b"/a"):
            await body(client, get(path))
        assert [request.path for request in registry.seen] == [b"/a", b"/a", b"/b"]
        assert await body(other, get(b"/a")) == b"GET /a ", "another connection has its own headers to get known by"
        assert len(registry.seen) == 4
        assert registry.seen[0] == registry.seen[1], "with or without the parser it is the same request"

    with_server(registry, test)


def test_the_head_is_that_of_the_first_answer() -> None:
    async def test(server: RunningServer) -> None:
        client = await server.dial()
        heads = []
        for _ in range(4):
            client.send(get(b"/a"))
            heads.append((await client.answer())[0])
        assert len(set(heads)) == 1

    with_server(Registry(), test)


def test_other_headers_may_mean_something_else() -> None:
    registry = Registry()

    async def test(server: RunningServer) -> None:
        client = await server.dial()
        for _ in range(3):
            assert await body(client, get(b"/a")) == b"GET /a "
            assert await body(client, get(b"/a", b"accept: json")) == b"{GET /a }"
        for _ in range(3):
            assert await body(client, get(b"/a", b"accept: json")) == b"{GET /a }"
        for _ in range(3):
            assert await body(client, get(b"/a")) == b"GET /a "
        assert server.connections.response_cache.served == 1

    with_server(registry, test)


def test_what_changes_is_asked_for_each_time() -> None:
    async def test(server: RunningServer) -> None:
        client = await server.dial()
        assert [await body(client, get(b"/moving")) for _ in range(4)] == [b"1", b"2", b"3", b"4"]
        assert len(await body(client, get(b"/long"))) == ANSWER_BYTES
        assert len(server.connections.response_cache) == 0, "a head comes on top, so this is too long"

    with_server(Registry(), test)


def test_a_query_is_a_question_of_its_own() -> None:
    async def test(server: RunningServer) -> None:
        client = await server.dial()
        for target in (b"/a", b"/a?x=1", b"/a?x=2", b"/a", b"/a?x=1#part", b"/a#part"):
            path, _, query = target.partition(b"#")[0].partition(b"?")
            for _ in range(3):
                assert await body(client, get(target)) == b"GET %b %b" % (path, query)
        assert set(server.connections.response_cache.young) == {b"/a"}

    with_server(Registry(), test)


def test_head_and_get_are_two_things() -> None:
    async def test(server: RunningServer) -> None:
        client = await server.dial()
        for _ in range(3):
            client.send(get(b"/a").replace(b"GET", b"HEAD"))
            head = await client.reader.readuntil(b"\r\n\r\n")
            assert b"content-length: 8" in head
        assert len(server.connections.response_cache) == 0
        assert await body(client, get(b"/a")) == b"GET /a "

    with_server(Registry(), test)


def test_the_last_request_of_a_connection_is_the_last() -> None:
    async def test(server: RunningServer) -> None:
        client = await server.dial()
        for _ in range(3):
            await body(client, get(b"/a"))
        client.send(get(b"/a", b"connection: close"))
        head, _ = await client.answer()
        assert b"connection: close" in head
        assert await client.rest() == b""
        kept = server.connections.response_cache.young[b"/a"]
        assert b"connection: close" not in kept

    with_server(Registry(), test)


def test_pipelined_answers_stay_in_order() -> None:
    async def test(server: RunningServer) -> None:
        client = await server.dial()
        for path in (b"/a", b"/b", b"/a"):
            await body(client, get(path))
        client.send(get(b"/a") + get(b"/b") + get(b"/a"))
        assert [(await client.answer())[1] for _ in range(3)] == [b"GET /a ", b"GET /b ", b"GET /a "]
        client.send(get(b"/a") + b"GET /b HT")
        assert (await client.answer())[1] == b"GET /a "
        client.send(b"TP/1.1\r\nhost: x\r\n\r\n")
        assert (await client.answer())[1] == b"GET /b "

    with_server(Registry(), test)


def test_behind_an_answer_that_is_not_there_yet_it_waits() -> None:
    waiting: list[Exchange] = []
    registry = Registry()

    def handler(exchange: Exchange) -> None:
        if exchange.request.path == b"/later":
            waiting.append(exchange)
        else:
            registry(exchange)

    async def test(server: RunningServer) -> None:
        client = await server.dial()
        for _ in range(3):
            await body(client, get(b"/a"))
        served = server.connections.response_cache.served
        client.send(get(b"/later"))
        await until(lambda: bool(waiting))
        client.send(get(b"/a"))
        await until(lambda: len(registry.seen) == 3)
        waiting[0].respond(200, b"now")
        assert [(await client.answer())[1] for _ in range(2)] == [b"now", b"GET /a "]
        assert server.connections.response_cache.served == served

    with_server(handler, test)


def test_a_head_in_two_pieces_teaches_nothing() -> None:
    """Its second piece looks like a whole request."""

    async def test(server: RunningServer) -> None:
        client = await server.dial()
        client.send(b"GET /x HTTP/1.1\r\nmy-header: ")
        await until(lambda: all(one._phase is ConnectionPhase.HEAD for one in server.connections._open))  # type: ignore[attr-defined]
        assert await body(client, get(b"/x", b"secret: 1")) == b"GET /x "
        assert await body(client, get(b"/y")) == b"GET /y "
        assert await body(client, get(b"/x", b"secret: 1")) == b"GET /x "

    with_server(Registry(), test)


@pytest.mark.parametrize(
    "target", [b"/a\r\nx: y", b"/a\x00", b"/a\x7f", b"/a\tb", b"", b"*", b"a", b"/\xff", b"http://h/p", b"//h/p"]
)
def test_a_strange_address_is_read_by_the_parser(target: bytes) -> None:
    """Whatever that says, it says it to everybody."""

    async def said(server: RunningServer, warm: int) -> bytes:
        client = await server.dial()
        for _ in range(warm):
            await body(client, get(b"/a"))
        client.send(get(target))
        client.writer.write_eof()
        return await client.rest()

    async def test(server: RunningServer) -> None:
        assert await said(server, 0) == await said(server, 1) == await said(server, 3)

    with_server(Registry(), test)


def test_a_head_that_is_too_long_stays_too_long() -> None:
    async def test(server: RunningServer) -> None:
        client = await server.dial()
        for _ in range(3):
            await body(client, get(b"/a"))
        client.send(get(b"/" + b"a" * 600))
        head, _ = await client.answer()
        assert head.startswith(b"HTTP/1.1 431 ")

    with_server(Registry(), test, HttpLimits(head_bytes=512))


def test_a_request_with_more_than_a_head_teaches_nothing() -> None:
    memo = HeaderMemo()
    for extra in (b"content-length: 0", b"transfer-encoding: chunked", b"expect: 100-continue"):
        name, _, value = extra.partition(b": ")
        memo.learn(get(b"/a", extra), b"/a", {b"host": b"x", name: value})
    memo.learn(put(b"/a", b""), b"/a", {b"host": b"x"})
    memo.learn(get(b"/a", b"x: " + bytes(BLOCK_BYTES)), b"/a", {b"host": b"x"})
    assert memo.target(get(b"/a")) is None
    memo.learn(get(b"/a"), b"/a", {b"host": b"x"})
    assert memo.target(get(b"/b")) == b"/b"


def test_an_idle_connection_is_counted_from_its_last_request() -> None:
    async def test(server: RunningServer) -> None:
        limits = HttpLimits()
        client = await server.dial()
        for _ in range(2):
            await body(client, get(b"/a"))
        for _ in range(3):
            server.late(limits.idle_timeout_s - 5)
            assert await body(client, get(b"/a")) == b"GET /a "
        assert server.connections.response_cache.served == 3

    with_server(Registry(), test)


def test_a_door_that_drains_lets_nobody_stay() -> None:
    async def test(server: RunningServer) -> None:
        client = await server.dial()
        for _ in range(3):
            await body(client, get(b"/a"))
        server.connections.draining = True
        client.send(get(b"/a"))
        head, _ = await client.answer()
        assert b"connection: close" in head

    with_server(Registry(), test)


def test_rights_that_changed_while_an_answer_was_awaited_are_not_kept() -> None:
    """The request was allowed by what was in force when it came."""
    waiting: list[Exchange] = []

    async def test(server: RunningServer) -> None:
        client, cache = await server.dial(), server.connections.response_cache
        for change, served in ((True, 0), (False, 0), (False, 1)):
            client.send(get(b"/a"))
            await until(lambda: bool(waiting) or cache.served > 0)
            if change:
                cache.rights_changed()
            if waiting:
                waiting.pop().respond(200, b"x", lasting=EVERYWHERE)
            await client.answer()
            assert cache.served == served

    with_server(waiting.append, test)


def test_cached_answers_are_for_addresses_that_the_client_may_read() -> None:
    seen: list[bytes] = []

    def handler(exchange: Exchange) -> None:
        seen.append(exchange.request.path)
        exchange.respond(200, b"x", lasting=(b"/mine/",))

    async def test(server: RunningServer) -> None:
        client, cache = await server.dial(), server.connections.response_cache
        for path in (b"/mine/a", b"/mine/a", b"/other", b"/other", b"/mine/a"):
            await body(client, get(path))
        assert (cache.served, seen[2:]) == (1, [b"/other", b"/other"])
        cache.rights_changed()
        await body(client, get(b"/mine/a"))
        assert (cache.served, seen[-1]) == (1, b"/mine/a")
        await body(client, get(b"/mine/a"))
        assert cache.served == 2

    with_server(handler, test)
