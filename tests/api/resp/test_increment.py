"""INCR and its kin: an addition that the engine evaluates, and every answer as Redis words it."""

import pytest
import redis.asyncio

from epoxy.model.integers import LEAST_INTEGER, MOST_INTEGER
from epoxy.model.writes import NotAnInteger, Outcome, Path, Write
from tests.api.resp.resp_world import Cluster, committed, proposal, run, until, world
from tests.api.resp.test_clients import at_every_door
from tests.api.resp.test_keys import BUSY, IMMUTABLE, IS_BUSY, IS_IMMUTABLE, IS_UNKNOWN, UNKNOWN

NO_NUMBER = "value is not an integer or out of range"
TOO_FAR = "increment or decrement would overflow"


def error(words: str) -> bytes:
    return f"-ERR {words}\r\n".encode()


def not_an_integer(reason: str) -> NotAnInteger:
    return NotAnInteger(committed=proposal(b"word"), path=Path.SLOW, reason=reason)


@pytest.mark.parametrize(
    ("command", "amount"),
    [
        ("INCR k", 1),
        ("DECR k", -1),
        ("INCRBY k 10", 10),
        ("INCRBY k -9", -9),
        ("DECRBY k 7", -7),
        ("DECRBY k -3", 3),
        (f"INCRBY k {LEAST_INTEGER}", LEAST_INTEGER),
        (f"INCRBY k {MOST_INTEGER}", MOST_INTEGER),
        (f"DECRBY k {MOST_INTEGER}", -MOST_INTEGER),
    ],
)
def test_the_engine_adds_and_the_reply_is_the_sum(command: str, amount: int) -> None:
    async def story() -> None:
        async with world() as at:
            client = await at.connect()
            client.send(command)
            await until(lambda: bool(at.node.writes))
            write, answered = at.node.writes.popleft()
            assert write == Write(key=b"k", value=None, mutable=True, amount=amount)
            answered(committed(b"-42"))
            await client.expect(b":-42\r\n")

    run(story)


@pytest.mark.parametrize(
    ("outcome", "reply"),
    [
        (not_an_integer(NO_NUMBER), error(NO_NUMBER)),
        (not_an_integer(TOO_FAR), error(TOO_FAR)),
        (IMMUTABLE, IS_IMMUTABLE),
        (BUSY, IS_BUSY),
        (UNKNOWN, IS_UNKNOWN),
    ],
)
def test_an_addition_that_fails_says_how(outcome: Outcome, reply: bytes) -> None:
    async def story() -> None:
        async with world() as at:
            client = await at.connect()
            client.send("INCR k")
            await until(lambda: bool(at.node.writes))
            at.node.writes.popleft()[1](outcome)
            await client.expect(reply)

    run(story)


@pytest.mark.parametrize(
    ("command", "reply"),
    [
        ("INCRBY k 9223372036854775808", error(NO_NUMBER)),
        ("INCRBY k 1.5", error(NO_NUMBER)),
        ("DECRBY k +1", error(NO_NUMBER)),
        ("DECRBY k 01", error(NO_NUMBER)),
        (f"DECRBY k {LEAST_INTEGER}", error("decrement would overflow")),
    ],
)
def test_an_amount_that_is_none_reaches_no_engine(command: str, reply: bytes) -> None:
    async def story() -> None:
        async with world() as at:
            client = await at.connect()
            await client.says(command, reply)
            assert at.node.asked == 0

    run(story)


def test_sums_are_those_of_redis_up_to_the_last_of_64_bits() -> None:
    """One pipeline against a real replica: commands that share a key run in their order."""

    async def story(_: Cluster, clients: list[redis.asyncio.Redis]) -> None:
        pipe = clients[0].pipeline(transaction=False)
        pipe.incr("n")
        pipe.incrby("n", MOST_INTEGER - 1)
        pipe.incr("n")
        pipe.getset("n", "x")
        pipe.decr("n")
        pipe.getdel("n")
        pipe.get("n")
        pipe.incrby("n", LEAST_INTEGER)
        pipe.decr("n")
        pipe.set("n", "07", get=True)
        pipe.incr("n")
        told = await pipe.execute(raise_on_error=False)
        shown = [str(each) if isinstance(each, Exception) else each for each in told]
        assert shown[:6] == [1, MOST_INTEGER, TOO_FAR, str(MOST_INTEGER).encode(), NO_NUMBER, b"x"]
        assert shown[6:] == [None, LEAST_INTEGER, TOO_FAR, str(LEAST_INTEGER).encode(), NO_NUMBER]

    at_every_door(story, protocol=2, n=1)
