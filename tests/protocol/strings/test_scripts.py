"""Scripts as steps, and commands without keys."""

import pytest

from epoxy.model.strings import KEEP, Fault, Reply, ScriptEnded, SimpleString
from epoxy.protocol.strings.scripts import Call
from tests.protocol.strings.lines import command, reply_to, run


def calling(source: bytes, keys: tuple[bytes, ...], arguments: tuple[bytes, ...], call: Call, seed: int) -> Reply:
    """A script is the lines that it calls; its reply are theirs, and what it was given."""
    return *[call(command(line)) for line in source.decode().split(";")], *keys, *arguments, seed


def test_a_script_sees_what_came_before_it_and_is_seen_by_what_comes_after() -> None:
    done = run("SET k 1", "EVAL 'INCR k;PEXPIRE k 30' 1 k x y", "PTTL k", "GET k", scripts=calling)
    assert done.replies == (SimpleString("OK"), (2, 1, b"k", b"x", b"y", 8), 30, b"2")
    assert (done.value, done.expiry, done.changed) == (b"2", 30, True)


def test_two_scripts_have_random_numbers_of_their_own() -> None:
    first, second = run("EVAL 'GET k' 1 k", "EVAL 'GET k' 1 k", scripts=calling).replies
    assert first != second


def test_what_a_script_wrote_before_it_failed_stays() -> None:
    def fails(_source: bytes, _keys: object, _arguments: object, call: Call, _seed: int) -> Reply:
        call((b"SET", b"k", b"half"))
        return Fault("ERR failed")

    done = run("EVAL x 1 k", value=b"v", scripts=fails)
    assert (done.replies, done.value) == ((Fault("ERR failed"),), b"half")


def test_what_a_script_wrote_before_a_limit_ended_it_is_undone() -> None:
    def runs_long(_source: bytes, _keys: object, _arguments: object, call: Call, _seed: int) -> Reply:
        assert call((b"SET", b"k", b"half", b"PX", b"5")) == SimpleString("OK")
        return ScriptEnded("ERR too long")

    done = run("PEXPIRE k 70", "EVAL x 1 k", "PTTL k", value=b"v", scripts=runs_long)
    assert (done.replies, done.value, done.expiry) == ((1, ScriptEnded("ERR too long"), 70), b"v", 70)
    assert not run("EVAL x 1 k", value=b"v", scripts=runs_long).changed


def test_a_script_that_only_reads_writes_nothing() -> None:
    refused = Fault("ERR Write commands are not allowed from read-only scripts.")
    done = run("EVAL_RO 'GET k;SET k 1;GETEX k' 1 k", value=b"v", scripts=calling)
    assert done.replies == ((b"v", refused, b"v", b"k", 8),)
    assert not done.changed


@pytest.mark.parametrize(
    ("line", "reply"),
    [
        ("GET other", "ERR Script attempted to access a non declared key 'other'"),
        ("EVAL 'GET k' 1 k", "ERR This Redis command is not allowed from script"),
        ("EVALSHA f 1 k", "ERR This Redis command is not allowed from script"),
        ("UNWATCH", "ERR This Redis command is not allowed from script"),
        ("LPUSH k 1", "ERR unknown command 'lpush'"),
        ("GET", "ERR wrong number of arguments for 'get' command"),
        ("SET k v FOO", "ERR syntax error"),
    ],
)
def test_what_a_script_may_not_call(line: str, reply: str) -> None:
    def calls(_source: bytes, _keys: object, _arguments: object, call: Call, _seed: int) -> Reply:
        return call(command(line))

    assert run("EVAL x 1 k", value=b"v", scripts=calls).replies == (Fault(reply),)


def test_a_script_declares_the_keys_it_uses() -> None:
    assert run("GET k", "EVAL 'GET k' 0", scripts=calling).replies[1] == (
        Fault("ERR Script attempted to access a non declared key 'k'"),
        8,
    )
    assert run("GET k", "EVAL 'GET k' 1 j", scripts=calling).replies[1] == Fault(
        "ERR Script attempted to access a non declared key 'j'"
    )


@pytest.mark.parametrize(
    ("line", "reply"),
    [
        ("EVAL x -1", "-ERR Number of keys can't be negative"),
        ("EVAL x 2 k", "-ERR Number of keys can't be greater than number of args"),
        ("EVAL x y k", "-ERR value is not an integer or out of range"),
        ("EVALSHA f 1 k", "-NOSCRIPT No matching script. Please use EVAL."),
        ("EVAL x 1 k", "-ERR This Redis command is not allowed from script"),
        ("PING", "+PONG"),
        ("PING hello", b"hello"),
        ("PING a b", "-ERR wrong number of arguments for 'ping' command"),
        ("ECHO hello", b"hello"),
        ("TIME", (b"1700000000", b"123000")),
    ],
)
def test_replies(line: str, reply: object) -> None:
    assert reply_to(line) == reply
    done = run(line, value=b"v", ms=5)
    assert (done.value, done.expiry, done.changed) == (b"v", KEEP, False)
