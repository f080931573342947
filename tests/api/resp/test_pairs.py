"""MSET and MSETNX."""

import redis.asyncio

from epoxy.codec.resp import integer
from epoxy.model.transactions import Compare, Executed, Put, Txn, TxnUnknown
from epoxy.model.writes import ConsensusFailed, Refused, Write
from tests.api.resp.resp_world import Cluster, committed, run, until, world
from tests.api.resp.test_clients import PROTOCOLS, at_every_door


@PROTOCOLS
def test_several_keys_are_written_at_once(protocol: int) -> None:
    async def story(_built: Cluster, clients: list[redis.asyncio.Redis]) -> None:
        here, there, _ = clients
        assert await here.mset({"a": "1", "b": "2"}) is True
        assert await there.mget("a", "b") == [b"1", b"2"]
        assert await there.msetnx({"c": "1", "d": "2"}) is True
        assert await there.msetnx({"c": "3", "e": "2"}) is False
        assert await here.mget("c", "d", "e") == [b"1", b"2", None]

    at_every_door(story, protocol)


def test_each_key_of_mset_is_a_write_and_the_worst_outcome_is_told() -> None:
    async def story() -> None:
        async with world() as at:
            client = await at.connect()
            client.send("MSET a 1 b 2 a 3")
            await until(lambda: len(at.node.writes) == 2)
            assert [write for write, _ in at.node.writes] == [
                Write(key=b"a", value=b"3", mutable=True),
                Write(key=b"b", value=b"2", mutable=True),
            ]
            at.node.writes.popleft()[1](committed(b"3"))
            at.node.writes.popleft()[1](Refused(reason="full"))
            assert await client.line() == "-BUSY nothing was written to 'b': full; 1 of 2 keys were written"
            at.node.outcomes.extend((Refused(reason="full"), ConsensusFailed(reason="late")))
            client.send("MSET a 1 b 2")
            assert (await client.line()).startswith("-INDEFINITE no decision about 'b'")
            client.send("MSET a 1 b")
            assert await client.line() == "-ERR wrong number of arguments for 'mset' command"

    run(story)


def test_msetnx_is_one_transaction() -> None:
    async def story() -> None:
        async with world() as at:
            client = await at.connect()
            client.send("MSETNX a 1 b 2")
            await until(lambda: bool(at.node.txns))
            txn, answered = at.node.txns.popleft()
            assert txn == Txn(
                compares=(Compare(key=b"a", absent=True), Compare(key=b"b", absent=True)),
                then=(Put(key=b"a", value=b"1"), Put(key=b"b", value=b"2")),
            )
            answered(Executed(succeeded=False))
            await client.expect(integer(0))
            client.send("MSETNX a 1 b 2")
            await until(lambda: bool(at.node.txns))
            at.node.txns.popleft()[1](TxnUnknown(reason="late"))
            assert (await client.line()).startswith("-INDEFINITE")

    run(story)
