"""GETs that are answered by heart: never anything but what the long way would have said."""

import pytest

from epoxy.api.resp.limits import CACHED_GETS_BYTES, RespLimits
from epoxy.codec.resp import array, bulk
from epoxy.model.access import AccessRole
from epoxy.transport.http.response_cache import ANSWER_BYTES
from tests.api.resp.resp_world import (
    Rope,
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


def reserve(at: World, **names: bytes) -> None:
    for key, value in names.items():
        at.node.held[key.encode()] = proposal(value, mutable=False)


async def warm(at: World, client: Rope, **names: bytes) -> None:
    """Reserved, and asked for once."""
    reserve(at, **names)
    for key, value in names.items():
        await client.says(f"GET {key}", bulk(value))


def test_asked_for_once_a_reserved_name_is_known_by_heart() -> None:
    async def story() -> None:
        async with world() as at:
            client, other = await at.connect(), await at.connect()
            await warm(at, client, a=b"1")
            at.node.held.clear()
            assert at.door.newest_values.served == 0
            for each in (client, other):
                await each.says("GET a", bulk(b"1"))
            await other.says("get a", bulk(b"1"))
            assert at.door.newest_values.served == 3

    run(story)


def test_a_mutable_key_is_known_by_heart_until_it_changes() -> None:
    async def story() -> None:
        async with world() as at:
            client = await at.connect()
            for value in (b"1", b"2", b"3"):
                at.node.held[b"k"] = proposal(value)
                at.node.overwritten(b"k")
                for _ in range(3):
                    await client.says("GET k", bulk(value))
            assert at.door.newest_values.served == 6

    run(story)


def test_a_mutable_key_that_is_about_to_change_is_looked_up_each_time() -> None:
    async def story() -> None:
        async with world() as at:
            client = await at.connect()
            at.node.changing.add(b"k")
            for value in (b"1", b"2", b"3"):
                at.node.held[b"k"] = proposal(value)
                await client.says("GET k", bulk(value))
            assert (len(at.door.newest_values), at.door.newest_values.served) == (0, 0)

    run(story)


def test_a_consistent_session_does_not_hear_what_others_know_by_heart() -> None:
    async def story() -> None:
        async with world() as at:
            client, careful = await at.connect(), await at.connect()
            at.node.held[b"k"] = proposal(b"1")
            await client.says("GET k", bulk(b"1"))
            await careful.says("READCONSISTENT", b"+OK\r\n")
            careful.send("GET k")
            await until(lambda: bool(at.node.reads))
            at.node.reads.popleft()[2](found(b"2"))
            await careful.expect(bulk(b"2"))
            await careful.says("READOPTIMISTIC", b"+OK\r\n")
            await careful.says("GET k", bulk(b"1"))

    run(story)


def test_a_tombstone_and_an_absence_are_not_kept() -> None:
    async def story() -> None:
        async with world() as at:
            client = await at.connect()
            at.node.held[b"k"] = proposal(None)
            client.send("GET k", "GET nothing")
            await until(lambda: bool(at.node.reads))
            at.node.reads.popleft()[2](found(None))
            await client.expect(b"$-1\r\n$-1\r\n")
            assert len(at.door.newest_values) == 0

    run(story)


def test_a_pipeline_by_heart_and_one_with_something_else_in_it() -> None:
    async def story() -> None:
        async with world() as at:
            client = await at.connect()
            await warm(at, client, a=b"1", b=b"22")
            client.send("GET a", "GET b", "GET a")
            await client.expect(bulk(b"1") + bulk(b"22") + bulk(b"1"))
            assert at.door.newest_values.served == 3
            reserve(at, c=b"333")
            client.send("GET a", "GET c", "PING", "GET b")
            await client.expect(bulk(b"1") + bulk(b"333") + b"+PONG\r\n" + bulk(b"22"))

    run(story)


def test_cut_anywhere_the_answers_are_the_same() -> None:
    async def story() -> None:
        async with world() as at:
            client = await at.connect()
            await warm(at, client, a=b"1", b=b"22")
            stream = packed("GET a") + packed("GET b") + packed("GET a")
            for cut in range(1, len(stream)):
                client.raw(stream[:cut])
                await turns(2)
                client.raw(stream[cut:])
                await client.expect(bulk(b"1") + bulk(b"22") + bulk(b"1"))

    run(story)


def test_keys_that_look_like_commands() -> None:
    inner = packed("GET a")
    hostile = (inner, b"x" + inner, inner + inner, b"*2\r\n$3\r\nGET\r\n", b"$1\r\na\r\n", b"\r\n", b"a\r\n")

    async def story() -> None:
        async with world() as at:
            client = await at.connect()
            await warm(at, client, a=b"1")
            for number, key in enumerate(hostile):
                at.node.held[key] = proposal(b"%d" % number, mutable=False)
            for _ in range(3):
                for number, key in enumerate(hostile):
                    client.raw(array([bulk(b"GET"), bulk(key)]) + packed("GET a"))
                    await client.expect(bulk(b"%d" % number) + bulk(b"1"))

    run(story)


@pytest.mark.parametrize("key", [b"$01\r\na\r\n", b"$+1\r\na\r\n", b"$1\r\na\r\r", b"$2\r\na\r\n", b"$1\na\r\n"])
def test_another_spelling_goes_the_long_way(key: bytes) -> None:
    """Where it is read, or refused, as ever."""

    async def said(*, by_heart: bool) -> bytes:
        async with world() as at:
            client = await at.connect()
            reserve(at, a=b"1")
            if by_heart:
                await client.says("GET a", bulk(b"1"))
            client.raw(b"*2\r\n$3\r\nGET\r\n" + key + packed("QUIT"))
            client.writer.write_eof()
            return await client.rest()

    async def story() -> None:
        assert await said(by_heart=True) == await said(by_heart=False)

    run(story)


def test_behind_a_write_a_known_answer_waits_its_turn() -> None:
    async def story() -> None:
        async with world() as at:
            client = await at.connect()
            await warm(at, client, a=b"1")
            client.send("SET k 1")
            await until(lambda: bool(at.node.writes))
            client.send("GET a", "GET a")
            await turns(20)
            assert at.door.newest_values.served == 0
            at.node.writes.popleft()[1](committed(b"1"))
            await client.expect(b"+OK\r\n" + bulk(b"1") + bulk(b"1"))

    run(story)


def test_a_client_without_a_token_gets_no_cached_value() -> None:
    async def story() -> None:
        async with world(grants=[granted("ci", AccessRole.READER)]) as at:
            friend, stranger = await at.connect(), await at.connect()
            await friend.says(f"AUTH {token_for('ci')}", b"+OK\r\n")
            await warm(at, friend, a=b"1")
            await stranger.says("GET a", b"-NOAUTH Authentication required.\r\n")

    run(story)


def test_inside_a_transaction_nothing_is_recited() -> None:
    async def story() -> None:
        async with world() as at:
            client = await at.connect()
            await warm(at, client, a=b"1")
            await client.says("MULTI", b"+OK\r\n")
            await client.says("GET a", b"+QUEUED\r\n")
            await client.says("DISCARD", b"+OK\r\n")
            await client.says("GET a", bulk(b"1"))

    run(story)


def test_a_consistent_connection_is_told_the_same() -> None:
    async def story() -> None:
        async with world() as at:
            client = await at.connect()
            await client.says("READCONSISTENT", b"+OK\r\n")
            await warm(at, client, a=b"1")
            await client.says("GET a", bulk(b"1"))
            assert (at.door.immutable_values.served, at.node.asked) == (1, 0)

    run(story)


def test_a_client_that_takes_no_answers_is_not_read_any_more() -> None:
    """More is asked for than any socket takes: what is recited is held in memory, so it must end."""
    value = bytes(ANSWER_BYTES - 16)
    piece = packed("GET a") * (CACHED_GETS_BYTES // len(packed("GET a")))

    async def story() -> None:
        async with world(RespLimits(held_bytes=1 << 20)) as at:
            client, other = await at.connect(), await at.connect()
            await warm(at, client, a=value)
            client.writer.transport.set_write_buffer_limits(high=1 << 30)
            for _ in range(64):
                client.raw(piece)
            connection = at.door.connections[min(at.door.connections)]
            await until(lambda: connection._paused)
            served = at.door.newest_values.served
            await turns(100)
            assert at.door.newest_values.served == served < 64 * len(piece) // len(packed("GET a"))
            await other.says("PING", b"+PONG\r\n")

    run(story)


def test_they_are_counted() -> None:
    async def story() -> None:
        async with world() as at:
            client = await at.connect()
            await warm(at, client, a=b"1")
            client.send("GET a", "GET a", "PING", "NONSENSE", "GET")
            await client.expect(bulk(b"1") * 2 + b"+PONG\r\n")
            client.send("GET a")
            await client.line()
            await client.line()
            assert at.door.requests()["resp_ping", "ok"] == 1
            await until(lambda: at.door.requests()["resp_get", "ok"] == 4)
            assert at.door.requests()["resp_unknown", "invalid"] == 1
            assert at.door.requests()["resp_get", "invalid"] == 1

    run(story)
