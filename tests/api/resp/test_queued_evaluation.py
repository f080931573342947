"""Commands on several keys that are evaluated at the node: in MULTI, and RENAME, COPY and BITOP."""

import pytest
import redis
import redis.asyncio
from redis.exceptions import ResponseError

from epoxy.codec.resp import array, integer
from epoxy.model.records import Expiry
from epoxy.model.transactions import Compare, Delete, Executed, OrderedValue, Put, Txn, TxnUnknown
from tests.api.resp.resp_world import Cluster, found, proposal, run, until, world
from tests.api.resp.test_clients import PROTOCOLS, at_every_door


@PROTOCOLS
def test_a_pipeline_of_several_keys(protocol: int) -> None:
    async def story(_built: Cluster, clients: list[redis.asyncio.Redis]) -> None:
        here, there, _ = clients
        await here.set("a", "x", ex=1000)
        pipeline = here.pipeline()
        pipeline.append("a", "y")
        pipeline.set("b", 5, ex=100)
        pipeline.set("c", 5, nx=True)
        pipeline.incrbyfloat("b", 0.5)
        pipeline.ttl("b")
        pipeline.expire("c", 50)
        pipeline.eval("return redis.call('get', KEYS[1])", 1, "a")
        assert await pipeline.execute() == [2, True, True, 5.5, 100, True, b"xy"]
        assert 990 < await here.ttl("a") <= 1000
        assert 90 < await here.ttl("b") <= 100
        assert 40 < await here.ttl("c") <= 50
        await there.execute_command("READCONSISTENT")  # type: ignore[no-untyped-call]
        assert await there.mget("a", "b", "c") == [b"xy", b"5.5", b"5"]

    at_every_door(story, protocol)


@PROTOCOLS
def test_values_go_from_key_to_key(protocol: int) -> None:
    async def story(_built: Cluster, clients: list[redis.asyncio.Redis]) -> None:
        here = clients[0]
        await here.set("a", "v", ex=1000)
        assert await here.rename("a", "b") is True
        assert await here.get("a") is None
        assert 990 < await here.ttl("b") <= 1000
        assert await here.copy("b", "c") is True
        assert await here.copy("b", "c") is False
        assert await here.copy("b", "c", replace=True) is True
        assert await here.renamenx("b", "c") is False
        assert await here.bitop("NOT", "d", "c") == 1
        assert await here.get("d") == bytes([255 - ord("v")])
        with pytest.raises(ResponseError, match="no such key"):
            await here.rename("gone", "b")

    at_every_door(story, protocol)


def test_results_are_written_on_condition_that_the_versions_are_the_same() -> None:
    async def story() -> None:
        async with world() as at:
            at.node.held = {b"a": proposal(b"x", version=3), b"b": proposal(b"1", version=4), b"c": proposal(b"z")}
            at.node.left[b"b"] = 500
            client = await at.connect()
            client.send("MULTI", "APPEND a y", "INCR b", "DEL c", "PEXPIRE a 70", "EXEC")
            await client.expect(b"+OK\r\n" + b"+QUEUED\r\n" * 4)
            await until(lambda: bool(at.node.txns))
            txn, answered = at.node.txns.popleft()
            assert txn == Txn(
                compares=(
                    Compare(key=b"a", version=3),
                    Compare(key=b"b", version=4),
                    Compare(key=b"c", version=1),
                ),
                then=(
                    Put(key=b"a", value=b"xy", ttl_ms=70),
                    Put(key=b"b", value=b"2", keep_expiry=True),
                    Delete(key=b"c"),
                ),
            )
            rows = (
                OrderedValue(value=b"x", version=3),
                OrderedValue(value=b"41", version=5, expiry=Expiry(ttl_ms=900, since=5)),
                OrderedValue(value=None, version=2),
            )
            answered(Executed(succeeded=False, compared=rows))
            await until(lambda: bool(at.node.txns))
            txn, answered = at.node.txns.popleft()
            assert [compare.version for compare in txn.compares] == [3, 5, 2]
            assert txn.then == (
                Put(key=b"a", value=b"xy", ttl_ms=70),
                Put(key=b"b", value=b"42", keep_expiry=True),
            )
            answered(Executed(succeeded=True))
            await client.expect(array([integer(2), integer(42), integer(0), integer(1)]))

    run(story)


def test_a_watched_key_that_changed_ends_it_and_another_does_not() -> None:
    async def story() -> None:
        async with world() as at:
            at.node.held = {b"a": proposal(b"1", version=3), b"b": proposal(b"1", version=4)}
            client = await at.connect()
            client.send("WATCH a", "MULTI", "APPEND b y", "EXEC")
            await client.expect(b"+OK\r\n+OK\r\n+QUEUED\r\n")
            a, b = OrderedValue(value=b"1", version=3), OrderedValue(value=b"2", version=5)
            await until(lambda: bool(at.node.txns))
            at.node.txns.popleft()[1](Executed(succeeded=False, compared=(a, b)))
            await until(lambda: bool(at.node.txns))
            newer = OrderedValue(value=b"1", version=4)
            at.node.txns.popleft()[1](Executed(succeeded=False, compared=(newer, b)))
            await client.expect(b"*-1\r\n")
            assert not at.node.txns

    run(story)


def test_keys_that_are_not_held_here_are_read_first_and_an_unknown_outcome_is_told() -> None:
    async def story() -> None:
        async with world() as at:
            client = await at.connect()
            client.send("RENAME a b", "PING")
            await until(lambda: len(at.node.reads) == 2)
            at.node.reads.popleft()[2](found(b"v"))
            at.node.reads.popleft()[2](found(None))
            await until(lambda: bool(at.node.txns))
            txn, answered = at.node.txns.popleft()
            assert txn.compares == (Compare(key=b"a", version=1), Compare(key=b"b", version=0))
            assert txn.then == (Delete(key=b"a"), Put(key=b"b", value=b"v"))
            answered(TxnUnknown(reason="late"))
            assert (await client.line()).startswith("-INDEFINITE")
            await client.expect(b"+PONG\r\n")

    run(story)


def test_a_reserved_name_is_read_and_not_written() -> None:
    async def story() -> None:
        async with world() as at:
            at.node.held = {b"a": proposal(b"1", mutable=False), b"b": proposal(b"1", version=4)}
            client = await at.connect()
            client.send("MULTI", "APPEND b y", "GETRANGE a 0 1", "EXEC", "MULTI", "APPEND a y", "APPEND b y", "EXEC")
            await client.expect(b"+OK\r\n+QUEUED\r\n+QUEUED\r\n")
            await until(lambda: bool(at.node.txns))
            txn, answered = at.node.txns.popleft()
            assert txn.compares == (Compare(key=b"b", version=4),)
            answered(Executed(succeeded=True))
            await client.expect(array([integer(2), b"$1\r\n1\r\n"]) + b"+OK\r\n+QUEUED\r\n+QUEUED\r\n")
            assert (await client.line()).startswith("-IMMUTABLE 'a'")
            at.node.held[b"c"] = proposal(b"2", mutable=False)
            client.send("MULTI", "GETRANGE a 0 1", "GETRANGE c 0 1", "EXEC")
            await client.expect(b"+OK\r\n+QUEUED\r\n+QUEUED\r\n" + array([b"$1\r\n1\r\n", b"$1\r\n2\r\n"]))
            assert not at.node.txns

    run(story)
