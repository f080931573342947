"""MULTI of commands that name one key."""

import pytest
import redis
import redis.asyncio

from epoxy.codec.resp import array, bulk, integer
from epoxy.model.strings import Fault, SimpleString
from epoxy.model.writes import ConsensusFailed, ImmutableKey, Outcome, Path, Unchanged, VersionMismatch
from tests.api.resp.resp_world import Cluster, proposal, run, until, world
from tests.api.resp.test_clients import PROTOCOLS, at_every_door

QUEUED = b"+OK\r\n+QUEUED\r\n"


@PROTOCOLS
def test_a_pipeline_of_a_key_that_was_set_before(protocol: int) -> None:
    async def story(_built: Cluster, clients: list[redis.asyncio.Redis]) -> None:
        here, there, _ = clients
        await here.set("n", 5)
        pipeline = here.pipeline()
        pipeline.incr("n")
        pipeline.expire("n", 100)
        pipeline.ttl("n")
        pipeline.append("n", "0")
        pipeline.eval("return redis.call('incr', KEYS[1])", 1, "n")
        pipeline.set("n", "x", nx=True)
        assert await pipeline.execute() == [6, True, 100, 2, 61, None]
        await there.set("n", "again")
        assert await there.get("n") == b"again"

    at_every_door(story, protocol)


@PROTOCOLS
def test_a_watched_key_that_changed(protocol: int) -> None:
    async def story(_built: Cluster, clients: list[redis.asyncio.Redis]) -> None:
        here, there, _ = clients
        await here.set("n", 5)
        async with here.pipeline() as watching:
            await watching.watch("n")
            assert await watching.get("n") == b"5"
            watching.multi()  # type: ignore[no-untyped-call]
            watching.set("n", 6)
            assert await watching.execute() == [True]
            await watching.watch("n")
            await there.set("n", 7)
            await there.set("n", 6)
            watching.multi()  # type: ignore[no-untyped-call]
            watching.set("n", 8)
            with pytest.raises(redis.WatchError):
                await watching.execute()
        assert await there.get("n") == b"6"

    at_every_door(story, protocol)


def test_what_is_queued_becomes_the_steps_of_one_write() -> None:
    async def story() -> None:
        async with world() as at:
            client = await at.connect()
            client.send("MULTI", "GET a", "PING", "APPEND a x", "GET a y", "EXEC")
            await client.expect(b"+OK\r\n" + b"+QUEUED\r\n" * 3)
            assert (await client.line()).startswith("-ERR wrong number")
            assert (await client.line()).startswith("-EXECABORT")
            client.send("MULTI", "GET a", "PING", "APPEND a x", "INCRBY a y", "EXEC", "GET b")
            await client.expect(b"+OK\r\n" + b"+QUEUED\r\n" * 4)
            await until(lambda: bool(at.node.writes))
            write, answered = at.node.writes.popleft()
            assert (write.key, write.if_version, write.mutable) == (b"a", None, True)
            assert write.steps is not None
            commands = ((b"GET", b"a"), (b"PING",), (b"APPEND", b"a", b"x"), (b"INCRBY", b"a", b"y"))
            assert write.steps.commands == commands
            assert not at.node.reads, "nothing begins before EXEC is answered"
            replies = (None, SimpleString("PONG"), 1, Fault("ERR no"))
            answered(Unchanged(committed=None, path=Path.SLOW, replies=replies))
            await client.expect(array([b"$-1\r\n", b"+PONG\r\n", integer(1), b"-ERR no\r\n"]))
            await until(lambda: bool(at.node.reads))

    run(story)


@pytest.mark.parametrize(
    ("outcome", "reply"),
    [
        (VersionMismatch(committed=None, path=Path.SLOW), "*-1"),
        (ConsensusFailed(reason="late"), "-INDEFINITE no decision about 'a', outcome unknown: late"),
        (
            ImmutableKey(committed=proposal(b"v", mutable=False), path=Path.LOCAL),
            "-IMMUTABLE 'a' is reserved for ever and cannot be overwritten or deleted",
        ),
    ],
)
def test_what_is_watched_is_compared_by_its_version(outcome: Outcome, reply: str) -> None:
    async def story() -> None:
        async with world() as at:
            at.node.held[b"a"] = proposal(b"v", version=7)
            client = await at.connect()
            client.send("WATCH a", "MULTI", "SET a w", "EXEC")
            await client.expect(b"+OK\r\n" + QUEUED)
            await until(lambda: bool(at.node.writes))
            write, answered = at.node.writes.popleft()
            assert write.if_version == 7
            answered(outcome)
            assert await client.line() == reply
            client.send("MULTI", "SET a w", "EXEC")
            await client.expect(QUEUED)
            await until(lambda: bool(at.node.writes))
            assert at.node.writes[0][0].if_version is None, "EXEC ends the watch"

    run(story)


def test_commands_without_a_key_ask_for_nothing() -> None:
    async def story() -> None:
        async with world() as at:
            client = await at.connect()
            client.send("MULTI", "PING", "ECHO a", "EVAL return(7) 0", "EXEC")
            await client.expect(b"+OK\r\n" + b"+QUEUED\r\n" * 3 + array([b"+PONG\r\n", bulk(b"a"), integer(7)]))
            assert at.node.asked == 0

    run(story)


def test_a_key_that_belongs_to_transactions() -> None:
    async def story(_built: Cluster, clients: list[redis.asyncio.Redis]) -> None:
        here, there, _ = clients
        both = here.pipeline()
        both.set("a", 1)
        both.set("b", 1)
        assert await both.execute() == [True, True]
        one = there.pipeline()
        one.append("a", "0")
        one.incr("a")
        one.expire("a", 100)
        assert await one.execute() == [2, 11, True]
        assert await there.ttl("a") == 100
        assert await there.eval("return redis.call('get', KEYS[1])", 1, "a") == b"11"

    at_every_door(story, 3)
