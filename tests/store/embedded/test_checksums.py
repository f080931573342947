"""Checksums of rows: every bit of key, value and checksum counts."""

from collections.abc import Iterator

import pytest

from epoxy.store.embedded.checksums import CHECKSUM_BYTES, ROTTEN, seal, unseal

KEY, VALUE = b"user/ada", b"eu-west-1"


@pytest.mark.parametrize("value", [b"", VALUE, bytes(100_000)])
def test_what_was_sealed_is_read(value: bytes) -> None:
    assert unseal(KEY, seal(KEY, value)) == value


def test_every_bit_counts() -> None:
    sealed = seal(KEY, VALUE)
    assert len(sealed) == CHECKSUM_BYTES + len(VALUE)
    assert all(unseal(KEY, changed) is ROTTEN for changed in flips(sealed))
    assert all(unseal(changed, sealed) is ROTTEN for changed in flips(KEY))


def flips(data: bytes) -> Iterator[bytes]:
    for place in range(len(data)):
        for bit in range(8):
            yield data[:place] + bytes((data[place] ^ 1 << bit,)) + data[place + 1 :]


def test_bytes_that_move_from_key_to_value_are_noticed() -> None:
    assert unseal(KEY[:-1], seal(KEY, VALUE)[:CHECKSUM_BYTES] + KEY[-1:] + VALUE) is ROTTEN


@pytest.mark.parametrize("length", range(CHECKSUM_BYTES))
def test_a_row_that_is_too_short_is_rotten(length: int) -> None:
    assert unseal(KEY, bytes(length)) is ROTTEN


def test_a_value_that_looks_like_the_mark_is_a_value() -> None:
    assert unseal(KEY, seal(KEY, b"rotten")) is not ROTTEN


def test_the_checksum_is_the_one_on_disks() -> None:
    """Another number would take every row of every disk for rotten."""
    assert seal(KEY, VALUE).hex() == "7ae83d6f7b58f98f65752d776573742d31"
