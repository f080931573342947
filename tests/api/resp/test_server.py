"""The RESP port of a node: what its connections share, and how they are closed."""

import asyncio
import os
import select
import socket
import ssl as tls
import sys
from functools import partial
from itertools import groupby
from pathlib import Path

import pytest
import trustme

from epoxy.api.resp import connection as module
from epoxy.api.resp.connection import RespConnection
from epoxy.api.resp.limits import RespLimits
from epoxy.api.resp.server import RespServer
from epoxy.model.writes import Refused
from epoxy.transport.tls import client_context, server_context
from tests.api.resp.resp_world import (
    FakeNode,
    Rope,
    committed,
    run,
    until,
    world,
)
from tests.transport.test_tls import Office


def test_one_connection_too_many_is_told_so() -> None:
    async def story() -> None:
        async with world(RespLimits(connections=2)) as at:
            first, second = await at.connect(), await at.connect()
            await first.says("PING", b"+PONG\r\n")
            await second.says("PING", b"+PONG\r\n")
            third = await at.connect()
            assert await third.rest() == b"-ERR max number of clients reached\r\n"
            first.writer.close()
            await until(lambda: len(at.door.connections) == 1)
            await (await at.connect()).says("PING", b"+PONG\r\n")

    run(story)


def test_the_door_closes_when_everything_begun_is_answered() -> None:
    async def story() -> None:
        async with world() as at:
            client, idle = await at.connect(), await at.connect()
            client.send("SET k v")
            await idle.says("PING", b"+PONG\r\n")
            await until(lambda: len(at.node.writes) == 1)
            at.door.close()
            assert await idle.rest() == b""
            at.node.writes[0][1](committed(b"v"))
            assert await client.rest() == b"+OK\r\n"

    run(story)


def test_after_the_last_call_a_connection_closes_behind_the_answers_to_what_it_sends_next() -> None:
    """Whoever hears a refusal and then the end knows what became of everything it sent."""

    async def story() -> None:
        async with world() as at:
            client = await at.connect()
            await client.says("PING", b"+PONG\r\n")
            at.door.last_call()
            client.raw(b"*1\r\n$4\r\nPI")
            client.raw(b"NG\r\n")
            client.send("SET k v")
            await until(lambda: len(at.node.writes) == 1)
            at.node.writes[0][1](Refused(reason="the node is stopping"))
            assert await client.rest() == b"+PONG\r\n-BUSY nothing was written to 'k': the node is stopping\r\n"

    run(story)


def test_a_pipeline_that_has_arrived_is_answered_to_its_end_when_the_door_closes() -> None:
    """Commands that share a key wait for each other; those that have not begun then are refused, and not dropped."""

    async def story() -> None:
        async with world() as at:
            client = await at.connect()
            for value in (1, 2, 3):
                client.send(f"SET k {value}")
            await until(lambda: len(at.node.writes) == 1)
            at.door.last_call()
            at.door.close()
            at.node.writes[0][1](committed(b"1"))
            await until(lambda: len(at.node.writes) == 2)
            at.node.writes[1][1](Refused(reason="the node is stopping"))
            await until(lambda: len(at.node.writes) == 3)
            at.node.writes[2][1](Refused(reason="the node is stopping"))
            refusal = b"-BUSY nothing was written to 'k': the node is stopping\r\n"
            assert await client.rest() == b"+OK\r\n" + 2 * refusal

    run(story)


def test_after_the_last_call_the_rest_of_a_pipeline_in_several_segments_is_answered() -> None:
    async def story() -> None:
        async with world() as at:
            client = await at.connect()
            await client.says("PING", b"+PONG\r\n")
            at.door.last_call()
            client.raw(b"PING\r\n*3\r\n$3\r\nSET\r\n$1\r")
            await client.expect(b"+PONG\r\n")
            client.raw(b"\nk\r\n$1\r\nv\r\n")
            await until(lambda: len(at.node.writes) == 1)
            at.node.writes[0][1](Refused(reason="the node is stopping"))
            assert await client.rest() == b"-BUSY nothing was written to 'k': the node is stopping\r\n"

    run(story)


def test_after_the_last_call_a_pipeline_is_answered_that_is_sent_command_by_command() -> None:
    """As redis-py sends a long one: in pieces of 6,000 bytes, each of them whole commands."""

    async def story() -> None:
        async with world() as at:
            client = await at.connect()
            await client.says("PING", b"+PONG\r\n")
            at.door.last_call()
            for _ in range(3):
                client.send("PING", "PING")
                await client.expect(2 * b"+PONG\r\n")
            assert await client.rest() == b""

    run(story)


def test_a_client_that_never_sends_the_rest_of_a_command_does_not_hold_a_node_that_stops() -> None:
    async def story() -> None:
        async with world() as at:
            client = await at.connect()
            client.raw(b"PING\r\n*3\r\n$3\r\nSET\r\n")
            await client.expect(b"+PONG\r\n")
            at.door.last_call()
            at.door.close()
            assert await client.rest() == b""
            await until(lambda: not at.door.connections)

    run(story)


def test_the_last_reply_of_a_node_that_stops_leaves_in_one_piece_with_the_end() -> None:
    """A client that has the reply and not yet the end sends its next command, and never learns what became of it."""

    async def story() -> None:
        door = RespServer(FakeNode())
        connection = RespConnection(door)
        with socket.create_server(("127.0.0.1", 0)) as listening:
            far = socket.create_connection(listening.getsockname())
            near = listening.accept()[0]
        with near, far:
            transport = Unbuffered(near, far)
            connection.connection_made(transport)
            door.last_call()
            connection.data_received(b"PING\r\n")
            assert transport.arrived_before_the_end is (sys.platform != "linux")
            assert [far.recv(100), far.recv(100)] == [b"+PONG\r\n", b""]
            connection.data_received(b"PING\r\n")
            connection.connection_lost(None)

    run(story)


def test_a_tls_client_finds_both_ends_with_its_last_reply_and_its_goodbye_is_not_waited_for(tmp_path: Path) -> None:
    """A pool looks at an idle connection when it next needs one. asyncio would wait for half a minute."""
    office = Office(tmp_path, "ca")
    ours, theirs = server_context(*office.issue("127.0.0.1")), client_context(None, None, office.ca)

    async def story() -> None:
        door = RespServer(FakeNode())
        async with await door.serve("127.0.0.1", 0, ssl=lambda: ours) as server:
            with socket.create_connection(server.sockets[0].getsockname()) as plain:
                loop = asyncio.get_running_loop()
                idle = await loop.run_in_executor(None, partial(theirs.wrap_socket, plain, server_hostname="127.0.0.1"))
                with idle:
                    await until(lambda: bool(door.connections))
                    door.last_call()
                    assert await loop.run_in_executor(None, asked_for_the_last_time, idle) == [b"+PONG\r\n", b"", b""]
                    door.close()
                    async with asyncio.timeout(15):
                        await until(lambda: not door.connections)

    run(story)


def test_the_door_speaks_tls() -> None:
    async def story() -> None:
        authority = trustme.CA()
        theirs, ours = tls.create_default_context(tls.Purpose.CLIENT_AUTH), tls.create_default_context()
        authority.issue_cert("localhost").configure_cert(theirs)
        authority.configure_trust(ours)
        door = RespServer(FakeNode())
        server = await door.serve("127.0.0.1", 0, ssl=lambda: theirs)
        port = server.sockets[0].getsockname()[1]
        client = Rope(*await asyncio.open_connection("127.0.0.1", port, ssl=ours, server_hostname="localhost"))
        await client.says("PING", b"+PONG\r\n")
        await client.says("QUIT", b"+OK\r\n")
        assert await client.rest() == b""
        client.writer.close()
        server.close()
        await until(lambda: not door.connections)

    run(story)


def test_a_server_serves() -> None:
    async def story() -> None:
        server = await RespServer(FakeNode()).serve("127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        client = Rope(*await asyncio.open_connection("127.0.0.1", port))
        await client.says("PING", b"+PONG\r\n")
        await client.says("QUIT", b"+OK\r\n")
        assert await client.rest() == b""
        client.writer.close()
        await client.writer.wait_closed()
        server.close()

    run(story)


class Unbuffered(asyncio.Transport):
    """Writes when it is told to, and looks what has reached the other end before it ends the stream."""

    def __init__(self, near: socket.socket, far: socket.socket) -> None:
        super().__init__({"socket": near})
        self._near, self._far = near, far
        self.arrived_before_the_end: bool | None = None

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._near.sendall(data)

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.arrived_before_the_end = bool(select.select([self._far], [], [], 0)[0])
        self._near.shutdown(socket.SHUT_WR)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass


def asked_for_the_last_time(client: tls.SSLSocket) -> list[bytes]:
    """What it is told, and what else has come by then; at last of TCP's stream, where pools look for the end."""
    client.sendall(b"PING\r\n")
    told = [client.recv(100), client.recv(100)]
    with socket.socket(fileno=os.dup(client.fileno())) as beneath:
        return [*told, beneath.recv(100, socket.MSG_DONTWAIT if sys.platform == "linux" else 0)]


def test_commands_are_counted_by_name_and_result() -> None:
    server = RespServer(FakeNode())
    assert server.requests() == {("resp_get", "ok"): 0}
    get = server.table[b"get"]
    for reply in (b"$1\r\nv\r\n", b"-BUSY x\r\n", b"-WRONGENGINE x\r\n", b"-ERR x\r\n", b"-INDEFINITE x\r\n"):
        server.count(get, reply)
    server.count(None, b"-ERR unknown command 'x'\r\n")
    server.immutable_values.served, server.newest_values.served = 3, 4
    assert server.requests() == {
        ("resp_get", "ok"): 8,
        ("resp_get", "refused"): 1,
        ("resp_get", "conflict"): 1,
        ("resp_get", "invalid"): 1,
        ("resp_get", "unavailable"): 1,
        ("resp_unknown", "invalid"): 1,
    }


def order_of_replies(together_s: float, monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Of two connections that pipeline ten commands each, and have all the time they want but for what they share."""
    served: list[bytes] = []
    monkeypatch.setattr(module, "TURN_S", 60.0)

    async def story() -> None:
        door = RespServer(FakeNode())
        door.turns.together_s = together_s
        monkeypatch.setattr(door, "count", lambda _, reply: served.append(reply))
        async with await door.serve("127.0.0.1", 0) as server:
            address = server.sockets[0].getsockname()[:2]
            clients = [await asyncio.open_connection(*address) for _ in range(2)]
            for (_, writer), name in zip(clients, (b"a", b"b"), strict=True):
                writer.write(b"*2\r\n$4\r\nECHO\r\n$1\r\n%b\r\n" % name * 10)
            for reader, _ in clients:
                await reader.readexactly(10 * len(b"$1\r\na\r\n"))
            assert door.turns.waiting == 0
            for _, writer in clients:
                writer.close()
                await writer.wait_closed()

    run(story)
    return served


@pytest.mark.pure("the length of a turn is replaced")
def test_connections_share_the_time_of_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a peer's frame waits for one command of each at most, and not for one full turn of each."""
    assert len(list(groupby(order_of_replies(0.0, monkeypatch)))) >= 10
    assert len(list(groupby(order_of_replies(120.0, monkeypatch)))) < 10, "a planted fault: no sharing"
