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
from epoxy.model.writes import ReadFailed
from tests.api.resp.resp_world import Rope, World, cluster, found, proposal, run, turns, until, world


def executed(*done: Done, succeeded: bool = True) -> Executed:
    return Executed(succeeded=succeeded, done=done)


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
            client.send("MULTI", "INCR a", "INCRBY b x", "GET b", "EXEC")
            await client.expect(b"+OK\r\n" + b"+QUEUED\r\n" * 3)
            await until(lambda: bool(at.node.txns))
            assert asked(at).then == (Add(key=b"a", amount=1), Get(key=b"b"))
            answer(at, executed(Done(value=b"x", wrong=Wrong.NOT_A_NUMBER), Done(value=b"2")))
            wrong = b"-ERR value is not an integer or out of range\r\n"
            await client.expect(array([wrong, wrong, bulk(b"2")]))

    run(story)


def test_what_is_watched_is_compared_and_read_as_it_was() -> None:
    async def story() -> None:
        async with world() as at:
            client = await at.connect()
            client.send("WATCH a", "GET a")
            await until(lambda: bool(at.node.reads))
            await turns(20)
            assert len(at.node.reads) == 1, "nothing begins before it is known what is watched"
            at.node.reads.popleft()[2](found(None))
            await client.expect(b"+OK\r\n$-1\r\n")
            client.send("MULTI", "SET a 2", "SET b 2", "EXEC")
            await client.expect(b"+OK\r\n+QUEUED\r\n+QUEUED\r\n")
            await until(lambda: bool(at.node.txns))
            assert asked(at).compares == (Compare(key=b"a", absent=True),)
            answer(at, executed(succeeded=False))
            await client.expect(b"*-1\r\n")
            client.send("MULTI", "SET a 2", "SET b 2", "EXEC")
            await client.expect(b"+OK\r\n+QUEUED\r\n+QUEUED\r\n")
            await until(lambda: bool(at.node.txns))
            assert asked(at).compares == (), "EXEC ends the watch"

    run(story)


def test_what_cannot_be_queued_spoils_the_whole() -> None:
    async def story() -> None:
        async with world() as at:
            client = await at.connect()
            for spoiler in ("RESERVE a 1", "SCAN 0", "NONSENSE", "GET", "SET a"):
                client.send("MULTI", "SET a 1", spoiler)
                await client.expect(b"+OK\r\n+QUEUED\r\n")
                assert (await client.line()).startswith("-ERR ")
                await client.says("EXEC", b"-EXECABORT Transaction discarded because of previous errors.\r\n")
            assert at.node.asked == 0

    run(story)


def test_what_was_spoiled_stays_spoiled() -> None:
    async def story() -> None:
        async with world() as at:
            client = await at.connect()
            client.send("MULTI", "NONSENSE", "SET a 1", "EXEC")
            await client.expect(b"+OK\r\n-ERR unknown command 'NONSENSE'\r\n+QUEUED\r\n")
            await client.expect(b"-EXECABORT Transaction discarded because of previous errors.\r\n")
            assert at.node.asked == 0

    run(story)


@pytest.mark.parametrize(
    ("command", "count", "words"),
    [
        (b"INCR a", 128, "a transaction has at most 128 operations"),
        (b"PING", 128, "a transaction has at most 128 operations"),
        (b"MGET " + b"k " * 64, 2, "a transaction has at most 128 operations"),
        (b"SET a " + b"x" * 60_000, 2, "the commands of a transaction have at most 139264 bytes"),
        (b"ECHO " + b"x" * 60_000, 2, "the commands of a transaction have at most 139264 bytes"),
    ],
)
def test_what_is_queued_is_bounded(command: bytes, count: int, words: str) -> None:
    """The next one is told, EXEC is told, and what was queued before is not held until then."""

    async def story() -> None:
        async with world() as at:
            client = await at.connect()
            client.send("MULTI", *[command] * (count + 1))
            await client.expect(b"+OK\r\n" + b"+QUEUED\r\n" * count)
            assert await client.line() == f"-ERR {words}"
            assert at.door.connections[1].multi == []
            client.send("EXEC", "MULTI", "PING", "EXEC")
            await client.expect(b"-EXECABORT Transaction discarded because of previous errors.\r\n")
            await client.expect(b"+OK\r\n+QUEUED\r\n" + array([b"+PONG\r\n"]))

    run(story)


def test_what_is_watched_is_bounded() -> None:
    async def story() -> None:
        async with world() as at:
            client = await at.connect()
            at.node.held |= {b"%d" % i: proposal(bytes(100_000)) for i in range(2)}
            await client.says("WATCH 0", b"+OK\r\n")
            client.send("WATCH 1")
            assert (await client.line()).startswith("-ERR not watched: keys and values would have 200002 bytes")
            assert list(at.door.connections[1].watched) == [b"0"]

    run(story)


def test_what_cannot_be_read_is_not_watched() -> None:
    async def story() -> None:
        async with world() as at:
            client = await at.connect()
            client.send("WATCH a b", "PING")
            await until(lambda: len(at.node.reads) == 2)
            at.node.reads.popleft()[2](found(b"1"))
            at.node.reads.popleft()[2](ReadFailed(reason="no quorum"))
            await client.expect(b"-UNAVAILABLE 'b' cannot be read now: no quorum\r\n+PONG\r\n")
            assert at.door.connections[1].watched == {}

    run(story)


def test_a_consistent_session_watches_what_is_true_now() -> None:
    """The replica that serves it has missed the last transaction, and a majority has not."""

    async def story() -> None:
        async with cluster(3) as (built, ports):
            one, behind = [Rope(*await asyncio.open_connection("127.0.0.1", port)) for port in ports[:2]]
            done = b"+OK\r\n+QUEUED\r\n" + array([b"+OK\r\n"])
            one.send("MULTI", "SET a 1", "EXEC")
            await one.expect(done)
            await until(lambda: built.nodes[2].peek(b"a") is not None)
            built.down = {2}
            one.send("MULTI", "SET a 2", "EXEC")
            await one.expect(done)
            behind.send("READCONSISTENT", "WATCH a", "GET a", "MULTI", "SET a 3", "EXEC")
            await behind.expect(b"+OK\r\n+OK\r\n" + bulk(b"2") + done)
            for rope in (one, behind):
                rope.writer.transport.abort()

    run(story)


@pytest.mark.parametrize(
    ("told", "words"),
    [
        (TxnUnknown(reason="late"), "-INDEFINITE no decision about the transaction, outcome unknown: late"),
        (TxnRefused(reason="full"), "-BUSY nothing was done: full"),
        (TxnRefused(reason="alone", no_quorum=True), "-UNAVAILABLE nothing was done: alone"),
        (
            WrongEngine(keys=(b"a",)),
            "-WRONGENGINE nothing was done: a transaction over several keys has no room for values of more than 64 KiB "
            "that were written outside of one, here 'a'; use them outside of MULTI, or write less",
        ),
    ],
)
def test_failures_say_whether_something_may_have_happened(told: TxnOutcome, words: str) -> None:
    async def story() -> None:
        async with world() as at:
            client = await at.connect()
            client.send("MULTI", "SET a 1", "SET b 1", "EXEC")
            await client.expect(b"+OK\r\n+QUEUED\r\n+QUEUED\r\n")
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


@pytest.mark.parametrize("refused", ["MULTI", "MULTI x", "WATCH a", "WATCH", "DISCARD x", "UNWATCH x", "NOPE"])
def test_what_is_refused_between_multi_and_exec_aborts_the_transaction(refused: str) -> None:
    async def story() -> None:
        async with world() as at:
            client = await at.connect()
            client.send("MULTI", "SET a 1", refused, "SET a 2", "EXEC", "EXEC")
            await client.expect(b"+OK\r\n+QUEUED\r\n")
            assert (await client.line()).startswith("-ERR ")
            await client.expect(b"+QUEUED\r\n-EXECABORT Transaction discarded because of previous errors.\r\n")
            await client.expect(b"-ERR EXEC without MULTI\r\n")
            assert at.node.asked == 0

    run(story)


def test_exec_with_an_argument_ends_its_multi() -> None:
    async def story() -> None:
        async with world() as at:
            client = await at.connect()
            client.send("MULTI", "SET a 1", "EXEC x", "EXEC x", "PING")
            await client.expect(b"+OK\r\n+QUEUED\r\n-EXECABORT Transaction discarded because of: ")
            await client.expect(b"wrong number of arguments for 'exec' command\r\n")
            await client.expect(b"-ERR wrong number of arguments for 'exec' command\r\n+PONG\r\n")
            assert at.node.asked == 0

    run(story)


@pytest.mark.parametrize("keys", [("a",), ("a", "b")])
def test_unwatch_inside_multi_is_queued_and_exec_still_compares(keys: tuple[str, ...]) -> None:
    async def story() -> None:
        async with cluster(1) as (_, ports):
            one, other = [Rope(*await asyncio.open_connection("127.0.0.1", ports[0])) for _ in range(2)]
            writes = [f"SET {key} 2" for key in keys]
            one.send("SET a 1", "WATCH a", "MULTI", *writes, "UNWATCH", "EXEC")
            await one.expect(b"+OK\r\n" * 3 + b"+QUEUED\r\n" * (len(keys) + 1))
            await one.expect(array([b"+OK\r\n"] * (len(keys) + 1)))
            await one.says("WATCH a", b"+OK\r\n")
            await other.says("SET a 3", b"+OK\r\n")
            one.send("MULTI", *writes, "UNWATCH", "EXEC", "GET a")
            await one.expect(b"+OK\r\n" + b"+QUEUED\r\n" * (len(keys) + 1) + b"*-1\r\n" + bulk(b"3"))
            for rope in (one, other):
                rope.writer.transport.abort()

    run(story)


def test_what_nx_reserves_cannot_be_queued() -> None:
    async def story() -> None:
        async with world(reserve_prefixes=["name/"]) as at:
            client = await at.connect()
            for command in ("SET name/a 1 NX", "SETNX name/a 1", "MSETNX name/a 1"):
                client.send("MULTI", command, "DISCARD", "MULTI", command.replace("name/", ""), "DISCARD")
                await client.expect(
                    b"+OK\r\n-ERR 'name/a' is reserved by NX here, which is not possible inside MULTI\r\n"
                )
                await client.expect(b"+OK\r\n+OK\r\n+QUEUED\r\n+OK\r\n")
            client.send("MULTI", "PING", "EXEC")
            await client.expect(b"+OK\r\n+QUEUED\r\n" + array([b"+PONG\r\n"]))

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
            await one.expect(b"+OK\r\n+QUEUED\r\n" + array([b"+OK\r\n"]))
            await one.says("GET c", bulk(b"2"))
            await one.says("SET a 1", b"+OK\r\n")
            await one.says("INCRBY a 4", integer(5))
            await one.says("DEL b", integer(1))
            one.send("MULTI", "GET a", "GET b", "EXEC")
            await one.expect(b"+OK\r\n+QUEUED\r\n+QUEUED\r\n" + array([bulk(b"5"), b"$-1\r\n"]))
            one.send("MULTI", "SET a 2", "APPEND a x", "EXEC")
            await one.expect(b"+OK\r\n+QUEUED\r\n+QUEUED\r\n" + array([b"+OK\r\n", integer(2)]))
            for rope in ropes:
                rope.writer.transport.abort()

    run(story)
