"""The keys of a connection, the seals of its frames, and whether its other end is heard."""

from epoxy.model.incarnation import Greeting, Incarnation, Sighting
from epoxy.transport.peers.keyring import SigningKey
from epoxy.transport.peers.session import (
    NONCE_BYTES,
    PeerSession,
    StartCheck,
    accept_handshake,
    conclude_handshake,
)
from epoxy.transport.peers.signed_header import Signed, SignedHeader
from epoxy.transport.peers.store_gate import OpenGate
from tests.transport.peers.pair import CLONE, HandGate

HEADER = SignedHeader(1, 2, 5, 1_800_000_000_000, 7)


GATE = OpenGate()


def session(
    *, secret: bytes = b"secret", mac: bytes = b"mac", nonce: bytes = bytes(NONCE_BYTES), gate: OpenGate = GATE
) -> PeerSession:
    return conclude_handshake(SigningKey(secret), mac, nonce, HEADER, gate.greeting(1), gate)


def test_requests_and_answers_have_different_keys() -> None:
    here = session()
    assert here.request_seals.next(b"head", b"body") != here.answer_seals.next(b"head", b"body")


def test_secret_handshake_nonce_and_greeting_are_all_part_of_the_keys() -> None:
    others = [session(secret=b"another"), session(mac=b"another"), session(nonce=b"n" * NONCE_BYTES)]
    others.append(session(gate=OpenGate(7)))
    seals = {each.request_seals.next(b"", b"body") for each in (session(), *others)}
    assert len(seals) == len({each.proof for each in (session(), *others)}) == 5
    assert session().request_seals.next(b"", b"body") in seals


def test_the_server_draws_a_nonce_for_each_handshake() -> None:
    one, other = (accept_handshake(Signed(HEADER, b"mac", SigningKey(b"secret")), GATE) for _ in range(2))
    assert len(one.nonce) == NONCE_BYTES
    assert one.nonce != other.nonce
    assert session(nonce=one.nonce).proof == one.proof


def test_a_frame_of_a_later_epoch_changes_the_epoch_alone() -> None:
    here = session()
    assert here.header_at(5) is HEADER
    later = here.header_at(6)
    assert later == SignedHeader(1, 2, 6, 1_800_000_000_000, 7)
    assert here.header_at(6) is later


THEIRS = Greeting(incarnation=Incarnation(store=9, counter=4, nonce=44, base=0), position=100)
TOLD = Sighting(store=9, counter=4, nonce=44, position=90)


def at(position: int) -> Greeting:
    return Greeting(incarnation=THEIRS.incarnation, position=position)


def test_a_start_is_judged_once_by_what_was_told_and_then_heard() -> None:
    gate = HandGate()
    check = StartCheck(gate, 2, THEIRS, TOLD)
    assert [check.refusal(position) for position in (95, 96, 97)] == [None] * 3
    check.close()
    assert gate.calls == [
        ("meet", (2, at(95), TOLD)),
        ("connected", (2, 44)),
        ("hear", (2, 44, 96)),
        ("hear", (2, 44, 97)),
        ("disconnected", (2, 44)),
    ]


def test_a_start_that_is_refused_is_judged_again_with_every_frame_and_never_counts_as_connected() -> None:
    """Another process of the same store may end meanwhile."""
    gate = HandGate()
    gate.mismatch = CLONE
    check = StartCheck(gate, 2, THEIRS, TOLD)
    assert [check.refusal(95), check.refusal(96)] == [gate.mismatch] * 2
    gate.mismatch = None
    assert check.refusal(97) is None
    assert gate.calls == [
        *(("meet", (2, at(position), TOLD)) for position in (95, 96, 97)),
        ("connected", (2, 44)),
    ]
    refused = StartCheck(HandGate(), 2, THEIRS, TOLD)
    refused.close()
    assert refused.gate.calls == []  # type: ignore[attr-defined]


def test_a_start_that_another_one_replaced_is_judged_by_what_is_on_record_now() -> None:
    """Not by what was told in the handshake, when the other one was not there yet."""
    gate = HandGate()
    check = StartCheck(gate, 2, THEIRS, TOLD)
    assert check.refusal(95) is None
    gate.hears, gate.mismatch = False, CLONE
    assert check.refusal(96) == gate.mismatch
    assert gate.of("meet") == [(2, at(95), TOLD), (2, at(96), None)]


def test_both_ends_say_what_they_remember_and_judge_the_other_by_it() -> None:
    """The client by the answer to its handshake, the server by the first frame that follows its own."""
    client, server = HandGate(5, nonce=50, position=7), HandGate(6, nonce=60, position=8)
    client.known = Sighting(store=6, counter=1, nonce=60, position=8)
    server.known = Sighting(store=5, counter=1, nonce=50, position=7)
    header = SignedHeader(1, 2, 5, 1_800_000_000_000, 7, client.greeting(2))
    there = accept_handshake(Signed(header, b"mac", SigningKey(b"secret")), server)
    here = conclude_handshake(SigningKey(b"secret"), b"mac", there.nonce, header, server.greeting(1), client)
    assert here.proof == there.proof
    assert server.calls == [("told", (1, client.known))]
    there.start.refusal(9)
    here.start.refusal(8)
    assert server.of("meet") == [
        (1, Greeting(incarnation=client.incarnation, position=9, known=client.known), server.known)
    ]
    assert client.of("meet") == [(2, server.greeting(1), client.known)]
