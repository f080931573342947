"""Requests that a node forwards to its gateway: the pool, and what clients hear when there is no gateway."""

import asyncio

import pytest

from epoxy.transport.http import forwarder as module
from epoxy.transport.http.exchange import Exchange
from epoxy.transport.http.forwarder import MAX_IDLE
from epoxy.transport.http.response import problem_of
from tests.transport.http.forwarding_bench import hop_to
from tests.transport.http.harness import echo, get, put, run, until


def code_of(body: bytes) -> str:
    return problem_of(body)[0]


def test_requests_and_answers_go_through_on_one_connection() -> None:
    async def story() -> None:
        async with hop_to(echo) as hop:
            client = await hop.shard.dial()
            for number in range(5):
                client.send(put(b"/a/%d?b=1" % number, b"body %d" % number))
                head, body = await client.answer()
                assert (head.split()[1], body) == (b"200", b"PUT /a/%d b=1 body %d" % (number, number))
            assert len(hop.gateway.connections) == len(hop.forwarder._idle) == 1
            assert hop.forwarder.under_way == 0
            assert hop.forwarder.outcomes == {"sent": 5, "refused": 0, "lost": 0}

    run(story())


def test_without_a_gateway_nothing_was_done() -> None:
    async def story() -> None:
        async with hop_to(echo) as hop:
            client = await hop.shard.dial()
            for url, words in ((None, "no node is the gateway"), ("http://127.0.0.1:1", "cannot be reached")):
                hop.url = url
                client.send(put(b"/a", b"x"))
                head, body = await client.answer()
                assert head.split()[1] == b"503"
                assert b"epoxy-error: no_gateway" in head
                assert b'"definite":true' in body
                assert words in problem_of(body)[1]
            hop.url = "https://127.0.0.1:1"
            client.send(get())
            assert "there is no [tls]" in problem_of((await client.answer())[1])[1]
            assert hop.forwarder.outcomes == {"sent": 0, "refused": 3, "lost": 0}

    run(story())


def test_a_gateway_that_does_not_answer_the_handshake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CONNECT_S", 0.0)

    async def story() -> None:
        async with hop_to(echo) as hop:
            client = await hop.shard.dial()
            client.send(get())
            _, body = await client.answer()
            assert code_of(body) == "no_gateway"
            assert "no answer in time" in problem_of(body)[1]

    run(story())


def test_what_was_not_sent_waits_for_a_gateway(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOK_S", 0.001)

    async def story() -> None:
        async with hop_to(echo, patience_s=60.0) as hop:
            found, clients = hop.url, [await hop.shard.dial() for _ in range(2)]
            for url, client in zip((None, "http://127.0.0.1:1"), clients, strict=True):
                hop.url = url
                client.send(put(b"/a", b"x"))
                await until(lambda: bool(hop.forwarder.under_way))
            hop.url = found
            for client in clients:
                assert (await client.answer())[1] == b"PUT /a  x"
            assert hop.forwarder.under_way == 0

    run(story())


def test_at_most_so_many_at_a_time() -> None:
    async def story() -> None:
        held: list[Exchange] = []
        async with hop_to(held.append, limit=2) as hop:
            waiting = [await hop.shard.dial() for _ in range(2)]
            for client in waiting:
                client.send(get())
            await until(lambda: len(held) == 2)
            one_more = await hop.shard.dial()
            one_more.send(get())
            head, body = await one_more.answer()
            assert (head.split()[1], code_of(body)) == (b"503", "too_many_connections")
            for exchange in held:
                exchange.respond(200, b"at last")
            for client in waiting:
                assert (await client.answer())[1] == b"at last"
            one_more.send(get())
            await until(lambda: len(held) == 3)
            held[-1].respond(200, b"now")
            assert (await one_more.answer())[1] == b"now"

    run(story())


def test_few_connections_are_kept() -> None:
    async def story() -> None:
        held: list[Exchange] = []
        async with hop_to(held.append) as hop:
            clients = [await hop.shard.dial() for _ in range(MAX_IDLE + 3)]
            for client in clients:
                client.send(get())
            await until(lambda: len(held) == len(clients))
            for exchange in held:
                exchange.respond(200, b"")
            for client in clients:
                await client.answer()
            await until(lambda: len(hop.forwarder._open) == MAX_IDLE)
            assert len(hop.forwarder._idle) == MAX_IDLE

    run(story())


def test_a_connection_that_rests_too_long_is_closed() -> None:
    async def story() -> None:
        async with hop_to(echo) as hop:
            client = await hop.shard.dial()
            client.send(get())
            await client.answer()
            hop.forwarder._idle[0].idle_since -= module.IDLE_S + 1
            hop.forwarder._watch()
            await until(lambda: not hop.forwarder._open)
            client.send(get())
            assert (await client.answer())[0].split()[1] == b"200"

    run(story())


def test_what_an_old_gateway_was_asked_has_no_outcome() -> None:
    """It may have been carried out. A request for reading changes nothing, and may be sent again."""

    async def story() -> None:
        held: list[Exchange] = []
        async with hop_to(held.append) as hop:
            writer, reader = await hop.shard.dial(), await hop.shard.dial()
            writer.send(put(b"/a", b"x"))
            reader.send(get())
            await until(lambda: len(held) == 2)
            hop.url = None
            hop.forwarder._watch()
            assert hop.forwarder.under_way == 2, "a hand-over that is not over: the old one may still answer"
            hop.url = "http://127.0.0.1:1"
            hop.forwarder._watch()
            for client, definite in ((writer, b'"definite":false'), (reader, b'"definite":true')):
                head, body = await client.answer()
                assert (head.split()[1], code_of(body)) == (b"503", "gateway_lost")
                assert definite in body
            assert hop.forwarder.outcomes == {"sent": 2, "refused": 0, "lost": 2}

    run(story())


def test_words_on_a_connection_that_rests_end_it() -> None:
    """A gateway that stops says so unasked: it must not be taken for the answer to the next request."""

    async def story() -> None:
        async with hop_to(echo) as hop:
            client = await hop.shard.dial()
            client.send(get())
            await client.answer()
            hop.gateway.connections.last_call()
            for connection in list(hop.gateway.connections._open):
                connection.drain()
            await until(lambda: not hop.forwarder._open)

    run(story())


def test_closing_ends_what_waits_for_a_connection() -> None:
    async def story() -> None:
        held: list[Exchange] = []
        async with hop_to(held.append) as hop:
            client = await hop.shard.dial()
            client.send(put(b"/a", b"x"))
            await until(lambda: bool(held))
            hop.forwarder.close()
            assert code_of((await client.answer())[1]) == "gateway_lost"
            await asyncio.sleep(0)
            assert not hop.forwarder._open

    run(story())
