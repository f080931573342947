"""Decimal numbers: one spelling each, signed, of 64 bits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epoxy.model.integers import LEAST_INTEGER, MOST_INTEGER, integer_of


def test_an_absent_value_counts_as_zero() -> None:
    assert integer_of(None) == 0


@given(st.integers(LEAST_INTEGER, MOST_INTEGER))
def test_each_number_has_its_spelling(number: int) -> None:
    assert integer_of(b"%d" % number) == number


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b" 1",
        b"1 ",
        b"+1",
        b"01",
        b"-0",
        b"1_000",
        b"1.0",
        b"1e3",
        b"0x10",
        b"nan",
        b"\xd9\xa1",
        b"\xff",
        b"--1",
        b"9223372036854775808",
        b"-9223372036854775809",
        b"1" * 5_000,
    ],
)
def test_nothing_else_is_a_number(value: bytes) -> None:
    """What `int` takes and Redis does not, what has more than 64 bits, and what would take long to convert."""
    assert integer_of(value) is None


@given(st.binary(max_size=24))
def test_a_number_is_spelled_in_one_way(value: bytes) -> None:
    number = integer_of(value)
    assert number is None or b"%d" % number == value
