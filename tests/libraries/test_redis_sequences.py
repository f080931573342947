"""The same commands at a node and at a Valkey. More of them: `python -m tests.libraries.redis_sequences`."""

import hiredis
import pytest

from tests.libraries.redis_sequences import Command, both, difference, first_difference, sequence

SEEDS = range(400)


def test_a_node_replies_as_a_valkey_does() -> None:
    with both() as (judge, port):
        found = [told for seed in SEEDS if (told := difference(seed, judge, port)) is not None]
    assert not found, "\n".join(found)


def test_every_kind_of_command_is_among_them() -> None:
    names = {command[0].upper() for seed in SEEDS for command in sequence(seed)}
    assert {b"EVALSHA", b"BITOP", b"COPY", b"PEXPIREAT", b"UNWATCH", b"GETEX", b"MSETNX", b"RESET", b"EXEC"} <= names
    assert sequence(7) == sequence(7)


OK, QUEUED = b"OK", b"QUEUED"


@pytest.mark.parametrize(
    ("lines", "one", "other"),
    [
        ("GET k", b"1", 1),
        ("GET k", None, b""),
        ("INCR k", hiredis.ReplyError("ERR no"), hiredis.ReplyError("BUSY no")),
        ("INCR k", hiredis.ReplyError("ERR no"), 1),
        ("PTTL k", 90_000, 50_000),
        ("TTL k", -1, 30),
        ("MULTI|TTL k|EXEC", [50], [90]),
        ("MULTI|TTL k|EXEC", [50], [50, 50]),
        ("MULTI|TTL k|EXEC", [50], None),
    ],
)
def test_differences_are_noticed(lines: str, one: object, other: object) -> None:
    commands: list[Command] = [line.encode().split() for line in lines.split("|")]
    before = list[object]([OK, QUEUED][: len(commands) - 1])
    assert first_difference(commands, [*before, one], [*before, other]) == len(commands) - 1
    assert first_difference(commands, [*before, one], [*before, one]) is None


def test_what_passes_between_two_commands_is_no_difference() -> None:
    commands: list[Command] = [[b"MULTI"], [b"PTTL", b"k"], [b"INCR", b"k"], [b"EXEC"]]
    failed = hiredis.ReplyError
    before: list[object] = [OK, QUEUED, QUEUED]
    one, other = [[90_000, failed("ERR one word")], [89_000, failed("ERR another")]]
    assert first_difference(commands, [*before, one], [*before, other]) is None
