"""Fault 8: the control port trusts anyone. Fault 9: peers with different lists."""

import pytest
from msgspec.structs import replace

from epoxy.elect import hello
from epoxy.elect.hello import Party, Refused, party_of
from epoxy.elect.lists import first
from epoxy.sim.elect.admission import admits, shake_hands
from tests.elect.bench import config_of

SECRET = b"sixteen bytes or more"


def party(me: str, names: str = "abc", **settings: object) -> Party:
    return replace(party_of(config_of(names), me, SECRET, first(config_of(names))), **settings)


def test_two_nodes_of_a_cluster_understand_each_other() -> None:
    shake_hands(party("a"), party("b"))


@pytest.mark.parametrize(
    ("stranger", "words"),
    [
        (party("a", secret=b"a guess of the same kind"), "cluster.secret_file"),
        (party("a", cluster="other"), "cluster.name"),
        (party("z"), "nodes.id"),
        (party("a", config_hash="another"), "timing: 'a' has other times"),
        (party("a", "abcde"), "nodes: 'a' counts another list"),
    ],
)
def test_fault_8_and_9_who_does_not_belong_is_refused_with_the_setting(stranger: Party, words: str) -> None:
    with pytest.raises(Refused, match=words):
        shake_hands(stranger, party("b"))
    assert not admits(party("b"), replace(stranger, known=frozenset("abc")))


def test_a_message_for_another_node_is_refused() -> None:
    greeting = hello.hello(party("a"), "c", b"n" * hello.NONCE_BYTES)
    with pytest.raises(Refused, match="looking for 'c'"):
        hello.check_hello(party("b"), greeting)


def test_another_version_is_refused() -> None:
    greeting = replace(hello.hello(party("a"), "b", b"n" * hello.NONCE_BYTES), version="1")
    with pytest.raises(Refused, match="version '1'"):
        hello.check_hello(party("b"), greeting)


def test_a_proof_cannot_be_sent_back_or_used_again() -> None:
    first = hello.hello(party("a"), "b", b"1" * hello.NONCE_BYTES)
    second = hello.hello(party("b"), "a", b"2" * hello.NONCE_BYTES)
    proof = hello.prove(SECRET, "acceptor", first, second)
    hello.check_proof(SECRET, "acceptor", first, second, proof)
    for side, other in (("dialer", second), ("acceptor", replace(second, nonce="33" * hello.NONCE_BYTES))):
        with pytest.raises(Refused):
            hello.check_proof(SECRET, side, first, other, proof)
