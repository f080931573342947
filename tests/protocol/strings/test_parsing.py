"""Arguments: numbers, lengths, and where the keys of a command are."""

import pytest

from epoxy.model.records import MAX_VALUE_BYTES
from epoxy.protocol.strings.evaluation import COMMANDS
from epoxy.protocol.strings.faults import CommandFault
from epoxy.protocol.strings.parsing import integer, sound_value
from tests.protocol.strings.lines import command


@pytest.mark.parametrize(
    "text", ["", "+1", "01", "-0", " 1", "1 ", "1_0", "1.0", "x", "9223372036854775808", "-9223372036854775809"]
)
def test_integers_have_one_spelling(text: str) -> None:
    with pytest.raises(CommandFault, match="ERR value is not an integer or out of range"):
        integer(text.encode())


def test_integers_reach_to_64_bits() -> None:
    assert [integer(b"%d" % number) for number in (0, -1, 2**63 - 1, -(2**63))] == [0, -1, 2**63 - 1, -(2**63)]


def test_a_value_has_a_longest() -> None:
    longest = bytes(MAX_VALUE_BYTES)
    assert sound_value(longest) is longest
    with pytest.raises(CommandFault, match="maximum allowed size"):
        sound_value(longest + b"x")


@pytest.mark.parametrize(
    ("line", "keys"),
    [
        ("GET a", "a"),
        ("SET a v EX 3", "a"),
        ("DEL a b c", "a b c"),
        ("MSET a 1 b 2", "a b"),
        ("COPY a b REPLACE", "a b"),
        ("BITOP AND t a b", "t a b"),
        ("ECHO a", ""),
    ],
)
def test_keys_are_where_redis_has_them(line: str, keys: str) -> None:
    words = command(line)
    assert COMMANDS[words[0].decode().lower()].keys(words) == command(keys)


@pytest.mark.parametrize(
    ("name", "accepted", "refused"), [("get", [2], [1, 3]), ("set", [3, 9], [2]), ("ping", [1, 2], [])]
)
def test_arity_counts_the_name_and_a_negative_one_is_the_least(
    name: str, accepted: list[int], refused: list[int]
) -> None:
    assert all(map(COMMANDS[name].accepts, accepted))
    assert not any(map(COMMANDS[name].accepts, refused))
