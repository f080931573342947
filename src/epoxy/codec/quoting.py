"""Byte strings inside of keys: the part of the tuple encoding that is hot, and compiled."""


def pack_bytes(value: bytes) -> bytes:
    """`tuple.pack((value,))`, for the one item of our row keys that is not a constant."""
    return b"\x01" + escape(value) + b"\x00"


def escape(value: bytes) -> bytes:
    return value.replace(b"\x00", b"\x00\xff")
