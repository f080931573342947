"""Byte strings inside of keys: the part of the tuple encoding that every transaction walks through."""


def pack_bytes(value: bytes) -> bytes:
    """`tuple.pack((value,))`, for the one item in our keys that is not known beforehand."""
    return b"\x01" + escape(value) + b"\x00"


def escape(value: bytes) -> bytes:
    return value.replace(b"\x00", b"\x00\xff")
