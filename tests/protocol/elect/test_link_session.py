"""Control connections without sockets: which frames are believed, and which end the connection."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from epoxy.codec.resp import CommandReader
from epoxy.codec.seals import Seals
from epoxy.model.errors import CodecError, InvalidValue
from epoxy.protocol.elect import codec, handshake, link_session
from epoxy.protocol.elect.handshake import HandshakeRefused, Party
from epoxy.protocol.elect.link_session import AcceptorSession, DialerSession, WrongSeal
from epoxy.protocol.elect.messages import Acceptance, Message
from epoxy_sim.elect.admission import one, shake_hands
from tests.protocol.elect.test_codec import messages
from tests.protocol.elect.test_handshake import party

OLD, NEW = b"the old secret, 16+", b"the new secret, 16+"
VOTE = Acceptance(epoch=3, node="a", candidate="b")


def pair(dialer: Party | None = None, acceptor: Party | None = None) -> tuple[DialerSession, AcceptorSession]:
    return shake_hands(dialer or party("a"), acceptor or party("b"))


def sealed(session: DialerSession, message: Message = VOTE) -> list[bytes]:
    return one(session.seal(codec.encode(message)))


@given(st.lists(messages, max_size=5))
def test_every_message_arrives_as_it_was_sent(sent: list[Message]) -> None:
    calling, called = pair()
    assert called.sender == "a"
    for each in sent:
        message = replace(each, node="a")
        assert called.open(sealed(calling, message)) == message


def test_a_frame_is_believed_once_and_at_its_own_place() -> None:
    frames = [replace(VOTE, epoch=epoch) for epoch in range(4)]

    def arrive(order: list[int]) -> int:
        """How many are believed before the connection ends."""
        calling, called = pair()
        bytes_of = [sealed(calling, each) for each in frames]
        for count, i in enumerate(order):
            try:
                assert called.open(bytes_of[i]) == frames[i]
            except WrongSeal:
                return count
        return len(order)

    assert arrive([0, 1, 2, 3]) == 4
    assert arrive([0, 0, 1]) == 1, "repeated"
    assert arrive([1]) == 0, "one left out"
    assert arrive([0, 2, 1]) == 1, "in another order"


def test_no_changed_bit_is_believed() -> None:
    dice = random.Random(7)
    for _ in range(300):
        calling, called = pair()
        frame = sealed(calling)
        word = dice.randrange(2)
        place = dice.randrange(len(frame[word]))
        changed = bytearray(frame[word])
        changed[place] ^= 1 << dice.randrange(8)
        frame[word] = bytes(changed)
        with pytest.raises(WrongSeal):
            called.open(frame)


def test_frames_of_one_connection_are_refused_on_every_other() -> None:
    """Each side's nonce alone makes another key: neither can be made to use an old one."""

    def connected(mine: bytes, theirs: bytes) -> tuple[DialerSession, AcceptorSession]:
        calling, called = DialerSession(party("a"), "b", mine * handshake.NONCE_BYTES), AcceptorSession()
        answer = called.greet(party("b"), one(calling.greeting), theirs * handshake.NONCE_BYTES)
        called.conclude(one(calling.conclude(one(answer))))
        return calling, called

    recorded = sealed(connected(b"1", b"2")[0])
    assert connected(b"1", b"2")[1].open(recorded) == VOTE
    for mine, theirs in ((b"1", b"3"), (b"3", b"2")):
        with pytest.raises(WrongSeal):
            connected(mine, theirs)[1].open(recorded)


@pytest.mark.parametrize("frame", [[], [b""], [b"x" * 32], [b"x" * 32, codec.encode(VOTE), b""], [codec.encode(VOTE)]])
def test_a_frame_without_a_seal_is_not_looked_into(frame: list[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    _, called = pair()
    monkeypatch.setattr(codec, "decode", lambda _: pytest.fail("read before it was trusted"))
    with pytest.raises(WrongSeal):
        called.open(frame)


def test_a_member_speaks_for_itself_alone_and_in_whole_messages() -> None:
    calling, called = pair()
    with pytest.raises(HandshakeRefused, match="'a' sent a message in the name of 'c'"):
        called.open(sealed(calling, replace(VOTE, node="c")))
    for garbage in (
        b"",
        codec.encode(VOTE) * 2,
        codec.encode(VOTE)[:-1],
        b"*1\r\n$4\r\nNOPE\r\n",
        b"\r\n" + codec.encode(VOTE),
    ):
        calling, called = pair()
        with pytest.raises(CodecError):
            called.open(one(calling.seal(garbage)))
    with pytest.raises(InvalidValue, match="exactly one"):
        link_session.words_of(b"*1\r\n$4\r\nPI")


def test_the_longest_message_fits_into_a_sealed_frame() -> None:
    words = [b"COUNTED", *[b"x" * 100] * 10, b"y" * (codec.MAX_LISTS_BYTES)]
    message = b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)
    assert len(message) <= codec.MAX_SEALED_BYTES
    calling, _ = pair()
    reader = CommandReader(codec.LINK_LIMITS)
    assert reader.feed(calling.seal(message))[0][1] == message
    assert link_session.words_of(message) == words


# While a secret is being replaced


@pytest.mark.parametrize(
    ("dialer", "acceptor", "spoken"),
    [
        ((OLD,), (OLD, NEW), OLD),
        ((OLD, NEW), (OLD,), OLD),
        ((OLD, NEW), (NEW, OLD), NEW),
        ((NEW, OLD), (OLD, NEW), OLD),
        ((NEW,), (NEW, OLD), NEW),
        ((NEW, OLD), (NEW,), NEW),
    ],
)
def test_each_step_of_a_rotation_understands_the_next(
    dialer: tuple[bytes, ...], acceptor: tuple[bytes, ...], spoken: bytes
) -> None:
    calling, called = pair(party("a", secrets=dialer), party("b", secrets=acceptor))
    assert (calling.secret, called.secret) == (spoken, spoken)
    assert called.open(sealed(calling)) == VOTE


def test_a_secret_that_was_removed_opens_nothing() -> None:
    for dialer, acceptor in (((OLD,), (NEW,)), ((NEW,), (OLD,)), ((OLD,), (NEW, OLD))):
        with pytest.raises(HandshakeRefused, match="secret_file"):
            pair(party("a", secrets=dialer), party("b", secrets=acceptor))


# Another version


def test_an_agent_of_another_version_is_told_ours_and_nothing_else() -> None:
    old = replace(handshake.hello(party("a"), "b", b"n" * handshake.NONCE_BYTES), version="2")
    with pytest.raises(HandshakeRefused, match="version '2' of the protocol; this node speaks 3") as refused:
        AcceptorSession().greet(party("b"), one(codec.encode_hello(old)), b"m" * handshake.NONCE_BYTES)
    answer, proof = codec.decode_hello(one(link_session.refusal(refused.value)))
    assert (answer.version, proof) == (handshake.VERSION, "")
    assert set(answer.words()[1:]) == {""}
    assert link_session.refusal(HandshakeRefused("cluster.name")) == b""


# The checks can fail


def test_a_session_without_running_numbers_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted fault: seals are made without their place. Then a repetition is believed."""

    class Unnumbered(Seals):
        def next(self, head: bytes, body: bytes) -> bytes:
            self._number = 0
            return super().next(head, body)

    monkeypatch.setattr(link_session, "Seals", Unnumbered)
    with pytest.raises(AssertionError):
        test_a_frame_is_believed_once_and_at_its_own_place()


def test_a_key_without_nonces_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    derive = handshake.derive

    def without(secret: bytes, purpose: str, *hellos: handshake.ElectHello) -> bytes:
        return derive(secret, purpose, *(replace(hello, nonce="") for hello in hellos))

    monkeypatch.setattr(handshake, "derive", without)
    with pytest.raises(pytest.fail.Exception):
        test_frames_of_one_connection_are_refused_on_every_other()
