"""Requests to actors in HTTP and WebSockets, over real sockets: bodies as they come, windows, verdicts, browsers."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.typing import Origin, Subprotocol

from epoxy.api.http import actor_sockets, authorization, cross_site
from epoxy.api.http.actor_streams import BadAnswer, answer_headers, passed_on
from epoxy.api.http.calls import ApiCall
from epoxy.model.actors import ActorName
from epoxy.model.envoy_messages import ActorAsk, ActorRequest, AskAnswer, Opened, Response
from epoxy.model.exchanges import WINDOW_BYTES, Credit, Head, Piece, RequestHead, Reset, cost
from tests.api.http.spoken_worker import SpokenWorker, spoken_worker
from tests.api.http.test_routes_actors import Place, places, run

AT = "/v2/actors/at/room/lobby"


class Raw:
    """A client that writes bytes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, method: str, target: str, body: bytes | None = b"", headers: dict[str, str] | None = None) -> None:
        """A body of None is sent in chunks, by the test."""
        more = [f"{name}: {value}" for name, value in (headers or {}).items()]
        lines = [f"{method} {target} HTTP/1.1", "host: x", *more]
        if body != b"":
            lines.append("transfer-encoding: chunked" if body is None else f"content-length: {len(body)}")
        self.writer.write("\r\n".join([*lines, "", ""]).encode() + (body or b""))

    def chunk(self, data: bytes) -> None:
        self.writer.write(b"%x\r\n%b\r\n" % (len(data), data))

    async def answer(self) -> tuple[int, dict[str, str], bytes]:
        status, headers = await self.head()
        return status, headers, await self.body(headers)

    async def head(self) -> tuple[int, dict[str, str]]:
        text = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *rest = text.strip().split("\r\n")
        return int(first.split()[1]), {k.lower(): v for k, v in (line.split(": ", 1) for line in rest)}

    async def body(self, headers: dict[str, str]) -> bytes:
        if "content-length" in headers:
            return await self.reader.readexactly(int(headers["content-length"]))
        body = b""
        while chunk := await self.chunk_in():
            body += chunk
        return body

    async def chunk_in(self) -> bytes:
        size = int(await self.reader.readuntil(b"\r\n"), 16)
        return (await self.reader.readexactly(size + 2))[:size]


@asynccontextmanager
async def raw(place: Place) -> AsyncIterator[Raw]:
    port = int(place.url.rpartition(":")[2])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield Raw(reader, writer)
    finally:
        writer.close()


def socket(place: Place, path: str = AT, **given: Any) -> connect:
    return connect(place.url.replace("http", "ws", 1) + path, max_size=None, **given)


async def accepted(place: Place, worker: SpokenWorker) -> tuple[ClientConnection, int]:
    """A WebSocket that its actor has accepted."""
    opening = asyncio.ensure_future(socket(place).__aenter__())
    opened = await worker.next(Opened)
    await worker.accept(opened.stream)
    return await opening, opened.stream


@asynccontextmanager
async def connected(place: Place, worker: SpokenWorker) -> AsyncIterator[tuple[ClientConnection, int]]:
    client, stream = await accepted(place, worker)
    try:
        yield client, stream
    finally:
        await client.close()


async def closed_with(client: ClientConnection) -> tuple[int, str]:
    with pytest.raises(ConnectionClosed) as closed:
        await client.recv()
    assert closed.value.rcvd is not None
    return closed.value.rcvd.code, closed.value.rcvd.reason


def test_an_actor_sees_the_request_and_its_client_the_answer() -> None:
    async def story() -> None:
        async with places() as (place,), spoken_worker(place.url) as worker, raw(place) as client:
            headers = {"Authorization": "Bearer no", "X-Mine": "1", "Idempotency-Key": "k-1", "Epoxy-X": "y"}
            client.send("PUT", f"{AT}/a%20b/c?q=1&epoxy-create=true&r=%20", b"hi", headers)
            asked = await worker.next(ActorRequest)
            head = asked.head
            assert head is not None
            assert (head.method, head.path, head.query, asked.body) == ("PUT", "/a%20b/c", "q=1&r=%20", b"hi")
            assert head.headers == (("host", "x"), ("x-mine", "1"), ("idempotency-key", "k-1"))
            assert (head.caller, head.idempotency_key) == ("", "k-1")
            more = (("X-Yours", "2"), ("Content-Type", "text/plain"), ("Epoxy-Error", "fake"), ("Connection", "close"))
            await worker.say(Response(request_id=asked.request_id, body=b"ho", status=418, headers=more))
            status, heard, body = await client.answer()
            assert (status, heard["x-yours"], heard["content-type"], body) == (418, "2", "text/plain", b"ho")
            assert heard.keys().isdisjoint(("epoxy-error", "connection"))
            assert "sandbox" in heard["content-security-policy"], "its pages have no origin"
            client.send("GET", AT)
            asked = await worker.next(ActorRequest)
            assert asked.head is not None
            assert (asked.head.path, asked.head.query) == ("/", ""), "on the same connection"
            await worker.say(Response(request_id=asked.request_id, body=b"as asked", error=True))
            status, heard, _ = await client.answer()
            assert (status, heard["epoxy-error"]) == (502, "actor_failed")

    run(story())


def test_bodies_are_passed_on_as_they_come() -> None:
    async def story() -> None:
        async with places() as (place,), spoken_worker(place.url) as worker, raw(place) as client:
            client.send("POST", f"{AT}/echo", None)
            opened = await worker.next(Opened)
            client.chunk(b"one")
            assert (await worker.next(Piece)).body == b"one", "before the rest is there"
            await worker.say(Head(stream=opened.stream, status=201, body=b"<"))
            status, headers = await client.head()
            assert (status, headers["transfer-encoding"], await client.chunk_in()) == (201, "chunked", b"<")
            await worker.say(Piece(stream=opened.stream, body=b"ONE"))
            assert await client.chunk_in() == b"ONE"
            client.writer.write(b"0\r\n\r\n")
            assert (await worker.next(Piece)).fin
            await worker.say(Piece(stream=opened.stream, body=b">", fin=True))
            assert (await client.chunk_in(), await client.chunk_in()) == (b">", b"")

    run(story())


def test_a_slow_actor_stops_its_client_and_a_slow_client_its_actor() -> None:
    async def story() -> None:
        async with places() as (place,), spoken_worker(place.url) as worker, raw(place) as client:
            size = 8 << 20
            client.send("POST", AT, None)
            opened = await worker.next(Opened)
            client.chunk(bytes(size))
            client.writer.write(b"0\r\n\r\n")
            unseen = 0
            while unseen < WINDOW_BYTES:
                unseen += cost((await worker.next(Piece)).body)
            await asyncio.sleep(0.05)
            assert worker.is_idle, "no more than the window"
            assert unseen <= WINDOW_BYTES + (64 << 10) + 64
            got = 0
            await worker.say(Credit(stream=opened.stream, amount=unseen))
            while True:
                piece = await worker.next(Piece)
                got += len(piece.body)
                await worker.say(Credit(stream=opened.stream, amount=cost(piece.body)))
                if piece.fin:
                    break
            # The answer: the client does not read, so that credit stops coming.
            await worker.say(Head(stream=opened.stream))
            credit, sent = WINDOW_BYTES, 0
            piece = Piece(stream=opened.stream, body=bytes(32 << 10))
            while credit > 0 and sent < size:
                await worker.say(piece)
                sent += len(piece.body)
                credit -= cost(piece.body)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(0.2 if credit <= 0 else 0):
                        credit += (await worker.next(Credit)).amount
            assert sent < size, "it would have been sent without end"
            await worker.say(Piece(stream=opened.stream, fin=True))
            _, headers = await client.head()
            assert len(await client.body(headers)) == sent

    run(story())


def test_a_client_that_leaves_ends_its_stream_and_an_actor_that_is_lost_breaks_the_answer() -> None:
    async def story() -> None:
        async with places() as (place,):
            async with spoken_worker(place.url) as worker:
                async with raw(place) as client:
                    client.send("POST", AT, None)
                    opened = await worker.next(Opened)
                assert (await worker.next(Reset)).stream == opened.stream
                async with raw(place) as client:
                    client.send("GET", AT)
                    asked = await worker.next(ActorRequest)
                    await worker.say(Head(stream=asked.request_id, body=b"a"))
                    await client.head()
                await worker.next(Reset)
                begun = raw(place)
                client = await begun.__aenter__()
                client.send("GET", AT)
                asked = await worker.next(ActorRequest)
                await worker.say(Head(stream=asked.request_id, body=b"a"))
                await client.head()
                waits = raw(place)
                waiting = await waits.__aenter__()
                waiting.send("GET", AT)
                await worker.next(ActorRequest)
            assert await client.chunk_in() == b"a"
            with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError)):
                await client.chunk_in()
            status, headers, _ = await waiting.answer()
            assert (status, headers["epoxy-error"]) == (503, "outcome_unknown")
            await begun.__aexit__(None, None, None)
            await waits.__aexit__(None, None, None)

    run(story())


def test_what_is_wrong_is_told() -> None:
    async def story() -> None:
        async with places() as (place,), spoken_worker(place.url) as worker, raw(place) as client:
            for method, target, headers, code in [
                ("GET", f"{AT}?epoxy-create=false", {}, "not_found"),
                ("GET", f"{AT}?epoxy-colour=red", {}, "bad_parameter"),
                ("GET", "/v2/actors/at/room", {}, "bad_request"),
                ("GET", "/v2/actors/at/room/%ff/x", {}, "bad_encoding"),
                ("GET", AT, {"Idempotency-Key": "k" * 256}, "bad_request"),
                ("GET", AT, {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, "cross_site"),
                ("GET", AT, {"Origin": "http://evil.example"}, "cross_site"),
                ("TRACE", AT, {}, "method_not_allowed"),
                ("GET", AT, {"Upgrade": "websocket", "Connection": "upgrade"}, "upgrade_required"),
            ]:
                async with raw(place) as one:
                    one.send(method, target, headers=headers)
                    status, heard = await one.head()
                    assert heard.get("epoxy-error") == code, (target, status)
            client.send("GET", AT)
            asked = await worker.next(ActorRequest)
            await worker.say(Response(request_id=asked.request_id, headers=(("a\r\nb", "c"),)))
            assert (await client.answer())[0] == 502
            client.send("HEAD", AT)
            asked = await worker.next(ActorRequest)
            assert asked.head is not None
            assert asked.head.method == "HEAD"
            await worker.say(Head(stream=asked.request_id, status=200))
            status, headers = await client.head()
            assert (status, "content-length" in headers) == (200, False), "GET would get it in pieces"
            await worker.next(Reset)
            client.send("HEAD", AT)
            asked = await worker.next(ActorRequest)
            await worker.say(Response(request_id=asked.request_id, body=b"as of GET"))
            status, headers = await client.head()
            assert (status, headers["content-length"]) == (200, "9"), "the length of what GET would get"
            client.send("GET", AT)
            asked = await worker.next(ActorRequest)
            await worker.say(Response(request_id=asked.request_id, body=b"next"))
            assert (await client.answer())[-1] == b"next", "no body followed the answer to HEAD"

    run(story())


def test_headers_of_one_connection_stay_there() -> None:
    given = [(b"connection", b"x-a, close"), (b"x-a", b"1"), (b"te", b"t"), (b"authorization", b"s"), (b"x-b", b"2")]
    assert passed_on(given) == (("x-b", "2"),)
    with pytest.raises(BadAnswer):
        answer_headers(200, (("a", "b\nc"),))
    with pytest.raises(BadAnswer):
        answer_headers(101, ())
    plain, headers = answer_headers(200, (("Transfer-Encoding", "gzip"), ("Access-Control-Allow-Origin", "*")))
    assert (plain, len(headers)) == (b"application/octet-stream", 2)


# WebSockets


def test_messages_of_both_kinds_go_both_ways_and_closing_has_a_code() -> None:
    async def story() -> None:
        async with places() as (place,), spoken_worker(place.url) as worker:
            async with connected(place, worker) as (client, stream):
                await client.send("text")
                await client.send(b"\x00bytes")
                first, second = await worker.next(Piece), await worker.next(Piece)
                assert (first.body, first.text, second.body, second.text) == (b"text", True, b"\x00bytes", False)
                await worker.say(Piece(stream=stream, body=b"ja", text=True), Piece(stream=stream, body=b""))
                assert [await client.recv(), await client.recv()] == ["ja", b""]
                await client.close(4001, "enough")
                reset = await worker.next(Reset)
                assert (reset.code, reset.reason) == (4001, "enough")
            async with connected(place, worker) as (client, stream):
                await worker.say(Reset(stream=stream, code=4003, reason="not you"))
                assert await closed_with(client) == (4003, "not you")

    run(story())


def test_a_socket_is_closed_to_be_opened_again_when_its_actor_is_lost_or_the_node_stops() -> None:
    async def story() -> None:
        async with places() as (place,):
            async with spoken_worker(place.url) as worker:
                client, _ = await accepted(place, worker)
            assert await closed_with(client) == (1012, "the envoy was lost before it answered")
            async with spoken_worker(place.url, "spoken") as worker:
                client, _ = await accepted(place, worker)
                place.system.last_call()
                assert await closed_with(client) == (1012, "the node is stopping")
                async with socket(place) as late:
                    code, _ = await closed_with(late)
                    assert code == 1013, "a browser sees the code, and no status"

    run(story())


def test_too_long_a_message_and_text_that_is_none_end_it() -> None:
    async def story() -> None:
        async with places() as (place,), spoken_worker(place.url) as worker:
            for message, code in ((bytes((1 << 20) + 1), 1009), (b"\xff", 1007)):
                async with connected(place, worker) as (client, _):
                    await client.send(message, text=code == 1007)
                    assert (await closed_with(client))[0] == code
                    await worker.next(Reset)

    run(story())


def test_a_slow_actor_stops_the_client_of_a_socket() -> None:
    async def story() -> None:
        async with (
            places() as (place,),
            spoken_worker(place.url) as worker,
            connected(place, worker) as (client, stream),
        ):
            count = 1000
            sending = asyncio.ensure_future(send_all(client, count))
            unseen = heard = 0
            while unseen < WINDOW_BYTES:
                unseen += cost((await worker.next(Piece)).body)
                heard += 1
            await asyncio.sleep(0.05)
            assert worker.is_idle, "no more than the window"
            while heard < count:
                await worker.say(Credit(stream=stream, amount=unseen))
                unseen = cost((await worker.next(Piece)).body)
                heard += 1
            await sending

    run(story())


async def send_all(client: ClientConnection, count: int) -> None:
    for _ in range(count):
        await client.send(bytes(4096))


def test_an_actor_may_refuse_a_socket_and_choose_its_protocol() -> None:
    async def story() -> None:
        async with places() as (place,), spoken_worker(place.url) as worker:
            opening = asyncio.ensure_future(socket(place).__aenter__())
            opened = await worker.next(Opened)
            await worker.say(Head(stream=opened.stream, status=403, body=b"not you", fin=True))
            with pytest.raises(InvalidStatus) as refused:
                await opening
            assert (refused.value.response.status_code, refused.value.response.body) == (403, b"not you")
            for chosen, said in (("chat.v2", "chat.v2"), ("", "epoxy"), ("unasked", "epoxy")):
                words = [Subprotocol(word) for word in ("epoxy.bearer.epx_secret", "chat.v2", "epoxy")]
                opening = asyncio.ensure_future(socket(place, subprotocols=words).__aenter__())
                opened = await worker.next(Opened)
                assert opened.head.protocols == ("chat.v2", "epoxy"), "the token is not the actor's"
                assert all("secret" not in value for _, value in opened.head.headers)
                await worker.accept(opened.stream, chosen)
                client = await opening
                assert client.subprotocol == said
                await client.close()
                await worker.next(Reset)

    run(story())


def test_a_token_is_never_echoed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even to an actor that guesses it: it is not among what the client is known to offer."""

    request = SimpleNamespace(headers={b"sec-websocket-protocol": b"epoxy.bearer.epx_secret, chat"})
    call = cast(ApiCall, SimpleNamespace(request=request))
    assert actor_sockets.offered(call) == ("chat",)
    monkeypatch.setattr(actor_sockets, "TOKEN_PROTOCOL", b"planted")
    assert "epoxy.bearer.epx_secret" in actor_sockets.offered(call), "the check above would fail"


def test_a_token_of_a_page_is_read_from_the_protocols() -> None:
    headers = {b"sec-websocket-protocol": b"chat, epoxy.bearer.epx_1"}
    assert authorization.offered_token(headers) == b"bearer epx_1"
    assert authorization.offered_token({b"sec-websocket-protocol": b"chat"}) is None


async def open_from(place: Place, worker: SpokenWorker, origin: str) -> int:
    """The status of a handshake of a page of this origin."""
    opening = asyncio.ensure_future(socket(place, origin=Origin(origin)).__aenter__())
    given = asyncio.ensure_future(worker.next(Opened))
    await asyncio.wait((opening, given), return_when=asyncio.FIRST_COMPLETED)
    if given.done():
        await worker.accept(given.result().stream)
        await (await opening).close()
        await worker.next(Reset)
        return 101
    given.cancel()
    try:
        await opening
    except InvalidStatus as refused:
        return refused.response.status_code
    return 0


@pytest.mark.pure("replaces a function of a compiled module")
def test_pages_of_other_origins_open_no_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with places() as (place,), spoken_worker(place.url) as worker:
            assert await open_from(place, worker, "http://evil.example") == 403
            assert await open_from(place, worker, place.url) == 101
            place.api._guard = cross_site.CrossSiteGuard(lambda: ("x",), ["http://app.example"])
            assert await open_from(place, worker, "http://app.example") == 101
            with monkeypatch.context() as planted:
                planted.setattr(cross_site, "is_same_origin", lambda _origin, _host: True)
                assert await open_from(place, worker, "http://evil.example") == 101, "the check above would fail"

    run(story())


def test_too_many_sockets_are_told_to_come_later() -> None:
    async def story() -> None:
        async with places() as (place,), spoken_worker(place.url) as worker:
            place.system._routes.paths.max_sockets = 1
            async with connected(place, worker), socket(place) as second:
                assert (await closed_with(second))[0] == 1013

    run(story())


def test_a_client_that_answers_no_pings_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(actor_sockets, "PING_S", 0.02)

    async def story() -> None:
        async with places() as (place,), spoken_worker(place.url) as worker:
            deaf, _ = await accepted(place, worker)
            deaf.transport.pause_reading()
            assert (await worker.next(Reset)).code == 1006
            deaf.transport.abort()
            async with connected(place, worker) as (client, stream):
                await asyncio.sleep(0.2)
                await worker.say(Piece(stream=stream, body=b"still there"))
                assert await client.recv() == b"still there"

    run(story())


# Between datacenters, and between actors


def test_actors_ask_each_other_and_never_themselves() -> None:
    async def story() -> None:
        async with places() as (place,), spoken_worker(place.url) as worker, raw(place) as client:
            client.send("POST", AT, b"")
            asked = await worker.next(ActorRequest)
            name = worker.starts[0]

            def ask(call: int, key: str, **given: Any) -> ActorAsk:
                head = RequestHead(path="/x", caller="forged", **given)
                other = ActorName("default", "room", key)
                return ActorAsk(
                    call=call, actor_id=name.actor_id, generation=name.generation, name=other, head=head, pool="default"
                )

            await worker.say(ask(1, "other"))
            inner = await worker.next(ActorRequest)
            assert inner.head is not None
            assert (inner.head.caller, inner.head.chain) == ("actor:default/room/lobby", (name.actor_id,))
            await worker.say(Response(request_id=inner.request_id, body=b"ja", status=203))
            answer = await worker.next(AskAnswer)
            assert (answer.call, answer.status, answer.body, answer.error) == (1, 203, b"ja", "")
            await worker.say(ask(2, "lobby"))
            answer = await worker.next(AskAnswer)
            assert (answer.call, answer.error, answer.definite) == (2, "call_cycle", True)
            await worker.say(Response(request_id=asked.request_id))
            await client.answer()

    run(story())
