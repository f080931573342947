"""Commands on whole values."""

import pytest

from epoxy.model.strings import KEEP, PERSIST, Fault, Register, Reply
from epoxy.protocol.strings.evaluation import MultiSession
from tests.protocol.strings.lines import NOW_MS, after, command, reply_to


@pytest.mark.parametrize(
    ("line", "absent", "present"),
    [
        ("GET k", None, b"value"),
        ("STRLEN k", 0, 5),
        ("TYPE k", "+none", "+string"),
        ("EXISTS k k", 0, 2),
        ("TOUCH k", 0, 1),
        ("MGET k k", (None, None), (b"value", b"value")),
        ("GETEX k", None, b"value"),
    ],
)
def test_reading_changes_nothing(line: str, absent: object, present: object) -> None:
    assert reply_to(line) == absent
    assert reply_to(line, b"value") == present
    assert after(line, b"value", 50) == (b"value", KEEP, False)


@pytest.mark.parametrize(
    ("line", "absent", "present", "value"),
    [
        ("SET k w", "+OK", "+OK", b"w"),
        ("SET k w GET", None, b"v", b"w"),
        ("GETSET k w", None, b"v", b"w"),
        ("SETEX k 2 w", "+OK", "+OK", b"w"),
        ("PSETEX k 2 w", "+OK", "+OK", b"w"),
        ("MSET k x k w", "+OK", "+OK", b"w"),
    ],
)
def test_writing_replaces(line: str, absent: object, present: object, value: bytes) -> None:
    assert reply_to(line) == absent
    assert reply_to(line, b"v") == present
    assert after(line)[0::2] == after(line, b"v", 50)[0::2] == (value, True)


@pytest.mark.parametrize("line", ["SETNX k w", "MSETNX k w"])
def test_creating_leaves_what_is_there(line: str) -> None:
    assert reply_to(line) == 1
    assert after(line) == (b"w", PERSIST, True)
    assert reply_to(line, b"v") == 0
    assert after(line, b"v", 50) == (b"v", KEEP, False)


def test_times_of_setex_and_psetex() -> None:
    assert after("SETEX k 2 w")[1] == 2000
    assert after("PSETEX k 2 w")[1] == 2
    assert reply_to("SETEX k 0 w") == "-ERR invalid expire time in 'setex' command"
    assert reply_to("PSETEX k -1 w") == "-ERR invalid expire time in 'psetex' command"


@pytest.mark.parametrize(
    ("line", "absent", "present"),
    [
        ("DEL k k", 0, 1),
        ("UNLINK k", 0, 1),
        ("GETDEL k", None, b"v"),
        ("DELEX k", 0, 1),
        ("DELEX k IFEQ v", 0, 1),
        ("DELEX k ifne w", 0, 1),
    ],
)
def test_deleting(line: str, absent: object, present: object) -> None:
    assert reply_to(line) == absent
    assert after(line) == (None, KEEP, False)
    assert reply_to(line, b"v") == present
    assert after(line, b"v", 50) == (None, PERSIST, True)


def test_a_condition_that_does_not_hold_deletes_nothing() -> None:
    for line in ("DELEX k IFEQ w", "DELEX k IFNE v"):
        assert reply_to(line, b"v") == 0
        assert after(line, b"v") == (b"v", KEEP, False)
    assert reply_to("DELEX k NX v") == "-ERR syntax error"
    assert reply_to("DELEX k IFEQ") == "-ERR wrong number of arguments for 'delex' command"


def test_a_time_that_is_over_deletes_and_the_reply_stays_the_same() -> None:
    assert reply_to(f"SET k w PXAT {NOW_MS}", b"v") == "+OK"
    assert after(f"SET k w PXAT {NOW_MS}", b"v") == (None, PERSIST, True)
    assert after(f"SET k w PXAT {NOW_MS}")[2] is False
    assert reply_to("GETEX k EXAT 1", b"v") == b"v"
    assert after("GETEX k EXAT 1", b"v") == (None, PERSIST, True)


def test_getex_gives_and_takes_an_expiry() -> None:
    assert after("GETEX k PX 30", b"v") == (b"v", 30, True)
    assert after("GETEX k PERSIST", b"v", 30) == (b"v", PERSIST, True)
    assert after("GETEX k PERSIST", b"v") == (b"v", KEEP, False)
    assert after("GETEX k PX 30") == (None, KEEP, False)


def test_pairs_come_in_pairs() -> None:
    assert reply_to("MSET k 1 k") == "-ERR wrong number of arguments for 'mset' command"
    assert reply_to("MSETNX k 1 k") == "-ERR wrong number of arguments for 'msetnx' command"


# Between keys


def between(line: str, **values: bytes | None) -> tuple[Reply, dict[str, tuple[bytes | None, int]]]:
    """On several keys, the first of which has 50 ms left."""
    registers = {
        key.encode(): Register(value=value, remaining_ms=50 if at == 0 and value else None)
        for at, (key, value) in enumerate(values.items())
    }
    session = MultiSession(registers, NOW_MS)
    reply = session.call(command(line))
    return reply, {key.decode(): (each.value, each.expiry) for key, each in session.changed().items()}


def test_msetnx_of_several_is_all_or_nothing() -> None:
    assert between("MSETNX a 1 b 2", a=None, b=None) == (1, {"a": (b"1", PERSIST), "b": (b"2", PERSIST)})
    assert between("MSETNX a 1 b 2", a=None, b=b"x") == (0, {})


def test_rename_moves_the_value_and_the_time_it_has_left() -> None:
    moved = {"a": (None, PERSIST), "b": (b"1", 50)}
    assert reply_and_rest(between("RENAME a b", a=b"1", b=b"2")) == ("OK", moved)
    assert between("RENAMENX a b", a=b"1", b=None) == (1, moved)
    assert between("RENAMENX a b", a=b"1", b=b"2") == (0, {})
    assert between("RENAMENX a a", a=b"1") == (0, {})
    assert reply_and_rest(between("RENAME a a", a=b"1")) == ("OK", {})
    assert between("RENAME a b", a=None, b=b"2") == (Fault("ERR no such key"), {})


def reply_and_rest(outcome: tuple[Reply, object]) -> tuple[object, object]:
    reply, rest = outcome
    return getattr(reply, "text", reply), rest


def test_copy_leaves_the_source() -> None:
    assert between("COPY a b", a=b"1", b=None) == (1, {"b": (b"1", 50)})
    assert between("COPY a b", a=b"1", b=b"2") == (0, {})
    assert between("COPY a b DB 0 REPLACE", a=b"1", b=b"2") == (1, {"b": (b"1", 50)})
    assert between("COPY a b", a=None, b=b"2") == (0, {})


@pytest.mark.parametrize(
    ("line", "reply"),
    [
        ("COPY a a", "ERR source and destination objects are the same"),
        ("COPY a b DB 1", "ERR DB index is out of range"),
        ("COPY a b FOO", "ERR syntax error"),
    ],
)
def test_copy_refuses(line: str, reply: str) -> None:
    assert between(line, a=b"1", b=b"2") == (Fault(reply), {})
