"""The primitives, one by one. That a buffer which ends too early is `Truncated` is shown in test_wire."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epoxy.codec import bare
from epoxy.codec.bare import uint
from epoxy.model.errors import CodecError, InvalidValue, NonCanonical, Oversized, Truncated, UnknownTag
from tests.codec.strategies import MAX_U64, uints


@given(number=uints, before=st.binary(max_size=3), after=st.binary(max_size=3))
def test_uint_round_trip_anywhere_in_a_buffer(number: int, before: bytes, after: bytes) -> None:
    data = uint(number)
    assert bare.decode_uint(before + data + after, len(before)) == (number, len(before) + len(data))


@given(number=uints)
def test_uint_is_as_short_as_seven_bits_a_byte_allow(number: int) -> None:
    assert len(uint(number)) == max(1, -(-number.bit_length() // 7))


@given(number=uints, zeros=st.integers(1, 9))
def test_uint_with_leading_zeros_is_refused(number: int, zeros: int) -> None:
    data = uint(number)
    longer = data[:-1] + bytes([data[-1] | 0x80]) + b"\x80" * (zeros - 1) + b"\x00"
    with pytest.raises(NonCanonical if len(longer) <= 10 else Oversized):
        bare.decode_uint(longer, 0)


@pytest.mark.parametrize("number", [-1, MAX_U64 + 1, -(1 << 70)])
def test_uint_refuses_what_has_no_64_bits(number: int) -> None:
    with pytest.raises(InvalidValue):
        uint(number)


@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_unsigned_edges(size: int) -> None:
    largest = (1 << 8 * size) - 1
    out: list[bytes] = []
    bare.encode_unsigned(out, largest, size)
    assert out == [b"\xff" * size]
    for wrong in (largest + 1, -1):
        with pytest.raises(InvalidValue):
            bare.encode_unsigned(out, wrong, size)


@pytest.mark.parametrize(
    ("length", "error"), [(1, InvalidValue), (2, None), (200, None), (201, Oversized), (MAX_U64, Oversized)]
)
def test_lengths_have_two_limits(length: int, error: type[CodecError] | None) -> None:
    data = uint(length) + bytes(min(length, 300))
    if error is None:
        assert bare.decode_length(data, 0, 2, 200) == (length, len(uint(length)))
    else:
        with pytest.raises(error):
            bare.decode_length(data, 0, 2, 200)
        with pytest.raises(error):
            bare.length_bytes(length, 2, 200)


def test_a_length_beyond_the_buffer_is_truncated() -> None:
    with pytest.raises(Truncated):
        bare.decode_length(b"\x03ab", 0, 0, 9)


def test_fixed_data_has_its_size() -> None:
    out: list[bytes] = []
    bare.encode_fixed(out, b"abc", 3)
    assert bare.decode_fixed(b"".join(out), 0, 3) == (b"abc", 3)
    with pytest.raises(InvalidValue):
        bare.encode_fixed(out, b"ab", 3)
    with pytest.raises(Truncated):
        bare.decode_fixed(b"ab", 0, 3)


@given(text=st.text(max_size=20))
def test_str_counts_bytes(text: str) -> None:
    out: list[bytes] = []
    bare.encode_str(out, text, 0, 80)
    data = b"".join(out)
    assert data[0] == len(text.encode()) == len(data) - 1
    assert bare.decode_str(data, 0, 0, 80) == (text, len(data))


def test_a_wrong_flag_is_named() -> None:
    assert str(bare.wrong_flag(b"\x01\x02", 1)) == "flag at byte 1 is 2, neither 0 nor 1"


def test_unknown_tags_are_named() -> None:
    error = bare.unknown_tag("Reply", b"\x00\x80\x01", 1)
    assert isinstance(error, UnknownTag)
    assert str(error) == "Reply has no member 128 (at byte 1)"
    with pytest.raises(NonCanonical):
        bare.unknown_tag("Reply", b"\x81\x00", 0)
