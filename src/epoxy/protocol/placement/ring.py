"""An envoy's V places on the ring, each a hash of its key. They can be computed again from the key, so only V is
stored."""

import xxhash

from epoxy.model.errors import ConfigError

POSITION_BYTES = 16

RECORDED_KEY = "rivet-envoy-test-key"
RECORDED_POSITION = bytes.fromhex("4f0d7bd5e624ec237fadb943a208527e")
"""XXH3-128 of that key with seed 0, as the original description demands. Rows of the ring outlive a release: under
another hash an expiry would not find the positions that a registration wrote, and they would stay for ever."""


def check_hash() -> None:
    """Refuse to start with a hash function that would put envoys elsewhere than the stored rows."""
    found = position(RECORDED_KEY, 0)
    if found != RECORDED_POSITION:
        raise ConfigError(
            f"xxhash {xxhash.VERSION}: XXH3-128 of {RECORDED_KEY!r} is {found.hex()}, not {RECORDED_POSITION.hex()}; "
            "envoys would be searched at other places of the ring than they are stored at. Install the version "
            "that requirements/run.txt pins"
        )


def position(envoy_key: str, index: int) -> bytes:
    """Big-endian, so that byte order is numeric order."""
    return xxhash.xxh3_128_digest(envoy_key.encode(), seed=index)


def positions(envoy_key: str, begin: int, end: int) -> list[bytes]:
    raw = envoy_key.encode()
    return [xxhash.xxh3_128_digest(raw, seed=index) for index in range(begin, end)]
