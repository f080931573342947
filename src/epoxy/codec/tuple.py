"""Tuples as keys: bytes that sort the way the tuples do. The encoding is FoundationDB's tuple layer.

    00  None                     0c-13  negative integer, one's complement, 8 to 1 bytes
    01  bytes, 00 ends it,       14     zero
        00 inside is 00 ff       15-1c  positive integer, big endian, 1 to 8 bytes
    02  UTF-8 string, as bytes   1d     positive integer of more bytes, their count first
    05  nested tuple, 00 ends    20 21  float, double: the sign bit flipped, all bits of a negative one
        it, None inside 00 ff    26 27  False, True
    0b  negative integer of      33     versionstamp: 10 bytes of the store, 2 of the caller
        more bytes, count first

Decoding is strict: what `pack` would not have written is refused, so two different keys never mean the same tuple.
"""

import struct
from collections.abc import Iterable
from typing import TypeAlias

from msgspec import Struct

from epoxy.codec.quoting import escape as escape
from epoxy.codec.quoting import pack_bytes as pack_bytes
from epoxy.model.errors import CodecError, InvalidRequest, NonCanonical, Oversized, Truncated, UnknownTag

STAMP_BYTES = 10

MAX_DEPTH = 32
"""Nothing we store nests deeper than 2. The bound keeps hostile bytes from exhausting the interpreter's stack."""

MAX_INTEGER_BYTES = 255
"""The length of a long integer is one byte."""


class Float32(Struct, frozen=True):
    """A single-precision number: Python's own floats are doubles."""

    value: float


class Versionstamp(Struct, frozen=True, order=True):
    """`stamp` rises with every commit of the store; `user_version` orders rows of one commit."""

    stamp: bytes
    user_version: int = 0

    def __post_init__(self) -> None:
        assert len(self.stamp) == STAMP_BYTES, self
        assert 0 <= self.user_version <= 0xFFFF, self


Item: TypeAlias = "bytes | int | str | bool | float | Float32 | Versionstamp | tuple[Item, ...] | None"

_LONG_NEGATIVE, _ZERO, _LONG_POSITIVE = 0x0B, 0x14, 0x1D

_SHORT_LIMIT = (1 << 64) - 1
"""Integers from here on are long. 2^64 - 1 itself would fit 8 bytes, but the reference implementation says so."""

_SMALL = (b"\x14", *(bytes((0x15, value)) for value in range(1, 256)))


def pack(items: Iterable[Item]) -> bytes:
    return b"".join([_encode(item, 0) for item in items])


def unpack(data: bytes) -> tuple[Item, ...]:
    items, position = [], 0
    while position < len(data):
        item, position = _decode(data, position, 0)
        items.append(item)
    return tuple(items)


def range_of(prefix: Iterable[Item]) -> tuple[bytes, bytes]:
    """Begin and end around every tuple that is longer than `prefix` and starts with it."""
    packed = pack(prefix)
    return packed + b"\x00", packed + b"\xff"


def strinc(prefix: bytes) -> bytes:
    """The first key after every key that starts with these bytes."""
    kept = prefix.rstrip(b"\xff")
    if not kept:
        raise InvalidRequest("no key comes after every key that starts with only ff bytes")
    return kept[:-1] + bytes((kept[-1] + 1,))


def _encode(item: Item, depth: int) -> bytes:
    kind = type(item)
    if kind is bytes:
        return pack_bytes(item)  # type: ignore[arg-type]  # mypy does not narrow through `type`, which is the fast test
    if kind is int:
        return _encode_integer(item)  # type: ignore[arg-type]
    return _encode_rare(item, depth)


def _encode_rare(item: Item, depth: int) -> bytes:
    match item:
        case None:
            return b"\x00\xff" if depth else b"\x00"
        case bool():
            return b"\x27" if item else b"\x26"
        case bytes():
            return pack_bytes(item)
        case int():
            return _encode_integer(int(item))
        case str():
            return b"\x02" + escape(_utf8(item)) + b"\x00"
        case float():
            return b"\x21" + _flip(struct.pack(">d", item))
        case Float32():
            return b"\x20" + _flip(struct.pack(">f", item.value))
        case Versionstamp():
            return b"\x33" + item.stamp + item.user_version.to_bytes(2, "big")
        case tuple() if depth < MAX_DEPTH:
            return b"\x05" + b"".join([_encode(child, depth + 1) for child in item]) + b"\x00"
        case tuple():
            raise Oversized(f"tuples nested deeper than {MAX_DEPTH}")
    raise TypeError(f"{type(item).__name__} has no place in a key")


def _encode_integer(value: int) -> bytes:
    if 0 <= value <= 0xFF:
        return _SMALL[value]
    size = (value.bit_length() + 7) // 8
    if size > MAX_INTEGER_BYTES:
        raise Oversized(f"an integer of {size} bytes")
    raw = (value if value > 0 else value + (1 << size * 8) - 1).to_bytes(size, "big")
    if value >= _SHORT_LIMIT:
        return bytes((_LONG_POSITIVE, size)) + raw
    if value <= -_SHORT_LIMIT:
        return bytes((_LONG_NEGATIVE, size ^ 0xFF)) + raw
    return bytes((_ZERO + size if value > 0 else _ZERO - size,)) + raw


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise CodecError("a string with half a surrogate pair has no UTF-8") from error


def _flip(raw: bytes) -> bytes:
    """IEEE 754 bytes whose unsigned order is the order of the numbers."""
    if raw[0] & 0x80:
        return bytes(byte ^ 0xFF for byte in raw)
    return bytes((raw[0] ^ 0x80,)) + raw[1:]


def _unflip(raw: bytes) -> bytes:
    if raw[0] & 0x80:
        return bytes((raw[0] ^ 0x80,)) + raw[1:]
    return bytes(byte ^ 0xFF for byte in raw)


def _decode(data: bytes, position: int, depth: int) -> tuple[Item, int]:
    """The item that starts at `position`, and where the next one does."""
    code = data[position]
    position += 1
    match code:
        case 0x00:
            return None, position
        case 0x01:
            return _decode_bytes(data, position)
        case 0x02:
            return _decode_string(data, position)
        case 0x05:
            return _decode_nested(data, position, depth + 1)
        case _ if _LONG_NEGATIVE <= code <= _LONG_POSITIVE:
            return _decode_integer(data, position, code)
        case _:
            return _decode_fixed(data, position, code)


def _decode_fixed(data: bytes, position: int, code: int) -> tuple[Item, int]:
    match code:
        case 0x26:
            return False, position
        case 0x27:
            return True, position
        case 0x20:
            raw, position = _take(data, position, 4)
            return Float32(struct.unpack(">f", _unflip(raw))[0]), position
        case 0x21:
            raw, position = _take(data, position, 8)
            return struct.unpack(">d", _unflip(raw))[0], position
        case 0x33:
            raw, position = _take(data, position, STAMP_BYTES + 2)
            return Versionstamp(raw[:STAMP_BYTES], int.from_bytes(raw[STAMP_BYTES:], "big")), position
        case _:
            raise UnknownTag(f"no tuple item starts with {code:#04x}")


def _take(data: bytes, position: int, size: int) -> tuple[bytes, int]:
    end = position + size
    if end > len(data):
        raise Truncated("the last item of a tuple is cut short")
    return data[position:end], end


def _decode_bytes(data: bytes, position: int) -> tuple[bytes, int]:
    """Up to the first 00 that no ff follows."""
    end = data.find(b"\x00", position)
    while end >= 0 and data[end + 1 : end + 2] == b"\xff":
        end = data.find(b"\x00", end + 2)
    if end < 0:
        raise Truncated("a string in a tuple has no end")
    return data[position:end].replace(b"\x00\xff", b"\x00"), end + 1


def _decode_string(data: bytes, position: int) -> tuple[str, int]:
    raw, position = _decode_bytes(data, position)
    try:
        return raw.decode(), position
    except UnicodeDecodeError as error:
        raise NonCanonical("a string in a tuple is not UTF-8") from error


def _decode_nested(data: bytes, position: int, depth: int) -> tuple[tuple[Item, ...], int]:
    if depth > MAX_DEPTH:
        raise Oversized(f"tuples nested deeper than {MAX_DEPTH}")
    items: list[Item] = []
    while position < len(data):
        if data[position]:
            item, position = _decode(data, position, depth)
            items.append(item)
        elif data[position + 1 : position + 2] == b"\xff":
            items.append(None)
            position += 2
        else:
            return tuple(items), position + 1
    raise Truncated("a nested tuple has no end")


def _decode_integer(data: bytes, position: int, code: int) -> tuple[int, int]:
    start = position - 1
    if code in (_LONG_NEGATIVE, _LONG_POSITIVE):
        length, position = _take(data, position, 1)
        size = length[0] ^ (0xFF if code == _LONG_NEGATIVE else 0)
    else:
        size = abs(code - _ZERO)
    raw, end = _take(data, position, size)
    value = int.from_bytes(raw, "big")
    if code < _ZERO:
        value -= (1 << size * 8) - 1
    if _encode_integer(value) != data[start:end]:
        raise NonCanonical(f"{value} has a shorter spelling")
    return value, end
