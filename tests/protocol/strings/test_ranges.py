"""Parts of values."""

import pytest

from epoxy.model.records import MAX_VALUE_BYTES
from epoxy.model.strings import KEEP, PERSIST
from tests.protocol.strings.lines import after, reply_to

TOO_LONG = f"-ERR string exceeds maximum allowed size ({MAX_VALUE_BYTES} bytes)"


@pytest.mark.parametrize(
    ("start", "end", "part"),
    [
        (0, 3, b"This"),
        (-3, -1, b"ing"),
        (0, -1, b"This is a string"),
        (10, 100, b"string"),
        (5, 3, b""),
        (-1, -5, b""),
        (20, 30, b""),
        (0, -100, b"T"),
        (-100, 0, b"T"),
        (-(2**63), 2**63 - 1, b"This is a string"),
    ],
)
def test_getrange(start: int, end: int, part: bytes) -> None:
    for name in ("GETRANGE", "SUBSTR"):
        assert reply_to(f"{name} k {start} {end}", b"This is a string") == part
        assert reply_to(f"{name} k {start} {end}") == b""


def test_append_makes_or_prolongs_a_value() -> None:
    assert reply_to("APPEND k ab") == 2
    assert after("APPEND k ab") == (b"ab", PERSIST, True)
    assert reply_to("APPEND k ab", b"x", 5) == 3
    assert after("APPEND k ab", b"x", 5) == (b"xab", KEEP, True)


def test_a_value_grows_to_its_limit_and_not_beyond() -> None:
    full = bytes(MAX_VALUE_BYTES - 1)
    assert reply_to("APPEND k a", full) == MAX_VALUE_BYTES
    assert reply_to("APPEND k ab", full) == TOO_LONG
    assert after("APPEND k ab", full) == (full, KEEP, False)
    assert reply_to(f"SETRANGE k {MAX_VALUE_BYTES - 1} a") == MAX_VALUE_BYTES
    assert reply_to(f"SETRANGE k {MAX_VALUE_BYTES} a") == TOO_LONG
    assert reply_to(f"SETRANGE k {MAX_VALUE_BYTES} ''", b"abc") == 3


@pytest.mark.parametrize(
    ("offset", "value", "result"),
    [
        (6, b"Hello World", b"Hello Redis"),
        (2, None, b"\0\0Redis"),
        (3, b"a", b"a\0\0Redis"),
        (0, b"abcdefg", b"Redisfg"),
    ],
)
def test_setrange(offset: int, value: bytes | None, result: bytes) -> None:
    assert reply_to(f"SETRANGE k {offset} Redis", value) == len(result)
    assert after(f"SETRANGE k {offset} Redis", value, 5) == (result, KEEP if value else PERSIST, True)


def test_setrange_of_nothing_writes_nothing() -> None:
    assert reply_to("SETRANGE k 9 ''") == 0
    assert after("SETRANGE k 9 ''") == (None, KEEP, False)
    assert after("SETRANGE k 9 ''", b"v", 5) == (b"v", KEEP, False)
    assert reply_to("SETRANGE k -1 a") == "-ERR offset is out of range"
