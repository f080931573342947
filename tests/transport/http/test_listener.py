"""A server leaves the last file descriptors alone, and handshakes that say nothing do not keep others out."""

import asyncio
import os
from pathlib import Path

import pytest

from epoxy.transport.http import listener
from epoxy.transport.http.connections import SWEEP_S, Connections
from epoxy.transport.http.exchange import Exchange
from epoxy.transport.http.reserves import Room
from epoxy.transport.http.server import serve_http
from epoxy.transport.limits import HttpLimits
from epoxy.transport.tls import client_context, server_context
from tests.transport.http.harness import RunningServer, echo, get, run, running_server, until, with_server
from tests.transport.test_tls import Office


def lowest_free() -> int:
    descriptor = os.open("/dev/null", os.O_RDONLY)
    os.close(descriptor)
    return descriptor


def test_connections_beyond_the_ceiling_are_closed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    ceiling = lowest_free() + 40
    monkeypatch.setattr(listener, "whole_room", lambda: Room(ceiling=ceiling, reserve=ceiling))

    async def story(opened: RunningServer) -> None:
        """Both ends are ours, so a client costs two: the crowd reaches the ceiling with twenty."""
        crowd = [await opened.dial() for _ in range(40)]
        await until(lambda: sum(client.reader.at_eof() for client in crowd) >= 20)
        accepted = [client for client in crowd if not client.reader.at_eof()]
        assert 5 <= len(accepted) <= 20
        assert len(opened.connections) == len(accepted)
        accepted[0].send(get())
        assert (await accepted[0].answer())[0].startswith(b"HTTP/1.1 200 ")
        for client in crowd:
            client.hang_up()
        await until(lambda: not opened.connections)
        again = await opened.dial()
        again.send(get())
        assert (await again.answer())[0].startswith(b"HTTP/1.1 200 ")

    with_server(echo, story)


def test_a_connection_in_reserve_stays_if_it_proves_to_be_an_operator_s() -> None:
    def handler(exchange: Exchange) -> None:
        if exchange.on_trial and (
            b"right" not in exchange.request.headers[b"authorization"] or not exchange.admit_operator()
        ):
            exchange.fail(503, "too_many_connections", "no room")
        else:
            exchange.respond(200)

    async def story() -> None:
        free = lowest_free()
        async with running_server(handler, room=Room(ceiling=free + 1000, reserve=0)) as opened:
            stranger, client, operator = [await opened.dial() for _ in range(3)]
            stranger.send(get())
            assert (await stranger.answer())[0].startswith(b"HTTP/1.1 503 ")
            client.send(get(b"/", b"authorization: Bearer wrong"))
            assert b"too_many_connections" in (await client.answer())[1]
            for _ in range(2):
                operator.send(get(b"/", b"authorization: Bearer right"))
                assert (await operator.answer())[0].startswith(b"HTTP/1.1 200 ")
            opened.late(HttpLimits().trial_s + 2 * SWEEP_S)
            operator.send(get())
            assert (await operator.answer())[0].startswith(b"HTTP/1.1 200 "), "not on trial any longer"

    run(story())


def test_a_door_that_cannot_accept_tries_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The system may be out of files though we are not."""
    monkeypatch.setattr(listener, "PAUSE_S", 0.01)

    class Exhausted:
        """The first accept of the server fails."""

        def __init__(self, real: object) -> None:
            self.real = real
            self.failures = 0

        def accept(self) -> object:
            if not self.failures:
                self.failures += 1
                raise OSError(24, "Too many open files")
            return self.real.accept()  # type: ignore[attr-defined]

        def __getattr__(self, name: str) -> object:
            return getattr(self.real, name)

    async def story(opened: RunningServer) -> None:
        server = opened.listener
        loop = asyncio.get_running_loop()
        loop.remove_reader(server.sockets[0])
        exhausted = Exhausted(server.sockets[0])
        server.sockets = (exhausted,)  # type: ignore[assignment]
        server._accept(exhausted)  # type: ignore[arg-type]
        assert exhausted.failures == 1
        client = await opened.dial()
        client.send(get())
        assert (await client.answer())[0].startswith(b"HTTP/1.1 200 ")
        loop.remove_reader(exhausted.real)  # type: ignore[arg-type]
        server.sockets = (exhausted.real,)  # type: ignore[assignment]

    with_server(echo, story)


def test_handshakes_that_say_nothing_give_way(tmp_path: Path) -> None:
    office = Office(tmp_path, "ca")
    server = server_context(*office.issue("127.0.0.1"))
    client = client_context(None, None, office.ca)
    room = Room(ceiling=1 << 20, reserve=1 << 20, handshakes=4)

    async def story() -> None:
        async with running_server(echo, ssl=server, room=room) as opened:
            other = await opened.dial(source="127.0.0.2")
            silent = [await opened.dial() for _ in range(12)]
            await until(lambda: sum(each.reader.at_eof() for each in silent) == 9)
            assert [each.reader.at_eof() for each in silent] == [True] * 9 + [False] * 3, "the oldest went first"
            assert not other.reader.at_eof(), "the oldest of all, but from another address"
            assert opened.listener.opening == 4
            assert not opened.connections, "none of them is one yet"
            speaking = await opened.dial(client)
            speaking.send(get())
            assert (await speaking.answer())[0].startswith(b"HTTP/1.1 200 ")

    run(story())


def test_a_handshake_has_its_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "HANDSHAKE_S", 0.05)
    server = server_context(*Office(tmp_path, "ca").issue("127.0.0.1"))

    async def story() -> None:
        async with running_server(echo, ssl=server) as opened:
            silent = await opened.dial()
            assert await silent.rest() == b""

    run(story())


def test_who_was_let_in_by_the_system_is_served_after_the_door_has_closed() -> None:
    async def story(opened: RunningServer) -> None:
        clients = [await opened.dial() for _ in range(3)]
        opened.listener.close()
        for client in clients:
            client.send(get())
            assert (await client.answer())[0].startswith(b"HTTP/1.1 200 ")

    with_server(echo, story)


def test_sockets_that_are_handed_on_never_cease_to_listen() -> None:
    """Connections that come between the two listeners wait for the second one; the first one's stay."""

    async def story(first: RunningServer) -> None:
        before = await first.dial()
        before.send(get())
        assert (await before.answer())[0].startswith(b"HTTP/1.1 200 ")
        sockets = first.listener.hand_on()
        meanwhile = await first.dial()
        meanwhile.send(get())
        before.send(get())
        assert (await before.answer())[0].startswith(b"HTTP/1.1 200 "), "it is served on"
        assert len(first.connections) == 1
        connections = Connections(10)
        second = await serve_http(echo, "127.0.0.1", first.port, connections=connections, sockets=sockets)
        assert (await meanwhile.answer())[0].startswith(b"HTTP/1.1 200 ")
        assert len(connections) == 1
        second.close()
        await connections.drain(0)

    with_server(echo, story)
