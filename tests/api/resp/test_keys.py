"""Commands of keys: what every outcome of the engine looks like to a Redis client."""

import pytest

from epoxy.api.resp.keys import MAX_REPLY_BYTES, failure
from epoxy.model.records import MAX_VALUE_BYTES
from epoxy.model.writes import (
    ConsensusFailed,
    Consistency,
    ExpectedValueDoesNotMatch,
    ImmutableKey,
    NothingToDelete,
    Outcome,
    Path,
    ReadFailed,
    Refused,
    VersionMismatch,
)
from epoxy.node.quorum_watch import NO_QUORUM
from tests.api.resp.resp_world import committed, found, proposal, run, until, world

RESERVED = proposal(b"theirs", mutable=False)
LOST = ExpectedValueDoesNotMatch(committed=RESERVED, path=Path.LOCAL)
IMMUTABLE = ImmutableKey(committed=RESERVED, path=Path.LOCAL)
UNKNOWN = ConsensusFailed(reason="no quorum")
BUSY = Refused(reason="too many")
ABSENT = NothingToDelete(committed=None, path=Path.SLOW)

OK = b"+OK\r\n"
NIL = b"$-1\r\n"
NIL3 = b"_\r\n"
IS_IMMUTABLE = b"-IMMUTABLE 'k' is reserved for ever and cannot be overwritten or deleted\r\n"
IS_UNKNOWN = b"-INDEFINITE no decision about 'k', outcome unknown: no quorum\r\n"
IS_BUSY = b"-BUSY nothing was written to 'k': too many\r\n"
IS_LOST = b"-UNAVAILABLE nothing was written to 'k': %b\r\n" % NO_QUORUM.reason.encode()
COMMON = {UNKNOWN: IS_UNKNOWN, BUSY: IS_BUSY, NO_QUORUM: IS_LOST}


def test_nil_has_its_own_spelling_in_resp3() -> None:
    async def story() -> None:
        async with world() as at:
            client = await at.connect()
            at.node.held[b"gone"] = proposal(None)
            client.send("HELLO 3", "GET gone", "MGET gone", "SET k v NX")
            await until(lambda: len(at.node.writes) == 1)
            at.node.writes[0][1](LOST)
            await client.line()
            while (line := await client.line()) != "*0":
                assert line
            await client.expect(NIL3 + b"*1\r\n" + NIL3 + NIL3)

    run(story)


@pytest.mark.parametrize("outcome", [committed(b"v"), LOST, ABSENT, VersionMismatch(committed=None, path=Path.LOCAL)])
def test_an_outcome_that_is_no_failure_is_not_told_as_one(outcome: Outcome) -> None:
    with pytest.raises(AssertionError):
        failure(b"k", outcome)


HERE = {b"a": proposal(b"one"), b"gone": proposal(None), b"kept": proposal(b"for ever", mutable=False)}


@pytest.mark.parametrize(
    ("command", "reply"),
    [
        ("GET a", b"$3\r\none\r\n"),
        ("GET gone", NIL),
        ("MGET a gone a", b"*3\r\n$3\r\none\r\n$-1\r\n$3\r\none\r\n"),
        ("EXISTS a gone a kept", b":3\r\n"),
        ("STRLEN a", b":3\r\n"),
        ("STRLEN gone", b":0\r\n"),
        ("TYPE a", b"+string\r\n"),
        ("TYPE gone", b"+none\r\n"),
        ("TTL a", b":-1\r\n"),
        ("PTTL gone", b":-2\r\n"),
    ],
)
def test_reads_of_what_this_node_knows(command: str, reply: bytes) -> None:
    async def story() -> None:
        async with world() as at:
            at.node.held |= HERE
            client = await at.connect()
            await client.says(command, reply)
            assert at.node.asked == 0

    run(story)


def test_consistent_reads_ask_unless_the_key_is_reserved() -> None:
    async def story() -> None:
        async with world() as at:
            at.node.held |= HERE
            client = await at.connect()
            client.send("READCONSISTENT", "GET kept", "GET a", "READOPTIMISTIC", "GET a")
            await until(lambda: len(at.node.reads) == 1)
            key, consistency, answered = at.node.reads[0]
            assert (key, consistency) == (b"a", Consistency.LINEARIZABLE)
            answered(found(b"newer"))
            await client.expect(OK + b"$8\r\nfor ever\r\n$5\r\nnewer\r\n" + OK + b"$3\r\none\r\n")

    run(story)


def test_what_this_node_does_not_know_is_asked_for() -> None:
    async def story() -> None:
        async with world() as at:
            at.node.held |= HERE
            client = await at.connect()
            client.send("GET x", "MGET a x y", "EXISTS x a")
            await until(lambda: len(at.node.reads) == 4)
            assert all(consistency is Consistency.OPTIMISTIC for _, consistency, _ in at.node.reads)
            for (_, _, answered), value in zip(list(at.node.reads), (b"X", b"X", None, b"X"), strict=True):
                answered(found(value))
            await client.expect(b"$1\r\nX\r\n*3\r\n$3\r\none\r\n$1\r\nX\r\n$-1\r\n:2\r\n")

    run(story)


@pytest.mark.parametrize("command", ["GET x", "MGET a x", "EXISTS x", "STRLEN x", "TYPE x", "TTL x"])
def test_a_read_that_failed_is_not_told_as_absent(command: str) -> None:
    async def story() -> None:
        async with world() as at:
            at.node.held |= HERE
            client = await at.connect()
            client.send(command)
            await until(lambda: len(at.node.reads) == 1)
            at.node.reads[0][2](ReadFailed(reason="only 1 of 3 replicas answered"))
            await client.expect(b"-UNAVAILABLE 'x' cannot be read now: only 1 of 3 replicas answered\r\n")

    run(story)


@pytest.mark.parametrize("command", ["GET x", "STRLEN x", "MGET x", "EXISTS x"])
def test_a_read_that_is_one_too_many_is_told_so(command: str) -> None:
    async def story() -> None:
        async with world() as at:
            client = await at.connect()
            client.send(command)
            await until(lambda: bool(at.node.reads))
            at.node.reads.popleft()[2](Refused(reason="2000 reads are asking other regions already"))
            await client.expect(b"-BUSY 'x' was not read: 2000 reads are asking other regions already\r\n")

    run(story)


def test_a_reply_that_would_be_too_long_is_refused() -> None:
    async def story() -> None:
        async with world() as at:
            at.node.held[b"big"] = proposal(bytes(MAX_VALUE_BYTES))
            client = await at.connect()
            many = MAX_REPLY_BYTES // MAX_VALUE_BYTES
            client.send("MGET" + " big" * many, "PING")
            assert (
                await client.line() == f"-ERR the reply exceeds {MAX_REPLY_BYTES} bytes; ask for fewer keys at a time"
            )
            await client.expect(b"+PONG\r\n")
            client.send("MGET" + " big" * (many - 1))
            assert await client.line() == f"*{many - 1}"

    run(story)
