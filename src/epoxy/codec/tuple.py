"""Tuples as keys: bytes that sort the way the tuples do. The encoding is FoundationDB's tuple layer, with the types
that rows of our stores have:

    01  bytes, 00 ends it,       0c-13  negative integer, one's complement, 8 to 1 bytes
        00 inside is 00 ff       14     zero
    02  UTF-8 string, as bytes   15-1c  positive integer, big endian, 1 to 8 bytes
    05  nested tuple, 00 ends    1d     positive integer of more bytes, their count first
        it                       0b     negative integer of more bytes, count first

Decoding is strict: what `pack` would not have written is refused, so two different keys never mean the same tuple.
"""

from collections.abc import Iterable
from typing import TypeAlias

from epoxy.codec.quoting import escape as escape
from epoxy.codec.quoting import pack_bytes as pack_bytes
from epoxy.model.errors import CodecError, InvalidRequest, NonCanonical, Oversized, Truncated, UnknownTag

STAMP_BYTES = 10
"""Of a versionstamp (33), which the store writes behind a packed prefix, followed by two bytes of the caller's."""

MAX_DEPTH = 32
"""Nothing we store nests deeper than 2. The bound keeps hostile bytes from exhausting the interpreter's stack."""

MAX_INTEGER_BYTES = 255
"""The length of a long integer is one byte."""

Item: TypeAlias = "bytes | int | str | tuple[Item, ...]"

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


def strinc(prefix: bytes) -> bytes:
    """The first key after every key that starts with these bytes."""
    kept = prefix.rstrip(b"\xff")
    if not kept:
        raise InvalidRequest("no key comes after every key that starts with only ff bytes")
    return kept[:-1] + bytes((kept[-1] + 1,))


def _encode(item: Item, depth: int) -> bytes:
    match item:
        case bytes():
            return pack_bytes(item)
        case int() if not isinstance(item, bool):
            return _encode_integer(int(item))
        case str():
            return b"\x02" + escape(_utf8(item)) + b"\x00"
        case tuple() if depth < MAX_DEPTH:
            return b"\x05" + b"".join([_encode(child, depth + 1) for child in item]) + b"\x00"
        case tuple():
            raise Oversized(f"tuples nested deeper than {MAX_DEPTH}")
        case _:
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


def _decode(data: bytes, position: int, depth: int) -> tuple[Item, int]:
    """The item that starts at `position`, and where the next one does."""
    code = data[position]
    position += 1
    match code:
        case 0x01:
            return _decode_bytes(data, position)
        case 0x02:
            return _decode_string(data, position)
        case 0x05:
            return _decode_nested(data, position, depth + 1)
        case _ if _LONG_NEGATIVE <= code <= _LONG_POSITIVE:
            return _decode_integer(data, position, code)
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
        if not data[position]:
            return tuple(items), position + 1
        item, position = _decode(data, position, depth)
        items.append(item)
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
