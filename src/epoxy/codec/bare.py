"""The primitives of BARE, strict: what the generated codec is made of.

A value has exactly one encoding, and a length is checked against its limit and against the bytes at hand before
anything is made of it. So bytes either decode to a value that encodes to the same bytes, or raise a `CodecError`.

Encoders append pieces to a list. Decoders take (buffer, position) and return (value, position). They index without a
check of their own: Python checks every index, and `wire` turns the `IndexError` of a buffer that ends too early into
`Truncated`. A slice beyond the end is only shorter, so these functions check the length first. Generated code does not:
a position beyond the end makes the next read fail, and `wire` checks the last one.
"""

from epoxy.model.errors import CodecError, InvalidValue, NonCanonical, Oversized, Truncated, UnknownTag

MAX_UINT = (1 << 64) - 1
"""BARE gives a uint 64 bits and no more."""

BYTES = [bytes((number,)) for number in range(256)]
"""Made once, so that a piece of one byte is only a reference."""

LAST_SHIFT = 63
"""Nine bytes carry 63 bits; the tenth holds the last one and nothing else."""


def uint(number: int) -> bytes:
    if not 0 <= number <= MAX_UINT:
        raise InvalidValue(f"{number} is not an unsigned 64-bit integer")
    encoded = b""
    while number > 0x7F:
        encoded += BYTES[number & 0x7F | 0x80]
        number >>= 7
    return encoded + BYTES[number]


def decode_uint(buffer: bytes, position: int) -> tuple[int, int]:
    byte = buffer[position]
    position += 1
    number = byte & 0x7F
    shift = 0
    while byte > 0x7F:
        byte = buffer[position]
        position += 1
        shift += 7
        if shift == LAST_SHIFT and byte > 1:
            raise Oversized(f"uint before byte {position} needs more than 64 bits")
        number |= (byte & 0x7F) << shift
    if shift and not byte:
        raise NonCanonical(f"uint before byte {position} is not in its shortest form")
    return number, position


def encode_unsigned(out: list[bytes], number: int, size: int) -> None:
    """u8, u16, u32, u64: `size` bytes, little endian."""
    try:
        out.append(number.to_bytes(size, "little"))
    except OverflowError:
        raise InvalidValue(f"{number} does not fit in {size} bytes") from None


def length_bytes(length: int, low: int, high: int) -> bytes:
    """The length of a data, str or list. Checked here too, as in decoding: what cannot be read must not be written."""
    if not low <= length <= high:
        raise outside(length, low, high)
    return uint(length)


def decode_length(buffer: bytes, position: int, low: int, high: int) -> tuple[int, int]:
    """Every element of every list takes at least a byte, so no valid length exceeds the bytes that are left."""
    length = buffer[position]
    position += 1
    if length > 0x7F:
        length, position = decode_uint(buffer, position - 1)
    if not low <= length <= high:
        raise outside(length, low, high)
    if length > len(buffer) - position:
        raise Truncated(f"{length} wanted at byte {position} of {len(buffer)}")
    return length, position


def outside(length: int, low: int, high: int) -> CodecError:
    if length > high:
        return Oversized(f"length {length} is above the limit of {high}")
    return InvalidValue(f"length {length} is below the minimum of {low}")


def encode_data(out: list[bytes], value: bytes, low: int, high: int) -> None:
    out.append(length_bytes(len(value), low, high))
    out.append(value)


def decode_data(buffer: bytes, position: int, low: int, high: int) -> tuple[bytes, int]:
    length, position = decode_length(buffer, position, low, high)
    end = position + length
    return buffer[position:end], end


def encode_str(out: list[bytes], value: str, low: int, high: int) -> None:
    try:
        encode_data(out, value.encode(), low, high)
    except UnicodeEncodeError as error:
        raise InvalidValue(f"no UTF-8 for this text: {error}") from None


def decode_str(buffer: bytes, position: int, low: int, high: int) -> tuple[str, int]:
    data, end = decode_data(buffer, position, low, high)
    try:
        return data.decode(), end
    except UnicodeDecodeError as error:
        raise InvalidValue(f"text before byte {end} is not UTF-8: {error}") from None


def encode_fixed(out: list[bytes], value: bytes, size: int) -> None:
    """data[size]: no length is written, so it must be right."""
    if len(value) != size:
        raise InvalidValue(f"{len(value)} bytes where {size} are wanted")
    out.append(value)


def decode_fixed(buffer: bytes, position: int, size: int) -> tuple[bytes, int]:
    end = position + size
    if end > len(buffer):
        raise Truncated(f"{size} bytes wanted at byte {position} of {len(buffer)}")
    return buffer[position:end], end


def wrong_flag(buffer: bytes, position: int) -> NonCanonical:
    """A bool, or the first byte of an optional."""
    return NonCanonical(f"flag at byte {position} is {buffer[position]}, neither 0 nor 1")


def unknown_tag(name: str, buffer: bytes, position: int) -> UnknownTag:
    """All our tags take one byte, but here may be a longer uint, or a malformed one: decode it for the message."""
    tag, _ = decode_uint(buffer, position)
    return UnknownTag(f"{name} has no member {tag} (at byte {position})")
