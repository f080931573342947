"""Long doubles: read, added and written as the C library of x86-64 does."""

from fractions import Fraction

import pytest

from epoxy.protocol.strings.long_double import add, parse, rounded, text_of


def total(left: bytes, right: bytes) -> bytes:
    first, second = parse(left), parse(right)
    assert first is not None
    assert second is not None
    made = add(first, second)
    assert made is not None
    return text_of(made)


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        (b"0", b"0", b"0"),
        (b"10.50", b"0.1", b"10.6"),
        (b"5.0e3", b"2.0e2", b"5200"),
        (b"3", b"1.1", b"4.1"),
        (b"0.1", b"0.2", b"0.3"),
        (b"1", b"-1", b"0"),
        (b"-0.5", b".25", b"-0.25"),
        (b"+1.", b"1E1", b"11"),
        (b"1e20", b"1", b"100000000000000000000"),
        (b"1e-18", b"0", b"0"),
        (b"-1e-18", b"0", b"0"),
        (b"9007199254740993", b"0", b"9007199254740993"),
        (b"36893488147419103233", b"0", b"36893488147419103232"),
    ],
)
def test_sums(left: bytes, right: bytes, expected: bytes) -> None:
    """The mantissa has 64 bits: more than a double's, and less than 2^65 + 1 needs."""
    assert total(left, right) == expected


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b" 1",
        b"1 ",
        b"x",
        b"1e",
        b"e1",
        b".",
        b"nan",
        b"0x10",
        b"1e4001",
        b"1e-5000",
        b"1e99999999999",
        b"1" * 4097,
    ],
)
def test_what_is_no_number_in_range(text: bytes) -> None:
    assert parse(text) is None


def test_infinite_numbers_are_read_and_not_added() -> None:
    for text in (b"inf", b"-INF", b"+Infinity"):
        infinite, one = parse(text), parse(b"1")
        assert infinite is not None
        assert one is not None
        assert add(infinite, one) is add(one, infinite) is None


def test_the_largest_can_be_written() -> None:
    assert len(total(b"9.99e3999", b"0")) == 4000
    assert parse(b"0e99999999999") == 0


def test_ties_are_rounded_to_even() -> None:
    assert rounded(Fraction(2**64 + 1)) == 2**64
    assert rounded(Fraction(2**64 + 3)) == 2**64 + 4
    assert rounded(Fraction(-(2**64) - 3)) == -(2**64) - 4
    assert rounded(Fraction(1, 3)) != Fraction(1, 3)
    assert rounded(Fraction(5, 8)) == Fraction(5, 8)
