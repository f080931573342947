"""MULTI, EXEC, DISCARD and WATCH, with the exact bytes, and on a cluster."""

import asyncio

import pytest

from epoxy.codec.resp import array, bulk, integer
from epoxy.model.transactions import (
    Add,
    Compare,
    Delete,
    Done,
    Executed,
    Get,
    Put,
    Txn,
    TxnOutcome,
    TxnRefused,
    TxnUnknown,
    Wrong,
    WrongEngine,
)
from tests.server.resp_world import Rope, World, cluster, run, until, world


def executed(*done: Done, succeeded: bool = True) -> Executed:
    return Executed(succeeded=succeeded, seen=(), done=done, found=())


def asked(at: World) -> Txn:
    return at.node.txns[0][0]


def answer(at: World, outcome: TxnOutcome) -> None:
    at.node.txns.popleft()[1](outcome)


def test_what_is_queued_becomes_one_transaction() -> None:
    async def story() -> None:
        async with world() as at:
            client = await at.connect()
            client.send("MULTI", "SET a 1", "INCRBY b 5", "DECR c", "DEL d e", "GET a", "MGET a b", "PING", "EXEC")
            await client.expect(b"+OK\r\n" + b"+QUEUED\r\n" * 7)
            await until(lambda: bool(at.node.txns))
            assert asked(at) == Txn(
                then=(
                    Put(key=b"a", value=b"1"),
                    Add(key=b"b", amount=5),
                    Add(key=b"c", amount=1, negative=True),
                    Delete(key=b"d"),
                    Delete(key=b"e"),
                    Get(key=b"a"),
                    Get(key=b"a"),
                    Get(key=b"b"),
                )
            )
            values = [None, b"12", b"-1", b"old", None, b"1", b"1", b"12"]
            answer(at, executed(*(Done(value=value) for value in values)))
            pieces = [b"+OK\r\n", integer(12), integer(-1), integer(1), bulk(b"1"), array([bulk(b"1"), bulk(b"12")])]
            await client.expect(array([*pieces, b"+PONG\r\n"]))

    run(story)


def test_an_operation_that_went_wrong_is_told_in_its_place() -> None:
    async def story() -> None:
        async with world() as at:
            client = await at.connect()
            client.send("MULTI", "INCR a", "EXEC")
            await client.expect(b"+OK\r\n+QUEUED\r\n")
            await until(lambda: bool(at.node.txns))
            answer(at, executed(Done(value=b"x", wrong=Wrong.NOT_A_NUMBER)))
            await client.expect(array([b"-ERR value is not an integer or out of range\r\n"]))

    run(story)


def test_what_is_watched_is_compared_and_read_as_it_was() -> None:
    async def story() -> None:
        async with world() as at:
            client = await at.connect()
            await client.says("WATCH a", b"+OK\r\n")
            await client.says("GET a", b"$-1\r\n")
            client.send("MULTI", "SET a 2", "EXEC")
            await client.expect(b"+OK\r\n+QUEUED\r\n")
            await until(lambda: bool(at.node.txns))
            assert asked(at).compares == (Compare(key=b"a", absent=True),)
            answer(at, executed(succeeded=False))
            await client.expect(b"*-1\r\n")
            client.send("MULTI", "SET a 2", "EXEC")
            await client.expect(b"+OK\r\n+QUEUED\r\n")
            await until(lambda: bool(at.node.txns))
            assert asked(at).compares == (), "EXEC ends the watch"

    run(story)


def test_what_cannot_be_queued_spoils_the_whole() -> None:
    async def story() -> None:
        async with world() as at:
            client = await at.connect()
            for spoiler in ("SETNX a 1", "SET a 1 NX", "SCAN 0", "NONSENSE", "GET", "SET a 1 EX 5"):
                client.send("MULTI", "SET a 1", spoiler)
                await client.expect(b"+OK\r\n+QUEUED\r\n")
                assert (await client.line()).startswith("-ERR ")
                await client.says("EXEC", b"-EXECABORT Transaction discarded because of previous errors.\r\n")
            assert at.node.asked == 0

    run(story)


@pytest.mark.parametrize(
    ("told", "words"),
    [
        (TxnUnknown(reason="late"), "-TRYAGAIN no decision about the transaction, outcome unknown: late"),
        (TxnRefused(reason="full"), "-BUSY nothing was done: full"),
        (WrongEngine(keys=(b"a",)), "-WRONGENGINE nothing was done: outside transactions, and so never in one, is 'a'"),
    ],
)
def test_failures_say_whether_something_may_have_happened(told: TxnOutcome, words: str) -> None:
    async def story() -> None:
        async with world() as at:
            client = await at.connect()
            client.send("MULTI", "SET a 1", "EXEC")
            await client.expect(b"+OK\r\n+QUEUED\r\n")
            await until(lambda: bool(at.node.txns))
            answer(at, told)
            assert await client.line() == words

    run(story)


def test_states_of_a_session() -> None:
    async def story() -> None:
        async with world() as at:
            client = await at.connect()
            client.send("MULTI", "MULTI")
            await client.expect(b"+OK\r\n-ERR MULTI calls can not be nested\r\n")
            await client.says("WATCH a", b"-ERR WATCH inside MULTI is not allowed\r\n")
            await client.says("DISCARD", b"+OK\r\n")
            client.send("MULTI", "PING", "EXEC")
            await client.expect(b"+OK\r\n+QUEUED\r\n" + array([b"+PONG\r\n"]))
            client.send("MULTI", "SET a 1", "RESET")
            await client.expect(b"+OK\r\n+QUEUED\r\n+RESET\r\n")
            await client.says("EXEC", b"-ERR EXEC without MULTI\r\n")
            assert at.node.asked == 0

    run(story)


def test_on_a_cluster() -> None:
    """Transfers, a watch that fails, and a key that belongs to the other engine."""

    async def story() -> None:
        async with cluster(3) as (_, ports):
            ropes = [Rope(*await asyncio.open_connection("127.0.0.1", port)) for port in ports[:2]]
            one, other = ropes
            one.send("MULTI", "SET a 10", "SET b 0", "EXEC")
            await one.expect(b"+OK\r\n+QUEUED\r\n+QUEUED\r\n" + array([b"+OK\r\n", b"+OK\r\n"]))
            other.send("MULTI", "DECRBY a 3", "INCRBY b 3", "MGET a b", "EXEC")
            await other.expect(b"+OK\r\n" + b"+QUEUED\r\n" * 3)
            await other.expect(array([integer(7), integer(3), array([bulk(b"7"), bulk(b"3")])]))
            await other.says("GET a", bulk(b"7"))
            await other.says("WATCH a", b"+OK\r\n")
            other.send("MULTI", "SET a 8", "EXEC")
            await other.expect(b"+OK\r\n+QUEUED\r\n" + array([b"+OK\r\n"]))
            await one.says("SET c 1", b"+OK\r\n")
            one.send("MULTI", "SET c 2", "EXEC")
            await one.expect(b"+OK\r\n+QUEUED\r\n")
            assert (await one.line()).startswith("-WRONGENGINE")
            one.send("SET a 1")
            assert (await one.line()).startswith("-WRONGENGINE 'a' belongs to transactions")
            for rope in ropes:
                rope.writer.transport.abort()

    run(story)
