"""Commands that write keys: what every outcome of the engine looks like to a Redis client."""

import pytest
from msgspec.structs import replace

from epoxy.model.writes import (
    Committed,
    ConsensusFailed,
    ExpectedValueDoesNotMatch,
    ImmutableKey,
    NothingToDelete,
    Outcome,
    Path,
    Refused,
    Write,
)
from epoxy.node.quorum_watch import NO_QUORUM
from tests.api.resp.resp_world import committed, proposal, run, until, world

RESERVED = proposal(b"theirs", mutable=False)
LOST = ExpectedValueDoesNotMatch(committed=RESERVED, path=Path.LOCAL)
IMMUTABLE = ImmutableKey(committed=RESERVED, path=Path.LOCAL)
UNKNOWN = ConsensusFailed(reason="no quorum")
BUSY = Refused(reason="too many")
TAKEN = Committed(proposal=proposal(b"v", mutable=False), mine=True, path=Path.FAST)
ABSENT = NothingToDelete(committed=None, path=Path.SLOW)

OK = b"+OK\r\n"
NIL = b"$-1\r\n"
NIL3 = b"_\r\n"
IS_IMMUTABLE = b"-IMMUTABLE 'k' is reserved for ever and cannot be overwritten or deleted\r\n"
IS_UNKNOWN = b"-INDEFINITE no decision about 'k', outcome unknown: no quorum\r\n"
OVER = Refused(reason="the session is over, or never was", no_session=True)
IS_OVER = b"-NOSESSION nothing was written to 'k': the session is over, or never was\r\n"
IS_BUSY = b"-BUSY nothing was written to 'k': too many\r\n"
IS_LOST = b"-UNAVAILABLE nothing was written to 'k': %b\r\n" % NO_QUORUM.reason.encode()
COMMON = {UNKNOWN: IS_UNKNOWN, BUSY: IS_BUSY, NO_QUORUM: IS_LOST}

RESERVE = Write(key=b"k", value=b"v")
PUT = Write(key=b"k", value=b"v", mutable=True)
CREATE = Write(key=b"k", value=b"v", mutable=True, if_absent=True)
LEASE = Write(key=b"k", value=b"v", mutable=True, ttl_ms=10_000)
EXCHANGE = Write(key=b"k", value=b"v", mutable=True, returning=True)
DELETE = Write(key=b"k", value=None, mutable=True)
TAKE = Write(key=b"k", value=None, mutable=True, returning=True)

TABLE: dict[str, tuple[Write, dict[Outcome, bytes]]] = {
    "SET k v": (PUT, {committed(b"v"): OK, IMMUTABLE: IS_IMMUTABLE}),
    "SET k v GET": (
        EXCHANGE,
        {committed(b"v"): NIL, committed(b"v", previous=b"old"): b"$3\r\nold\r\n", IMMUTABLE: IS_IMMUTABLE},
    ),
    "GETSET k v": (
        EXCHANGE,
        {committed(b"v"): NIL, committed(b"v", previous=b"old"): b"$3\r\nold\r\n", IMMUTABLE: IS_IMMUTABLE},
    ),
    "SET k v NX": (CREATE, {committed(b"v"): OK, LOST: NIL}),
    "SETNX k v": (CREATE, {committed(b"v"): b":1\r\n", LOST: b":0\r\n"}),
    "set k v get nx": (CREATE, {committed(b"v"): NIL, LOST: b"$6\r\ntheirs\r\n"}),
    "SET k v NX PX 10000": (replace(CREATE, ttl_ms=10_000), {committed(b"v"): OK, LOST: NIL}),
    "SET k v EX 10": (LEASE, {committed(b"v"): OK, IMMUTABLE: IS_IMMUTABLE}),
    "SET k v px 10000 get": (replace(LEASE, returning=True), {committed(b"v", previous=b"old"): b"$3\r\nold\r\n"}),
    "SET k v KEEPTTL": (replace(PUT, keep_expiry=True), {committed(b"v"): OK}),
    f"SET k v NX SESSION {'ab' * 16}": (replace(CREATE, session=b"\xab" * 16), {committed(b"v"): OK, OVER: IS_OVER}),
    "SETEX k 10 v": (LEASE, {committed(b"v"): OK}),
    "SET k v EX 99999999999999": (replace(LEASE, ttl_ms=1 << 45), {committed(b"v"): OK}),
    "PSETEX k 10000 v": (LEASE, {committed(b"v"): OK}),
    "RESERVE k v": (
        RESERVE,
        {
            TAKEN: OK,
            replace(TAKEN, mine=False): OK,
            committed(b"v", mine=False): b"$1\r\nv\r\n",
            LOST: b"$6\r\ntheirs\r\n",
        },
    ),
    "GETDEL k": (
        TAKE,
        {committed(None, previous=b"old"): b"$3\r\nold\r\n", ABSENT: NIL, IMMUTABLE: IS_IMMUTABLE},
    ),
    "DEL k": (DELETE, {committed(None): b":1\r\n", ABSENT: b":0\r\n", IMMUTABLE: IS_IMMUTABLE}),
    "UNLINK k": (DELETE, {committed(None): b":1\r\n", ABSENT: b":0\r\n", IMMUTABLE: IS_IMMUTABLE}),
}
ROWS = [
    pytest.param(command, write, outcome, reply, id=f"{command}: {type(outcome).__name__}")
    for command, (write, rows) in TABLE.items()
    for outcome, reply in (rows | COMMON).items()
]


@pytest.mark.parametrize(("command", "write", "outcome", "reply"), ROWS)
def test_every_outcome_of_a_write(command: str, write: Write, outcome: Outcome, reply: bytes) -> None:
    async def story() -> None:
        async with world() as at:
            client = await at.connect()
            client.send(command)
            await until(lambda: len(at.node.writes) == 1)
            assert at.node.writes[0][0] == write
            at.node.writes[0][1](outcome)
            await client.expect(reply)

    run(story)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("SET k v EX 0", "invalid expire time in 'set' command"),
        ("SET k v PX -1", "invalid expire time in 'set' command"),
        ("SET k v EX 9999999999999999", "invalid expire time in 'set' command"),
        ("SET k v EX x", "value is not an integer or out of range"),
        ("SET k v EX 10 KEEPTTL", "syntax error"),
        ("SET k v NX XX", "syntax error"),
        ("SET k v NONSENSE", "syntax error"),
        ("SET k v SESSION 12", "the id of a session has 32 hexadecimal digits"),
        ("SET k v SESSION", "syntax error"),
        (f"SET k v EX 9 SESSION {'ab' * 16}", "syntax error"),
        ("SETEX k 0 v", "invalid expire time in 'setex' command"),
        ("INCRBY k x", "value is not an integer or out of range"),
        ("DECRBY k 9223372036854775808", "value is not an integer or out of range"),
        ("EXEC", "EXEC without MULTI"),
        ("DISCARD", "DISCARD without MULTI"),
    ],
)
def test_what_is_refused_is_refused_before_anything_is_done(command: str, words: str) -> None:
    async def story() -> None:
        async with world() as at:
            client = await at.connect()
            client.send(command)
            line = await client.line()
            assert line.startswith("-ERR ")
            assert words in line
            assert at.node.asked == 0

    run(story)


@pytest.mark.parametrize(
    ("outcomes", "reply"),
    [
        ((committed(None), ABSENT, committed(None)), b":2\r\n"),
        ((committed(None), IMMUTABLE, ABSENT), IS_IMMUTABLE[:-2] + b"; 1 of 3 keys were deleted\r\n"),
        ((IMMUTABLE, UNKNOWN, BUSY), IS_UNKNOWN[:-2] + b"; 0 of 3 keys were deleted\r\n"),
    ],
)
def test_several_keys_are_deleted_each_by_itself(outcomes: tuple[Outcome, ...], reply: bytes) -> None:
    async def story() -> None:
        async with world() as at:
            client = await at.connect()
            client.send("DEL k k k")
            await until(lambda: len(at.node.writes) == 3)
            for (_, answered), outcome in zip(list(at.node.writes), outcomes, strict=True):
                answered(outcome)
            await client.expect(reply)

    run(story)


def test_under_a_prefix_that_reserves_nx_takes_the_name_for_ever() -> None:
    async def story() -> None:
        async with world(reserve_prefixes=("user/", "room/")) as at:
            client = await at.connect()
            client.send("SET user/k v NX", "SETNX room/k v", "SET user/k2 v NX GET", "SET users v NX", "SET user/k3 v")
            await until(lambda: len(at.node.writes) == 5)
            kinds = [(write.mutable, write.if_absent) for write, _ in at.node.writes]
            assert kinds == [(False, False)] * 3 + [(True, True), (True, False)]
            outcomes: tuple[Outcome, ...] = (TAKEN, replace(TAKEN, mine=False), LOST, committed(b"v"), committed(b"v"))
            for (_, answered), outcome in zip(list(at.node.writes), outcomes, strict=True):
                answered(outcome)
            await client.expect(OK + b":0\r\n$6\r\ntheirs\r\n" + OK + OK)
            client.send("SET user/k v NX EX 10")
            assert await client.line() == (
                "-ERR SET NX reserves 'user/k' for ever (resp.reserve_prefixes), so it cannot expire"
            )

    run(story)


def test_a_time_that_is_over_is_evaluated_as_a_step() -> None:
    async def story() -> None:
        async with world() as at:
            client = await at.connect()
            client.send("SET k v EXAT 1000000000")
            await until(lambda: len(at.node.writes) == 1)
            steps = at.node.writes[0][0].steps
            assert steps is not None
            assert steps.commands == ((b"SET", b"k", b"v", b"EXAT", b"1000000000"),)

    run(story)
