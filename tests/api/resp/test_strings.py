"""String commands at a door: with a real client on a cluster, and what they ask of a node."""

import asyncio

import pytest
import redis.asyncio
from msgspec.structs import replace
from redis.exceptions import ResponseError

from epoxy.api.resp.strings import encoded
from epoxy.codec.resp import integer
from epoxy.model.strings import Fault, Reply, SimpleString, Steps
from epoxy.model.writes import Path, Unchanged
from tests.api.resp.resp_world import Cluster, FakeNode, committed, proposal, run, until, world
from tests.api.resp.test_clients import PROTOCOLS, at_every_door


@PROTOCOLS
def test_values_and_their_times_to_live(protocol: int) -> None:
    async def story(_built: Cluster, clients: list[redis.asyncio.Redis]) -> None:
        here, there, _ = clients
        await here.set("k", "v")
        assert await here.append("k", "alue") == 5
        assert await there.getrange("k", 1, 3) == b"alu"
        assert await there.setrange("k", 1, "A") == 5
        assert await here.expire("k", 100) is True
        assert 90 < await here.ttl("k") <= 100
        assert await here.expire("k", 50, gt=True) is False
        assert await here.expire("k", 500, gt=True) is True
        assert 490_000 < await here.pttl("k") <= 500_000
        assert await here.getex("k", persist=True) == b"vAlue"
        assert await here.ttl("k") == -1
        assert await here.persist("k") is False
        assert await here.incrbyfloat("f", 10.5) == 10.5
        assert await there.setbit("b", 9, 1) == 0
        assert await here.bitcount("b") == 1
        assert await here.bitpos("b", 1) == 9
        assert await there.getbit("b", 9) == 1
        assert await here.pexpireat("k", 1) is True
        assert await here.get("k") is None
        assert await here.ttl("k") == -2

    at_every_door(story, protocol)


@PROTOCOLS
def test_conditions(protocol: int) -> None:
    async def story(_built: Cluster, clients: list[redis.asyncio.Redis]) -> None:
        here, there, _ = clients
        assert await here.set("k", "v", xx=True) is None
        assert await here.set("k", "v") is True
        assert await there.set("k", "w", xx=True, get=True) == b"v"
        assert await here.execute_command("SET", "k", "x", "IFEQ", "v") is None  # type: ignore[no-untyped-call]
        assert await here.execute_command("DELEX", "k", "IFEQ", "v") == 0  # type: ignore[no-untyped-call]
        assert await there.execute_command("DELEX", "k", "IFEQ", "w") == 1  # type: ignore[no-untyped-call]
        assert await here.exists("k") == 0

    at_every_door(story, protocol)


@PROTOCOLS
def test_errors_are_those_of_redis(protocol: int) -> None:
    async def story(_built: Cluster, clients: list[redis.asyncio.Redis]) -> None:
        here = clients[0]
        await here.set("k", "word")
        with pytest.raises(ResponseError, match="value is not a valid float"):
            await here.incrbyfloat("k", 1)
        with pytest.raises(ResponseError, match="offset is out of range"):
            await here.setrange("k", -1, "x")
        with pytest.raises(ResponseError, match="wrong number of arguments for 'append' command"):
            await here.execute_command("APPEND", "k")  # type: ignore[no-untyped-call]
        with pytest.raises(ResponseError, match="syntax error"):
            await here.execute_command("GETEX", "k", "KEEPTTL")  # type: ignore[no-untyped-call]
        await here.execute_command("RESERVE", "name", "v")  # type: ignore[no-untyped-call]
        with pytest.raises(ResponseError, match="IMMUTABLE"):
            await here.append("name", "x")

    at_every_door(story, protocol)


def test_appends_from_everywhere_are_all_there() -> None:
    async def story(_built: Cluster, clients: list[redis.asyncio.Redis]) -> None:
        await asyncio.gather(*[client.append("log", "x") for client in clients for _ in range(10)])
        await clients[0].execute_command("READCONSISTENT")  # type: ignore[no-untyped-call]
        assert await clients[0].strlen("log") == 30

    at_every_door(story, 3)


def steps_of(node: FakeNode) -> Steps:
    steps = node.writes[0][0].steps
    assert steps is not None
    return steps


def test_a_command_that_writes_is_a_write_with_one_step() -> None:
    async def story() -> None:
        async with world() as at:
            client = await at.connect()
            client.send("APPEND k x")
            await until(lambda: bool(at.node.writes))
            assert steps_of(at.node).commands == ((b"APPEND", b"k", b"x"),)
            assert steps_of(at.node).now_ms > 0
            at.node.writes.popleft()[1](replace(committed(b"abx"), replies=(3,)))
            await client.expect(integer(3))
            at.node.outcomes.append(Unchanged(committed=None, path=Path.SLOW, replies=(0,)))
            await client.says("PERSIST k", integer(0))

    run(story)


def test_a_command_that_reads_is_answered_from_what_is_held() -> None:
    async def story() -> None:
        async with world() as at:
            at.node.held[b"k"] = proposal(b"value")
            at.node.left[b"k"] = 1500
            client = await at.connect()
            await client.says("GETRANGE k 1 2", b"$2\r\nal\r\n")
            await client.says("PTTL k", integer(1500))
            await client.says("TTL k", integer(2))
            await client.says("BITCOUNT k", integer(sum(map(int.bit_count, b"value"))))
            await client.says("GETEX k", b"$5\r\nvalue\r\n")
            assert at.node.asked == 0

    run(story)


@pytest.mark.parametrize(
    ("reply", "two", "three"),
    [
        (None, b"$-1\r\n", b"_\r\n"),
        (5, b":5\r\n", b":5\r\n"),
        (b"x", b"$1\r\nx\r\n", b"$1\r\nx\r\n"),
        (SimpleString("OK"), b"+OK\r\n", b"+OK\r\n"),
        (Fault("ERR no"), b"-ERR no\r\n", b"-ERR no\r\n"),
        ((1, (None,)), b"*2\r\n:1\r\n*1\r\n$-1\r\n", b"*2\r\n:1\r\n*1\r\n_\r\n"),
    ],
)
def test_replies_in_both_protocols(reply: Reply, two: bytes, three: bytes) -> None:
    assert (encoded(reply, 2), encoded(reply, 3)) == (two, three)
