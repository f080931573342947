"""Seals of frames: what is accepted, and where."""

import hmac

from epoxy.codec.seals import SEAL_BYTES, Seals


def test_a_seal_is_valid_at_its_own_place_alone() -> None:
    key = b"k" * 32
    seals = Seals(key)
    first, second = seals.next(b"", b"body"), seals.next(b"", b"body")
    assert first != second
    assert Seals(key).matches(first, b"", b"body")
    assert not Seals(key).matches(second, b"", b"body"), "the one before is missing"
    again = Seals(key)
    assert again.matches(first, b"", b"body")
    assert not again.matches(first, b"", b"body"), "a repetition"


def test_a_seal_is_an_hmac_over_the_number_and_the_frame() -> None:
    for key in (b"k" * 32, b"k" * 100):
        seals = Seals(key)
        for number in range(3):
            said = number.to_bytes(8, "little") + b"headbody"
            assert seals.next(b"head", b"body") == hmac.digest(key, said, "sha256")
    assert len(Seals(b"").next(b"", b"")) == SEAL_BYTES


def test_a_wrong_seal_is_refused_whatever_its_length() -> None:
    seal = Seals(b"k").next(b"", b"body")
    for wrong in (b"", seal[:-1], seal + b"x", bytes([seal[0] ^ 1]) + seal[1:]):
        assert not Seals(b"k").matches(wrong, b"", b"body")
    assert not Seals(b"k").matches(seal, b"", b"bodY")
    assert not Seals(b"other").matches(seal, b"", b"body")
