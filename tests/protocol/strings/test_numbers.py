"""Additions."""

import pytest

from epoxy.model.strings import KEEP, PERSIST
from tests.protocol.strings.lines import after, reply_to

MOST, LEAST = 2**63 - 1, -(2**63)


@pytest.mark.parametrize(
    ("line", "before", "total"),
    [
        ("INCR k", None, 1),
        ("DECR k", None, -1),
        ("INCRBY k 5", 7, 12),
        ("DECRBY k -5", 7, 12),
        ("DECRBY k 5", 7, 2),
        (f"INCRBY k {LEAST}", MOST, -1),
        ("INCR k", MOST - 1, MOST),
    ],
)
def test_sums(line: str, before: int | None, total: int) -> None:
    value = b"%d" % before if before is not None else None
    assert reply_to(line, value) == total
    assert after(line, value)[0] == b"%d" % total


@pytest.mark.parametrize(
    ("line", "value", "reply"),
    [
        ("INCR k", b"x", "-ERR value is not an integer or out of range"),
        ("INCR k", b"", "-ERR value is not an integer or out of range"),
        ("INCR k", b"01", "-ERR value is not an integer or out of range"),
        ("INCRBY k 1.5", b"1", "-ERR value is not an integer or out of range"),
        ("INCR k", b"%d" % MOST, "-ERR increment or decrement would overflow"),
        ("DECR k", b"%d" % LEAST, "-ERR increment or decrement would overflow"),
        (f"DECRBY k {LEAST}", b"-1", "-ERR decrement would overflow"),
        ("INCRBYFLOAT k 1", b"x", "-ERR value is not a valid float"),
        ("INCRBYFLOAT k 1", b"", "-ERR value is not a valid float"),
        ("INCRBYFLOAT k x", b"1", "-ERR value is not a valid float"),
        ("INCRBYFLOAT k inf", b"1", "-ERR increment would produce NaN or Infinity"),
        ("INCRBYFLOAT k 6e3999", b"6e3999", "-ERR increment would produce NaN or Infinity"),
    ],
)
def test_what_cannot_be_added_leaves_the_value(line: str, value: bytes, reply: str) -> None:
    assert reply_to(line, value) == reply
    assert after(line, value, 50) == (value, KEEP, False)


@pytest.mark.parametrize("line", ["INCR k", "DECRBY k 3", "INCRBYFLOAT k 0.5"])
def test_a_number_keeps_its_expiry_and_a_new_one_has_none(line: str) -> None:
    assert after(line, b"1", 50)[1:] == (KEEP, True)
    assert after(line)[1:] == (PERSIST, True)


def test_sums_of_floats_are_bulk_strings() -> None:
    assert reply_to("INCRBYFLOAT k 0.1", b"10.50") == b"10.6"
    assert after("INCRBYFLOAT k -5.0e3", b"5000")[0] == b"0"
