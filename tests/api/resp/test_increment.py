"""INCR and its kin: they start from what this node holds, and never give a wrong sum."""

import pytest

from epoxy.api.resp.increment import MAX_INCREMENT_TRIES
from epoxy.model.records import Proposal
from epoxy.model.writes import (
    Consistency,
    Outcome,
    Path,
    ReadFailed,
    ReadResult,
    Source,
    VersionMismatch,
    Write,
)
from tests.api.resp.resp_world import Rope, World, committed, proposal, run, until, world
from tests.api.resp.test_keys import BUSY, COMMON, IMMUTABLE, IS_IMMUTABLE, UNKNOWN


def mismatch(newest: Proposal | None) -> VersionMismatch:
    return VersionMismatch(committed=newest, path=Path.LOCAL)


async def asked_to_write(at: World, value: bytes, if_version: int, outcome: Outcome) -> None:
    await until(lambda: bool(at.node.writes))
    write, answered = at.node.writes.popleft()
    assert write == Write(key=b"n", value=value, mutable=True, if_version=if_version)
    answered(outcome)


async def asked_to_read(at: World, result: Proposal | None) -> None:
    await until(lambda: bool(at.node.reads))
    key, consistency, answered = at.node.reads.popleft()
    assert (key, consistency) == (b"n", Consistency.LINEARIZABLE)
    answered(ReadResult(committed=result, source=Source.QUORUM))


@pytest.mark.parametrize(
    ("command", "total"), [("INCR n", 6), ("DECR n", 4), ("INCRBY n 10", 15), ("DECRBY n -3", 8), ("INCRBY n -9", -4)]
)
def test_counting_starts_from_what_this_node_holds(command: str, total: int) -> None:
    async def story() -> None:
        async with world() as at:
            at.node.held[b"n"] = proposal(b"5", version=3)
            client = await at.connect()
            client.send(command)
            await asked_to_write(at, b"%d" % total, 3, committed(b"x"))
            await client.expect(b":%d\r\n" % total)

    run(story)


def test_counting_goes_on_from_the_version_that_came_between() -> None:
    async def story() -> None:
        async with world() as at:
            at.node.held[b"n"] = proposal(b"5", version=3)
            client = await at.connect()
            client.send("INCR n")
            await asked_to_write(at, b"6", 3, mismatch(proposal(b"41", version=4)))
            await asked_to_write(at, b"42", 4, mismatch(proposal(b"ignored", version=4)))
            await asked_to_read(at, proposal(b"70", version=6))
            await asked_to_write(at, b"71", 6, committed(b"71"))
            await client.expect(b":71\r\n")

    run(story)


def test_a_key_nobody_has_written_counts_from_nothing() -> None:
    async def story() -> None:
        async with world() as at:
            client = await at.connect()
            client.send("INCR n")
            await asked_to_read(at, None)
            await asked_to_write(at, b"1", 0, committed(b"1"))
            await client.expect(b":1\r\n")

    run(story)


def test_no_integer_is_said_only_after_a_consistent_read() -> None:
    async def story() -> None:
        async with world() as at:
            at.node.held[b"n"] = proposal(b"text", version=3)
            client = await at.connect()
            client.send("INCR n")
            await asked_to_read(at, proposal(b"7", version=4))
            await asked_to_write(at, b"8", 4, committed(b"8"))
            await client.expect(b":8\r\n")
            client.send("INCR n")
            await asked_to_read(at, proposal(b"text"))
            await client.expect(b"-ERR value is not an integer or out of range\r\n")

    run(story)


async def overflow(client: Rope, at: World, command: str, held: bytes) -> None:
    at.node.held[b"n"] = proposal(held)
    client.send(command)
    await asked_to_read(at, proposal(held))
    await client.expect(b"-ERR increment or decrement would overflow\r\n")


def test_sums_stay_within_64_bits() -> None:
    async def story() -> None:
        async with world() as at:
            client = await at.connect()
            await overflow(client, at, "INCR n", b"9223372036854775807")
            await overflow(client, at, "DECR n", b"-9223372036854775808")
            await overflow(client, at, "DECRBY n -9223372036854775808", b"0")

    run(story)


@pytest.mark.parametrize("outcome", [UNKNOWN, BUSY, IMMUTABLE])
def test_counting_that_fails_says_how(outcome: Outcome) -> None:
    async def story() -> None:
        async with world() as at:
            at.node.held[b"n"] = proposal(b"5", version=3)
            client = await at.connect()
            client.send("INCR n")
            await asked_to_write(at, b"6", 3, outcome)
            expected = (COMMON | {IMMUTABLE: IS_IMMUTABLE})[outcome]
            await client.expect(expected.replace(b"'k'", b"'n'"))

    run(story)


def test_counting_gives_up_in_the_end_and_says_that_nothing_was_written() -> None:
    async def story() -> None:
        async with world() as at:
            at.node.held[b"n"] = proposal(b"0", version=1)
            at.node.outcomes.extend(mismatch(proposal(b"0", version=i + 2)) for i in range(MAX_INCREMENT_TRIES))
            client = await at.connect()
            client.send("INCR n")
            line = await client.line()
            assert line == "-BUSY nothing was written to 'n': other regions wrote first, 32 times"
            assert at.node.asked == MAX_INCREMENT_TRIES

    run(story)


def test_counting_without_a_quorum_is_unavailable() -> None:
    async def story() -> None:
        async with world() as at:
            client = await at.connect()
            client.send("INCR n")
            await until(lambda: bool(at.node.reads))
            at.node.reads[0][2](ReadFailed(reason="no quorum"))
            await client.expect(b"-UNAVAILABLE 'n' cannot be read now: no quorum\r\n")

    run(story)
