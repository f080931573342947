"""The connection: replies in order, one key at a time, and limits that only ever hurt whoever exceeds them."""

import logging

import pytest

from epoxy.api.resp.limits import LONG_CHUNK_BYTES, RespLimits
from epoxy.codec import resp
from epoxy.model.access import AccessRole
from epoxy.model.errors import StoreUnavailable
from epoxy.model.records import MAX_VALUE_BYTES
from tests.api.resp.resp_world import (
    FakeNode,
    World,
    committed,
    found,
    granted,
    packed,
    proposal,
    run,
    token_for,
    turns,
    until,
    world,
)

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
        (b"GET / HTTP/1.1\r\n", "no HTTP"),
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
        async with world(grants=[granted("ci", AccessRole.WRITER)]) as at:
            client = await at.connect()
            client.raw(resp.array([resp.bulk(b"SET"), resp.bulk(b"k"), resp.bulk(bytes(20_000))]))
            assert b"Protocol error: an argument of 20000 bytes" in await client.rest()

    run(story)


def test_probes_speak_in_lines() -> None:
    async def story() -> None:
        async with world(grants=[granted("ci", AccessRole.WRITER)]) as at:
            client = await at.connect()
            client.raw(b"PING\r\n")
            await client.expect(b"-NOAUTH Authentication required.\r\n")
            client.raw(f"AUTH {token_for('ci')}\r\nPING\r\nQUIT\r\n".encode())
            assert await client.rest() == b"+OK\r\n+PONG\r\n+OK\r\n"

    run(story)


def test_what_came_before_garbage_is_answered_first() -> None:
    async def story() -> None:
        async with world() as at:
            client = await at.connect()
            client.raw(packed("SET k v") + packed("GET k") + b"%garbage")
            await until(lambda: len(at.node.writes) == 1)
            at.node.held[b"k"] = proposal(b"v")
            at.node.writes[0][1](committed(b"v"))
            assert (await client.rest()).startswith(b"+OK\r\n$1\r\nv\r\n-ERR Protocol error")

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


def test_a_database_that_is_away_is_no_bug(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page of keys is read from it at once. What a write has done by then is not known."""

    def away(*_: object) -> None:
        raise StoreUnavailable("the database does not answer")

    async def story() -> None:
        async with world() as at:
            client = await at.connect()
            monkeypatch.setattr(at.node, "page", away)
            at.node.outcomes.append(StoreUnavailable("the database does not answer"))
            client.send("SCAN 0", "SET k v", "PING")
            unknown = b"-INDEFINITE the database does not answer\r\n"
            await client.expect(b"-UNAVAILABLE the database does not answer\r\n" + unknown + b"+PONG\r\n")

    with caplog.at_level(logging.ERROR):
        run(story)
    assert caplog.text == ""


def test_a_bug_is_told_and_logged_and_leaves_the_connection_in_order(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        async with world() as at:
            client = await at.connect()
            at.node.outcomes.append(RuntimeError("a bug"))
            client.send("SET k v", "PING", "SET k w")
            await client.expect(b"-INDEFINITE internal error, outcome unknown\r\n+PONG\r\n")
            await until(lambda: len(at.node.writes) == 1)

    with caplog.at_level(logging.ERROR):
        run(story)
    assert "a bug" in caplog.text


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
