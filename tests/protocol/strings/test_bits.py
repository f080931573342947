"""Bits, against the same bits as text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epoxy.model.records import MAX_VALUE_BYTES
from epoxy.model.strings import KEEP, PERSIST, Fault, Register
from epoxy.protocol.strings.evaluation import MultiSession
from tests.protocol.strings.lines import after, command, reply_to

VALUES = st.binary(max_size=6)
ENDS = st.integers(-60, 60)


def text_of(value: bytes) -> str:
    return "".join(f"{byte:08b}" for byte in value)


@given(VALUES, st.integers(0, 70), st.integers(0, 1))
def test_a_bit_is_set_where_it_is_read(value: bytes, offset: int, bit: int) -> None:
    before = text_of(value).ljust(8 * (offset // 8 + 1), "0")
    done, expiry, _ = after(f"SETBIT k {offset} {bit}", value, 5)
    assert done is not None
    assert text_of(done) == before[:offset] + str(bit) + before[offset + 1 :]
    assert expiry == KEEP
    assert reply_to(f"SETBIT k {offset} {bit}", value) == reply_to(f"GETBIT k {offset}", value) == int(before[offset])


@given(VALUES, ENDS, ENDS)
def test_bits_are_counted_in_ranges_of_bytes_and_of_bits(value: bytes, start: int, end: int) -> None:
    part = reply_to(f"GETRANGE k {start} {end}", value)
    assert isinstance(part, bytes)
    assert reply_to(f"BITCOUNT k {start} {end}", value) == text_of(part).count("1")
    bits = reply_to(f"GETRANGE k {start} {end}", text_of(value).encode())
    assert isinstance(bits, bytes)
    assert reply_to(f"BITCOUNT k {start} {end} BIT", value) == bits.count(b"1")


@given(VALUES, st.integers(0, 1), st.integers(0, 60), st.integers(0, 60))
def test_the_first_bit_of_a_range_is_found(value: bytes, bit: int, start: int, end: int) -> None:
    text = text_of(value)
    assert reply_to(f"BITPOS k {bit} {start} {end} BIT", value) == text.find(str(bit), start, end + 1)
    assert reply_to(f"BITPOS k {bit} {start} {end}", value) == text.find(str(bit), 8 * start, 8 * end + 8)


def test_a_value_without_an_end_is_followed_by_zeros() -> None:
    assert reply_to("BITPOS k 0", b"\xff\xff") == 16
    assert reply_to("BITPOS k 0 1", b"\xff\xff") == 16
    assert reply_to("BITPOS k 0 2", b"\xff\xff") == -1
    assert reply_to("BITPOS k 0 0 -1", b"\xff\xff") == -1
    assert reply_to("BITPOS k 1", b"\0\0") == -1
    assert [reply_to(f"BITPOS k {bit}") for bit in (0, 1)] == [0, -1]
    assert reply_to("BITPOS k 0", b"") == -1


def test_two_ends_before_the_beginning_are_the_first_place_to_bitpos_and_nothing_to_bitcount() -> None:
    assert reply_to("BITPOS k 1 -3 -100", b"\x20a") == 2
    assert reply_to("BITCOUNT k -3 -100", b"\x20a") == 0


def test_the_first_bit_of_a_key_makes_it() -> None:
    assert after("SETBIT k 9 1") == (b"\0\x40", PERSIST, True)
    assert after("SETBIT k 0 0") == (b"\0", PERSIST, True)


@pytest.mark.parametrize(
    ("line", "reply"),
    [
        ("SETBIT k -1 1", "-ERR bit offset is not an integer or out of range"),
        ("GETBIT k x", "-ERR bit offset is not an integer or out of range"),
        (f"SETBIT k {8 * MAX_VALUE_BYTES} 1", "-ERR bit offset is not an integer or out of range"),
        ("SETBIT k 1 2", "-ERR bit is not an integer or out of range"),
        ("BITPOS k 2", "-ERR The bit argument must be 1 or 0."),
        ("BITPOS k x", "-ERR value is not an integer or out of range"),
        ("BITPOS k 1 0 1 FOO", "-ERR syntax error"),
        ("BITCOUNT k 1", "-ERR syntax error"),
        ("BITCOUNT k 1 2 BIT 3", "-ERR syntax error"),
        ("BITCOUNT k 1 x", "-ERR value is not an integer or out of range"),
    ],
)
def test_wrong_arguments(line: str, reply: str) -> None:
    assert reply_to(line, b"a") == reply


@pytest.mark.parametrize(
    ("line", "reply", "target"),
    [
        ("BITOP AND t a b", 2, b"\x0c\0"),
        ("BITOP or t a b", 2, b"\x3f\x01"),
        ("BITOP XOR t a b", 2, b"\x33\x01"),
        ("BITOP NOT t a", 1, b"\xf0"),
        ("BITOP AND t c c", 0, None),
        ("BITOP NOT t a b", Fault("ERR BITOP NOT must be called with a single source key."), b"t"),
        ("BITOP NAND t a b", Fault("ERR syntax error"), b"t"),
    ],
)
def test_bitop(line: str, reply: object, target: bytes | None) -> None:
    values = {b"t": b"t", b"a": b"\x0f", b"b": b"\x3c\x01", b"c": None}
    session = MultiSession({key: Register(value=value) for key, value in values.items()}, 0)
    assert session.call(command(line)) == reply
    assert session.call((b"GET", b"t")) == target
