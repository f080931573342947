"""The keys of a connection and the seals of its frames."""

from epoxy.transport.peers.session import NONCE_BYTES, PeerSession, Seals, accept_handshake
from epoxy.transport.peers.signed_header import Signed, SignedHeader

HEADER = SignedHeader(1, 2, 5, 1_800_000_000_000, 7, 8)


def session(*, secret: bytes = b"secret", mac: bytes = b"mac", nonce: bytes = bytes(NONCE_BYTES)) -> PeerSession:
    return PeerSession(secret, mac, nonce, HEADER)


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


def test_requests_and_answers_have_different_keys() -> None:
    here = session()
    assert here.request_seals.next(b"head", b"body") != here.answer_seals.next(b"head", b"body")


def test_secret_handshake_and_nonce_are_all_part_of_the_keys() -> None:
    others = [session(secret=b"another"), session(mac=b"another"), session(nonce=b"n" * NONCE_BYTES)]
    seals = {each.request_seals.next(b"", b"body") for each in (session(), *others)}
    assert len(seals) == len({each.proof for each in (session(), *others)}) == 4
    assert session().request_seals.next(b"", b"body") in seals


def test_the_server_draws_a_nonce_for_each_handshake() -> None:
    one, other = (accept_handshake(b"secret", Signed(HEADER, b"mac")) for _ in range(2))
    assert len(one.nonce) == NONCE_BYTES
    assert one.nonce != other.nonce
    assert session(nonce=one.nonce).proof == one.proof


def test_a_frame_of_a_later_epoch_changes_the_epoch_alone() -> None:
    here = session()
    assert here.header_at(5) is HEADER
    later = here.header_at(6)
    assert later == SignedHeader(1, 2, 6, 1_800_000_000_000, 7, 8)
    assert here.header_at(6) is later
