"""The sums of Lua's library `bit`: numbers as signed integers of 32 bits."""

from collections.abc import Callable

MASK = 0xFFFFFFFF


def as_bits(value: float) -> int:
    """The nearest integer, its lowest 32 bits."""
    return round(value) & MASK


def signed(bits: int) -> int:
    return bits - (MASK + 1) if bits > MASK >> 1 else bits


def rotated(bits: int, count: int) -> int:
    """To the left."""
    return (bits << count | bits >> 32 - count) & MASK


OPERATIONS: dict[bytes, Callable[[int, int], int]] = {
    b"tobit": lambda a, _: a,
    b"bnot": lambda a, _: ~a & MASK,
    b"bswap": lambda a, _: int.from_bytes(a.to_bytes(4, "little"), "big"),
    b"band": lambda a, b: a & b,
    b"bor": lambda a, b: a | b,
    b"bxor": lambda a, b: a ^ b,
    b"lshift": lambda a, b: a << (b & 31) & MASK,
    b"rshift": lambda a, b: a >> (b & 31),
    b"arshift": lambda a, b: signed(a) >> (b & 31) & MASK,
    b"rol": lambda a, b: rotated(a, b & 31),
    b"ror": lambda a, b: rotated(a, -b & 31),
}


def operate(name: bytes, a: float, b: float) -> int:
    return signed(OPERATIONS[name](as_bits(a), as_bits(b)))
