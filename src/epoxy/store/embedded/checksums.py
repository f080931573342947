"""The checksum of a row of the tree, in front of its value: xxh3 of the value, seeded with the xxh3 of the row's key.
So a value that is found under another key is as wrong as one that has changed."""

from typing import Final

from xxhash import xxh3_64_digest, xxh3_64_intdigest

CHECKSUM_BYTES: Final = 8

ROTTEN: Final = bytes(bytearray(b"rotten"))
"""In place of a value whose checksum is wrong. Known by its identity; equal bytes are a value."""


def seal(key: bytes, value: bytes) -> bytes:
    return xxh3_64_digest(value, xxh3_64_intdigest(key)) + value


def unseal(key: bytes, row: bytes) -> bytes:
    """The value, or ROTTEN."""
    value = row[CHECKSUM_BYTES:]
    return value if xxh3_64_digest(value, xxh3_64_intdigest(key)) == row[:CHECKSUM_BYTES] else ROTTEN
