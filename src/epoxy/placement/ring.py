"""Where an envoy stands on the ring: at V places, each a hash of its key.

Whoever connects an envoy and whoever expires it work out the same places, so nothing has to be remembered but V.
"""

import xxhash

POSITION_BYTES = 16


def position(envoy_key: str, index: int) -> bytes:
    """Big-endian, so that the order of the bytes is the order of the numbers."""
    return xxhash.xxh3_128_digest(envoy_key.encode(), seed=index)


def positions(envoy_key: str, begin: int, end: int) -> list[bytes]:
    raw = envoy_key.encode()
    return [xxhash.xxh3_128_digest(raw, seed=index) for index in range(begin, end)]
