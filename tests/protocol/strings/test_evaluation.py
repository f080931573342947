"""The entrance: parsing, steps on one key, sessions on several."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epoxy.model.strings import KEEP, PERSIST, Command, Fault, Register, SimpleString, Steps
from epoxy.protocol.strings.evaluation import COMMANDS, MultiSession, Parsed, RegisterSession, evaluate, find, parse
from tests.protocol.strings.lines import NOW_MS, command, run

OK = SimpleString("OK")

WORDS = st.sampled_from(
    [b"k", b"j", b"1", b"-1", b"0", b"EX", b"NX", b"GET", b"PXAT", b"IFEQ", b"BIT", b"x", b"", b"\xff"]
)
NAMES = st.sampled_from(sorted(COMMANDS)).map(str.encode)
RANDOM_COMMANDS = st.builds(lambda name, words: (name, *words), NAMES, st.lists(WORDS, max_size=6))


@given(RANDOM_COMMANDS)
def test_parse_says_what_is_wrong_or_what_the_command_is(words: Command) -> None:
    parsed = parse(words)
    if isinstance(parsed, Fault):
        assert parsed.text.startswith("ERR ")
        assert parsed == parse((words[0].upper(), *words[1:]))
    else:
        assert parsed.name == words[0].decode()
        assert set(parsed.keys) <= set(words[1:])
        assert COMMANDS[parsed.name].accepts(len(words))


@given(RANDOM_COMMANDS, st.sampled_from([None, b"", b"1", b"x"]), st.sampled_from([None, 0, 10]))
def test_what_parses_runs_and_what_only_reads_changes_nothing(
    words: Command, value: bytes | None, ms: int | None
) -> None:
    parsed = parse(words)
    keys = {b"k", *(parsed.keys if isinstance(parsed, Parsed) else ())}
    session = MultiSession(dict.fromkeys(keys, Register(value=value, remaining_ms=ms)), NOW_MS)
    reply = session.call(words)
    if isinstance(parsed, Fault):
        assert reply == parsed
    if isinstance(parsed, Fault) or isinstance(reply, Fault) or not parsed.writes:
        assert session.changed() == {}


@given(st.lists(RANDOM_COMMANDS, max_size=6))
def test_steps_are_a_session_with_the_same_commands(commands: list[Command]) -> None:
    """An error of one step does not stop the others."""
    parsed = list(map(parse, commands))
    named = {key for each in parsed if isinstance(each, Parsed) for key in each.keys}
    if len(named) != 1:
        return
    (key,) = named
    session = RegisterSession(key, Register(value=b"5"), NOW_MS)
    replies = tuple([session.call(each) for each in commands])
    steps = Steps(commands=tuple(commands), now_ms=NOW_MS)
    assert evaluate(steps, Register(value=b"5")) == session.evaluated(replies)


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("LPUSH k v", "ERR unknown command 'lpush'"),
        ("GET", "ERR wrong number of arguments for 'get' command"),
        ("SET k", "ERR wrong number of arguments for 'set' command"),
    ],
)
def test_what_a_queue_refuses(line: str, text: str) -> None:
    assert find(command(line)) == parse(command(line)) == Fault(text)


def test_what_a_queue_takes_though_it_will_fail() -> None:
    assert find(command("SET k v FOO")) is COMMANDS["set"]
    assert parse(command("SET k v FOO")) == Fault("ERR syntax error")


def test_getex_without_options_only_reads() -> None:
    plain, persisting = parse(command("GETEX k")), parse(command("GETEX k PERSIST"))
    assert isinstance(plain, Parsed)
    assert isinstance(persisting, Parsed)
    assert (plain.writes, persisting.writes) == (False, True)


def test_later_steps_see_what_earlier_ones_did() -> None:
    done = run("SET k 1 PX 50", "INCR k", "PTTL k", "INCR x", "EXPIRE k 9 GT", "TTL k", "LPUSH k 1", "STRLEN k")
    assert done.replies == (
        OK,
        2,
        50,
        Fault("ERR Script attempted to access a non declared key 'x'"),
        1,
        9,
        Fault("ERR unknown command 'lpush'"),
        1,
    )
    assert (done.value, done.expiry, done.changed) == (b"2", 9000, True)


def test_steps_without_a_key_change_nothing() -> None:
    done = run("PING", "TIME", value=b"v")
    assert (done.value, done.expiry, done.changed) == (b"v", KEEP, False)
    assert done.replies[0] == SimpleString("PONG")


def test_several_keys_and_which_of_them_changed() -> None:
    registers = {b"a": Register(value=b"1", remaining_ms=9), b"b": Register(value=None), b"c": Register(value=b"3")}
    session = MultiSession(registers, NOW_MS)
    assert session.call(command("MGET a b c")) == (b"1", None, b"3")
    assert session.call(command("INCRBY a 4")) == 5
    assert session.call(command("MSET b 7 c 8")) == OK
    assert session.call(command("DEL b c")) == 2
    assert session.call(command("EXISTS a b c")) == 1
    changed = {key: (each.value, each.expiry) for key, each in session.changed().items()}
    assert changed == {b"a": (b"5", KEEP), b"c": (None, PERSIST)}


def test_values_are_named_so_often_and_no_more() -> None:
    """128 commands on a value of 1 MiB would take a third of a second, and reply with 128 MiB."""
    session = RegisterSession(b"k", Register(value=bytes(1 << 20)), now_ms=0)
    replies = [session.call((b"BITPOS", b"k", b"1")) for _ in range(18)]
    assert replies[:16] == [-1] * 16
    refused = Fault("ERR BITPOS was not done: the values that commands name at a time have at most 16777216 bytes")
    assert replies[16:] == [refused] * 2
    assert session.call((b"PING",)) == SimpleString("PONG")
    between = MultiSession({b"k": Register(value=bytes(1 << 20)), b"to": Register(value=None)}, now_ms=0)
    assert isinstance(between.call((b"BITOP", b"OR", b"to", *[b"k"] * 17)), Fault)
    assert not between.changed()
