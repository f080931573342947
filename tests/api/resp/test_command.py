"""What every command is held to: names, numbers of arguments, keys, values, integers."""

import pytest

from epoxy.api.resp.command import Arguments, CommandSpec, RespSession, checked_integer, shown, table_of
from epoxy.codec import resp
from epoxy.model.access import Access
from epoxy.model.cluster import CONFIG_KEY
from epoxy.model.errors import InvalidRequest
from epoxy.model.records import MAX_VALUE_BYTES
from tests.api.resp.resp_world import committed, run, until, world


def test_unknown_commands_and_wrong_numbers_of_arguments() -> None:
    async def story() -> None:
        async with world() as at:
            client = await at.connect()
            await client.says("LPUSH l 1", b"-ERR unknown command 'LPUSH'\r\n")
            await client.says(b"\x00\xff x", b"-ERR unknown command '\\x00\\xff'\r\n")
            await client.says("GET", b"-ERR wrong number of arguments for 'get' command\r\n")
            await client.says("GET a b", b"-ERR wrong number of arguments for 'get' command\r\n")
            await client.says("MGET", b"-ERR wrong number of arguments for 'mget' command\r\n")
            await client.says("SET k", b"-ERR wrong number of arguments for 'set' command\r\n")

    run(story)


def test_a_counted_command_that_ends_before_its_count_is_refused_behind_a_command_that_waits() -> None:
    """What stands before it may concern the same keys, so its keys are looked at before it runs."""

    async def story() -> None:
        async with world() as at:
            client = await at.connect()
            client.send("SET k v", "EVAL")
            await until(lambda: len(at.node.writes) == 1)
            _, written = at.node.writes.popleft()
            written(committed(b"v"))
            assert await client.line() == "+OK"
            assert await client.line() == "-ERR wrong number of arguments for 'eval' command"

    run(story)


@pytest.mark.parametrize("name", ["GET", "SET", "SETNX", "GETSET", "DEL", "INCR", "MGET", "EXISTS", "STRLEN", "TYPE"])
@pytest.mark.parametrize("key", [b"", b"x" * 1025])
def test_keys_have_limits(name: str, key: bytes) -> None:
    async def story() -> None:
        async with world() as at:
            client = await at.connect()
            rest = [b"v"] if "SET" in name else []
            client.raw(resp.array([resp.bulk(word) for word in (name.encode(), key, *rest)]))
            assert await client.line() == f"-ERR a key has 1 to 1024 bytes, this one {len(key)}"
            assert at.node.asked == 0

    run(story)


@pytest.mark.parametrize("name", [b"GET", b"SET", b"SETNX", b"DEL", b"INCR"])
def test_the_clusters_own_keys_are_not_for_clients(name: bytes) -> None:
    async def story() -> None:
        async with world() as at:
            client = await at.connect()
            rest = [b"v"] if b"SET" in name else []
            client.raw(resp.array([resp.bulk(word) for word in (name, CONFIG_KEY, *rest)]))
            assert await client.line() == "-ERR keys that begin with the byte ff are reserved for the cluster"
            assert at.node.asked == 0

    run(story)


@pytest.mark.parametrize("name", [b"SET", b"SETNX", b"GETSET"])
def test_values_have_limits_and_one_too_long_does_not_cost_the_connection(name: bytes) -> None:
    async def story() -> None:
        async with world() as at:
            client = await at.connect()
            for size in (MAX_VALUE_BYTES + 1, MAX_VALUE_BYTES):
                client.raw(resp.array([resp.bulk(name), resp.bulk(b"k"), resp.bulk(bytes(size))]))
            assert await client.line() == f"-ERR a value has at most 1048576 bytes, this one {MAX_VALUE_BYTES + 1}"
            await until(lambda: len(at.node.writes) == 1)
            assert at.node.writes[0][0].value == bytes(MAX_VALUE_BYTES)

    run(story)


@pytest.mark.parametrize(
    "text", [b"", b"-", b"-0", b"01", b"+1", b" 1", b"1 ", b"1.0", b"9223372036854775808", b"1" * 40]
)
def test_what_is_no_integer(text: bytes) -> None:
    with pytest.raises(InvalidRequest):
        checked_integer(text)


@pytest.mark.parametrize("number", [0, -1, 10, (1 << 63) - 1, -(1 << 63)])
def test_what_is_an_integer(number: int) -> None:
    assert checked_integer(b"%d" % number) == number


def nothing(_session: RespSession, _arguments: Arguments) -> bytes:
    return b""


def spec(arity: int, first_key: int = 0, last_key: int = 0) -> CommandSpec:
    return CommandSpec(
        name="x",
        run=nothing,
        arity=arity,
        summary="",
        group="",
        access=Access.ANY,
        first_key=first_key,
        last_key=last_key,
    )


@pytest.mark.parametrize(("arity", "accepted"), [(2, [2]), (-2, [2, 3, 4]), (-1, [1, 2, 3, 4])])
def test_an_arity_is_exact_or_a_minimum(arity: int, accepted: list[int]) -> None:
    assert [count for count in range(1, 5) if spec(arity).accepts(count)] == accepted


def test_a_command_names_one_key_or_all_that_follow() -> None:
    arguments = [b"X", b"a", b"b"]
    assert spec(2, first_key=1, last_key=1).keys(arguments) == [b"a"]
    assert spec(-2, first_key=1, last_key=-1).keys(arguments) == [b"a", b"b"]


def test_names_are_found_in_both_cases() -> None:
    command = spec(1)
    assert table_of([command]) == {b"X": command, b"x": command}


def test_a_key_in_a_message_is_printable_and_short() -> None:
    assert shown(b"a\r\n\xff") == "'a\\r\\n\\xff'"
    assert shown(b"k" * 65) == "'" + "k" * 64 + "'..."
