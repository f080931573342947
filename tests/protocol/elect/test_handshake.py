"""Fault 8: the control port trusts anyone. Fault 9: peers with different lists."""

import pytest
from msgspec.structs import replace

from epoxy.protocol.elect import handshake
from epoxy.protocol.elect.handshake import HandshakeRefused, Party, party_of
from epoxy.protocol.elect.lists import first
from epoxy_sim.elect.admission import admits, shake_hands
from tests.protocol.elect.bench import config_of

SECRET = b"sixteen bytes or more"


def party(me: str, names: str = "abc", **settings: object) -> Party:
    return replace(party_of(config_of(names), me, (SECRET,), first(config_of(names))), **settings)


def test_two_nodes_of_a_cluster_understand_each_other() -> None:
    shake_hands(party("a"), party("b"))


@pytest.mark.parametrize(
    ("stranger", "words"),
    [
        (party("a", secrets=(b"a guess of the same kind",)), "cluster.secret_file"),
        (party("a", cluster="other"), "cluster.name"),
        (party("z"), "nodes.id"),
        (party("a", config_hash="another"), "timing: 'a' has other timing"),
        (party("a", "abcde"), "nodes: 'a' counts another list"),
    ],
)
def test_fault_8_and_9_a_stranger_is_refused_with_the_setting(stranger: Party, words: str) -> None:
    with pytest.raises(HandshakeRefused, match=words):
        shake_hands(stranger, party("b"))
    assert not admits(party("b"), replace(stranger, known=frozenset("abc")))


def test_a_message_for_another_node_is_refused() -> None:
    greeting = handshake.hello(party("a"), "c", b"n" * handshake.NONCE_BYTES)
    with pytest.raises(HandshakeRefused, match="looking for 'c'"):
        handshake.check_hello(party("b"), greeting)


def test_another_version_is_refused() -> None:
    greeting = replace(handshake.hello(party("a"), "b", b"n" * handshake.NONCE_BYTES), version="1")
    with pytest.raises(HandshakeRefused, match="version '1'"):
        handshake.check_hello(party("b"), greeting)


def test_a_proof_cannot_be_sent_back_or_used_again() -> None:
    first = handshake.hello(party("a"), "b", b"1" * handshake.NONCE_BYTES)
    second = handshake.hello(party("b"), "a", b"2" * handshake.NONCE_BYTES)
    proof = handshake.prove(SECRET, "acceptor", first, second)
    handshake.check_proof((SECRET,), "acceptor", first, second, proof)
    for side, other in (("dialer", second), ("acceptor", replace(second, nonce="33" * handshake.NONCE_BYTES))):
        with pytest.raises(HandshakeRefused):
            handshake.check_proof((SECRET,), side, first, other, proof)
