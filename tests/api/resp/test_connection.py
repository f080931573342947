"""The connection: replies in order, one key at a time, and limits that only ever hurt whoever exceeds them."""

import asyncio
import logging
import os
import select
import socket
import ssl as tls
import sys
from functools import partial
from pathlib import Path

import pytest
import trustme

from epoxy.api.resp.connection import RespConnection
from epoxy.api.resp.limits import LONG_CHUNK_BYTES, RespLimits
from epoxy.api.resp.server import RespServer
from epoxy.codec import resp
from epoxy.model.records import MAX_VALUE_BYTES
from epoxy.model.writes import Refused
from epoxy.transport.tls import client_context, server_context
from tests.api.resp.resp_world import (
    FakeNode,
    Rope,
    World,
    committed,
    found,
    packed,
    proposal,
    run,
    turns,
    until,
    world,
)
from tests.transport.test_tls import Office

BIG = b"x" * MAX_VALUE_BYTES


def test_replies_leave_in_the_order_of_commands_and_not_of_outcomes() -> None:
    async def story() -> None:
        async with world() as at:
            client = await at.connect()
            client.send("SET a 1", "GETSET b 1", "PING", "SET c 1")
            await until(lambda: len(at.node.writes) == 3)
            (_, first), (_, second), (_, third) = at.node.writes
            third(committed(b"1"))
            second(committed(b"1", previous=b"old"))
            await turns()
            first(committed(b"1"))
            await client.expect(b"+OK\r\n$3\r\nold\r\n+PONG\r\n+OK\r\n")

    run(story)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("SET k 1", "GET k"),
        ("SET k 1", "SET k 2"),
        ("SET k 1", "MGET a k"),
        ("GET k", "SET k 1"),
        ("INCR k", "DEL a k"),
    ],
)
def test_commands_that_share_a_key_wait_for_each_other(first: str, second: str) -> None:
    async def story() -> None:
        async with world() as at:
            client = await at.connect()
            client.send(first, second, "PING")
            await until(lambda: at.node.asked > 0)
            await turns(20)
            assert at.node.asked == 1
            finish_one(at.node)
            await until(lambda: at.node.asked > 1)

    run(story)


def finish_one(node: FakeNode) -> None:
    if node.writes:
        node.writes.popleft()[1](committed(b"1"))
    else:
        key, _, answered = node.reads.popleft()
        answered(found(b"1"))
        assert key


def test_reads_of_one_key_do_not_wait_for_each_other() -> None:
    async def story() -> None:
        async with world() as at:
            client = await at.connect()
            client.send("GET k", "STRLEN k", "MGET k k")
            await until(lambda: len(at.node.reads) == 4)
            for _, _, answered in list(at.node.reads):
                answered(found(b"val"))
            await client.expect(b"$3\r\nval\r\n:3\r\n*2\r\n$3\r\nval\r\n$3\r\nval\r\n")

    run(story)


@pytest.mark.parametrize("command", ["SCAN 0", "DBSIZE", "HELLO 3", "RESET"])
def test_what_looks_at_everything_waits_for_everything(command: str) -> None:
    async def story() -> None:
        async with world() as at:
            client = await at.connect()
            client.send("GETSET k 1", command, "ECHO end")
            await until(lambda: len(at.node.writes) == 1)
            at.node.writes[0][1](committed(b"1"))
            await client.expect(b"$-1\r\n")  # Still RESP2: it was asked before HELLO.
            assert (await client.line()) != ""

    run(story)


def test_a_value_known_here_is_answered_without_asking_anybody() -> None:
    async def story() -> None:
        async with world() as at:
            at.node.held[b"k"] = proposal(b"here")
            client = await at.connect()
            client.send("GET k", "get k", "Get k")
            await client.expect(b"$4\r\nhere\r\n" * 3)
            assert at.node.asked == 0

    run(story)


def test_a_pipeline_above_the_limit_waits_in_the_socket() -> None:
    async def story() -> None:
        async with world(RespLimits(pipeline=10)) as at:
            client = await at.connect()
            client.send(*(f"SET k{i} v" for i in range(50)))
            await until(lambda: len(at.node.writes) == 10)
            await turns(50)
            assert len(at.node.writes) == 10
            for _ in range(50):
                await until(lambda: bool(at.node.writes))
                at.node.writes.popleft()[1](committed(b"v"))
            await client.expect(b"+OK\r\n" * 50)

    run(story)


def test_what_commands_under_way_hold_is_limited_in_bytes() -> None:
    async def story() -> None:
        async with world(RespLimits(held_bytes=1 << 20)) as at:
            client = await at.connect()
            for i in range(8):
                client.raw(resp.array([resp.bulk(b"SET"), resp.bulk(b"k%d" % i), resp.bulk(BIG[: 600 << 10])]))
            await until(lambda: len(at.node.writes) == 2)
            await turns(200)
            assert len(at.node.writes) == 2
            for _ in range(8):
                await until(lambda: bool(at.node.writes))
                at.node.writes.popleft()[1](committed(b"v"))
            await client.expect(b"+OK\r\n" * 8)

    run(story)


def test_a_client_that_does_not_read_holds_little_and_hurts_nobody() -> None:
    async def story() -> None:
        async with world() as at:
            at.node.held[b"big"] = proposal(BIG)
            slow, other = await at.connect(), await at.connect()
            slow.send(*["GET big"] * 500)
            await other.says("PING", b"+PONG\r\n")
            connection = at.door.connections[1]
            await until(lambda: connection._write_paused)
            await other.says("PING", b"+PONG\r\n")
            transport = connection._transport
            assert transport is not None
            assert transport.get_write_buffer_size() <= 4 * MAX_VALUE_BYTES + 2 * len(BIG)
            assert len(connection._queue) > 400
            for _ in range(500):
                await slow.expect(resp.bulk(BIG))

    run(story)


def test_a_long_pipeline_lets_others_have_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without any time of its own, a connection begins one command in each turn of the loop."""
    monkeypatch.setattr("epoxy.api.resp.connection.TURN_S", -1.0)

    async def story() -> None:
        async with world() as at:
            busy, other = await at.connect(), await at.connect()
            busy.send(*["PING"] * 5000)
            await until(lambda: bool(at.door.connections) and len(at.door.connections[1]._queue) > 1000)
            await other.says("PING", b"+PONG\r\n")
            assert len(at.door.connections[1]._queue) > 0
            await busy.expect(b"+PONG\r\n" * 5000)

    run(story)


def test_a_command_of_many_keys_lets_others_have_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without any time of its own, it looks at one key in each turn of the loop."""
    monkeypatch.setattr("epoxy.api.resp.turns.TURN_S", -1.0)

    async def story() -> None:
        async with world() as at:
            at.node.held[b"k"] = proposal(b"v")
            busy, other = await at.connect(), await at.connect()
            await other.says("PING", b"+PONG\r\n")
            busy.send("EXISTS" + " k" * 1000, "MGET k k", "PING")
            await until(lambda: at.node.peeked > 0)
            await other.says("PING", b"+PONG\r\n")
            assert at.node.peeked < 1000
            await busy.expect(b":1000\r\n" + resp.array([resp.bulk(b"v")] * 2) + b"+PONG\r\n")
            assert at.node.peeked == 1002

    run(story)


def test_deleting_many_keys_lets_others_have_a_turn_and_ends_with_its_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("epoxy.api.resp.turns.TURN_S", -1.0)

    async def story() -> None:
        async with world() as at:
            busy, other = await at.connect(), await at.connect()
            busy.send("DEL" + " k" * 1000)
            await until(lambda: at.node.asked > 0)
            await other.says("PING", b"+PONG\r\n")
            assert 0 < at.node.asked < 1000
            at.door.abort()
            await until(lambda: not at.door.connections)
            begun = at.node.asked
            await turns(50)
            assert at.node.asked == begun

    run(story)


def test_a_bug_in_a_later_turn_is_told_and_leaves_the_connection_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("epoxy.api.resp.turns.TURN_S", -1.0)

    async def story() -> None:
        seen: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: seen.append(context["exception"]))
        async with world() as at:
            at.node.held[b"k"] = proposal(b"v")
            at.node.broken = {b"x"}
            client = await at.connect()
            client.send("MGET k k x k", "PING")
            await client.expect(b"-ERR internal error, outcome unknown\r\n+PONG\r\n")
            assert [str(each) for each in seen] == ["a bug"]

    run(story)


def test_one_clients_pipeline_waits_for_room_at_the_node_instead_of_being_refused() -> None:
    async def story() -> None:
        async with world() as at:
            at.node.room = 5
            client = await at.connect()
            client.send(*(f"SET k{i} v" for i in range(12)), "DEL " + " ".join(f"d{i}" for i in range(12)))
            most = 0
            for _ in range(24):
                await until(lambda: bool(at.node.writes))
                await turns()
                most = max(most, len(at.node.writes))
                at.node.writes.popleft()[1](committed(b"v"))
            await client.expect(b"+OK\r\n" * 12 + b":12\r\n")
            assert most == 5

    run(story)


def test_keys_asked_for_elsewhere_wait_for_room_at_the_node() -> None:
    async def story() -> None:
        async with world() as at:
            at.node.room = 5
            client = await at.connect()
            client.send("EXISTS" + " k" * 12)
            most = 0
            for _ in range(12):
                await until(lambda: bool(at.node.reads))
                await turns()
                most = max(most, len(at.node.reads))
                at.node.reads.popleft()[2](found(b"v"))
            await client.expect(b":12\r\n")
            assert most == 5

    run(story)


def test_who_sends_a_lot_at_a_time_is_not_read_again_before_others_had_a_turn() -> None:
    async def story() -> None:
        async with world() as at:
            client = await at.connect()
            client.send("PING")
            await client.expect(b"+PONG\r\n")
            connection = at.door.connections[1]
            connection.data_received(b"*0\r\n" * (LONG_CHUNK_BYTES // 4))
            assert connection._paused
            await until(lambda: not connection._paused)
            await client.says("PING", b"+PONG\r\n")

    run(story)


@pytest.mark.parametrize(
    ("garbage", "words"),
    [
        (b"GET / HTTP/1.1\r\n", "expected '*', got b'G'"),
        (b"*1\r\n$600000000\r\n", "600000000 bytes"),
        (b"*4000000000\r\n", "4000000000 arguments"),
        (b"\x16\x03\x01\x02\x00", "expected '*'"),
    ],
)
def test_garbage_is_named_and_ends_the_connection(garbage: bytes, words: str) -> None:
    async def story() -> None:
        async with world() as at:
            client = await at.connect()
            client.raw(packed("PING") + garbage)
            answer = (await client.rest()).decode()
            assert answer.startswith("+PONG\r\n-ERR Protocol error: ")
            assert words in answer
            assert at.door.connections == {}

    run(story)


def test_a_value_of_five_megabytes_is_refused_in_words_and_the_connection_stays() -> None:
    async def story() -> None:
        async with world() as at:
            client = await at.connect()
            client.send("PING")
            client.raw(resp.array([resp.bulk(b"SET"), resp.bulk(b"k"), resp.bulk(bytes(5_000_000))]))
            client.send("PING", "MULTI", "SET a 1")
            client.raw(resp.array([resp.bulk(b"MGET"), *[resp.bulk(b"k")] * 2000]))
            client.send("EXEC", "PING")
            await client.expect(b"+PONG\r\n")
            line = await client.line()
            assert line == (
                "-ERR nothing was done: an argument of 5000000 bytes, the limit is 2097152; a value has 1048576 at most"
            )
            await client.expect(b"+PONG\r\n+OK\r\n+QUEUED\r\n")
            assert (await client.line()).startswith("-ERR nothing was done: 2001 arguments, the limit is 1026")
            await client.expect(b"-EXECABORT Transaction discarded because of previous errors.\r\n+PONG\r\n")
            assert at.node.asked == 0

    run(story)


def test_strangers_are_not_read_past() -> None:
    async def story() -> None:
        async with world(password="secret") as at:
            client = await at.connect()
            client.raw(resp.array([resp.bulk(b"SET"), resp.bulk(b"k"), resp.bulk(bytes(20_000))]))
            assert b"Protocol error: an argument of 20000 bytes" in await client.rest()

    run(story)


def test_probes_speak_in_lines() -> None:
    async def story() -> None:
        async with world(password="secret") as at:
            client = await at.connect()
            client.raw(b"PING\r\n")
            await client.expect(b"-NOAUTH Authentication required.\r\n")
            client.raw(b"AUTH secret\r\nPING\r\nQUIT\r\n")
            assert await client.rest() == b"+OK\r\n+PONG\r\n+OK\r\n"

    run(story)


def test_what_came_before_garbage_is_answered_first() -> None:
    async def story() -> None:
        async with world() as at:
            client = await at.connect()
            client.raw(packed("SET k v") + packed("GET k") + b"garbage")
            await until(lambda: len(at.node.writes) == 1)
            at.node.held[b"k"] = proposal(b"v")
            at.node.writes[0][1](committed(b"v"))
            assert (await client.rest()).startswith(b"+OK\r\n$1\r\nv\r\n-ERR Protocol error")

    run(story)


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


def test_a_script_that_closes_its_half_gets_its_answers() -> None:
    async def story() -> None:
        async with world() as at:
            client = await at.connect()
            client.send("SET k v", "GET k", "PING")
            client.writer.write_eof()
            await until(lambda: len(at.node.writes) == 1)
            at.node.held[b"k"] = proposal(b"v")
            at.node.writes[0][1](committed(b"v"))
            assert await client.rest() == b"+OK\r\n$1\r\nv\r\n+PONG\r\n"

    run(story)


def test_quit_answers_what_came_before_and_nothing_after() -> None:
    async def story() -> None:
        async with world() as at:
            client = await at.connect()
            client.send("SET k v", "QUIT", "SET l v")
            await until(lambda: len(at.node.writes) == 1)
            at.node.writes[0][1](committed(b"v"))
            assert await client.rest() == b"+OK\r\n+OK\r\n"
            assert at.node.asked == 1

    run(story)


def test_an_answer_for_somebody_who_left_is_dropped() -> None:
    async def story() -> None:
        async with world() as at:
            client = await at.connect()
            client.send("SET k v")
            await until(lambda: len(at.node.writes) == 1)
            at.door.abort()
            await until(lambda: not at.door.connections)
            at.node.writes[0][1](committed(b"v"))
            await (await at.connect()).says("PING", b"+PONG\r\n")

    run(story)


def test_somebody_who_left_is_forgotten_once_answered() -> None:
    """A closed connection looks like a script that closed its half, and is kept until its commands are done."""

    async def story() -> None:
        async with world() as at:
            client = await at.connect()
            client.send("SET k v", "SET k w")
            await until(lambda: len(at.node.writes) == 1)
            client.writer.transport.abort()
            for _ in range(2):
                await until(lambda: bool(at.node.writes) or not at.door.connections)
                if at.node.writes:
                    at.node.writes.popleft()[1](committed(b"v"))
            await until(lambda: not at.door.connections)

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


def asked_for_the_last_time(client: tls.SSLSocket) -> list[bytes]:
    """What it is told, and what else has come by then; at last of TCP's stream, where pools look for the end."""
    client.sendall(b"PING\r\n")
    told = [client.recv(100), client.recv(100)]
    with socket.socket(fileno=os.dup(client.fileno())) as beneath:
        return [*told, beneath.recv(100, socket.MSG_DONTWAIT if sys.platform == "linux" else 0)]


def test_a_tls_client_finds_both_ends_with_its_last_reply_and_its_goodbye_is_not_waited_for(tmp_path: Path) -> None:
    """A pool looks at an idle connection when it next needs one. asyncio would wait for half a minute."""
    office = Office(tmp_path, "ca")
    ours, theirs = server_context(*office.issue("127.0.0.1")), client_context(None, None, office.ca)

    async def story() -> None:
        door = RespServer(FakeNode())
        async with await door.serve("127.0.0.1", 0, ssl=ours) as server:
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


def test_a_bug_is_told_and_logged_and_leaves_the_connection_in_order(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        async with world() as at:
            client = await at.connect()
            at.node.outcomes.append(RuntimeError("a bug"))
            client.send("SET k v", "PING", "SET k w")
            await client.expect(b"-ERR internal error, outcome unknown\r\n+PONG\r\n")
            await until(lambda: len(at.node.writes) == 1)

    with caplog.at_level(logging.ERROR):
        run(story)
    assert "a bug" in caplog.text


def test_an_operation_that_answers_twice_is_heard_once() -> None:
    async def story() -> None:
        async with world() as at:
            client = await at.connect()
            client.send("SET k v", "PING")
            await until(lambda: len(at.node.writes) == 1)
            at.node.writes[0][1](committed(b"v"))
            at.node.writes[0][1](committed(b"v"))
            await client.expect(b"+OK\r\n+PONG\r\n")
            await client.says("PING", b"+PONG\r\n")

    run(story)


def test_unknown_commands_and_wrong_numbers_of_arguments() -> None:
    async def story() -> None:
        async with world() as at:
            client = await at.connect()
            await client.says("LPUSH l 1", b"-ERR unknown command 'LPUSH'\r\n")
            await client.says(b"\x00\xff x", b"-ERR unknown command '\\x00\\xff'\r\n")
            await client.says("GET", b"-ERR wrong number of arguments for 'get' command\r\n")
            await client.says("GET a b", b"-ERR wrong number of arguments for 'get' command\r\n")
            await client.says("MGET", b"-ERR wrong number of arguments for 'mget' command\r\n")
            await client.says("SET k", b"-ERR wrong number of arguments for 'set' command\r\n")

    run(story)


def test_the_door_speaks_tls() -> None:
    async def story() -> None:
        authority = trustme.CA()
        theirs, ours = tls.create_default_context(tls.Purpose.CLIENT_AUTH), tls.create_default_context()
        authority.issue_cert("localhost").configure_cert(theirs)
        authority.configure_trust(ours)
        door = RespServer(FakeNode())
        server = await door.serve("127.0.0.1", 0, ssl=theirs)
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


def test_a_world_is_a_world() -> None:
    """The fake holds outcomes back until the test gives them: without that the order tests would prove nothing."""

    async def story() -> None:
        async with world() as at:
            assert isinstance(at, World)
            client = await at.connect()
            client.send("SET k v")
            await until(lambda: len(at.node.writes) == 1)
            await turns(20)
            assert len(at.door.connections[1]._slots) == 1

    run(story)
