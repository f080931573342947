"""Signatures: what is let in, once, and what is not."""

from collections.abc import Iterator
from itertools import count

import pytest

from epoxy.model.incarnation import Greeting, Incarnation, Sighting
from epoxy.transport.peers import auth
from epoxy.transport.peers.auth import (
    MAX_NONCES,
    MAX_SENDERS,
    OPERATOR,
    WINDOW_MS,
    BadSignature,
    Verifier,
)
from epoxy.transport.peers.signed_header import Signed, SignedHeader

SECRET = b"a secret of the whole cluster"
PATH = b"/v2/epoxy/message"
BODY = b"body"
GREETING = Greeting(
    incarnation=Incarnation(store=6, counter=7, nonce=8, base=9),
    position=10,
    known=Sighting(store=11, counter=12, nonce=13, position=14),
)
GREETING_TEXT = b"0000000000000006,7,0000000000000008,9,10,000000000000000b,12,000000000000000d,14"
NOW = 1_800_000_000_000


class Ground:
    """A verifier, its clock, and a sender who may be asked to lie."""

    def __init__(self) -> None:
        self.now_ms = NOW
        self.verifier = Verifier(
            2, SECRET, admits=lambda sender, epoch: sender < 9 or epoch > 5, now_ms=lambda: self.now_ms
        )
        self.nonces: Iterator[int] = count(1)

    def header(
        self, *, sender: int = 1, epoch: int = 5, recipient: int = 2, age_ms: int = 0, nonce: int = 0
    ) -> SignedHeader:
        return SignedHeader(sender, recipient, epoch, self.now_ms - age_ms, nonce or next(self.nonces), GREETING)

    def enter(self, header: SignedHeader, *, secret: bytes = SECRET, path: bytes = PATH, body: bytes = BODY) -> Signed:
        value, _ = auth.sign(secret, header, PATH, BODY)
        return self.verifier.verify({b"authorization": value}, path, body)


@pytest.fixture
def ground() -> Ground:
    return Ground()


def test_a_peer_is_let_in_and_known(ground: Ground) -> None:
    header = ground.header()
    assert ground.enter(header).header == header


def test_the_bytes_of_a_signature() -> None:
    """Written down, so that a change of format is noticed before an upgrade is. The MACs were made with openssl."""
    value, mac = auth.sign(b"secret", SignedHeader(1, 2, 3, 4, 5, GREETING), b"/path", b"body")
    assert value == b"Epoxy v3,1,2,3,4,0000000000000005," + GREETING_TEXT + b"," + mac
    assert mac == b"643d132685a69dbb944181073c63707292c7d34d042e46eb746e361b76e51512"
    assert (
        auth.answer_mac(b"secret", b"mac", 200, GREETING_TEXT, b"body")
        == b"725c44156b51d4882f0473ded2bc7bf0c5948ad2036394e2f48b6c8ea7f3933f"
    )


def test_who_does_not_know_the_secret_is_refused(ground: Ground) -> None:
    with pytest.raises(BadSignature, match="not signed with our secret"):
        ground.enter(ground.header(), secret=b"another secret")


def test_what_was_signed_cannot_be_changed(ground: Ground) -> None:
    with pytest.raises(BadSignature, match="not signed with our secret"):
        ground.enter(ground.header(), body=b"badly")
    with pytest.raises(BadSignature, match="not signed with our secret"):
        ground.enter(ground.header(), path=b"/v2/admin/links")
    genuine = auth.sign(SECRET, ground.header(), PATH, BODY)[0].split(b",")
    changes = [b"3", b"7", b"6", b"%d" % (NOW + 1), b"%016x" % 99]
    changes += [b"%016x" % 98, b"98", b"%016x" % 98, b"98", b"98"]
    changes += [b"%016x" % 98, b"98", b"%016x" % 98, b"98", b"0" * 64]
    for field, other in enumerate(changes, start=1):
        changed = [*genuine[:field], other, *genuine[field + 1 :]]
        with pytest.raises(BadSignature, match="not signed with our secret"):
            ground.verifier.verify({b"authorization": b",".join(changed)}, PATH, BODY)


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"Basic YTpi",
        b"Epoxy v3,",
        b"Epoxy v3,1,2,3,4,5,6",
        b"Epoxy v3,1,2,5,1,0000000000000001,%b,7,00" % GREETING_TEXT,
        b"Epoxy v3,1,2,5,1,0000000000000001,%b" % GREETING_TEXT,
        b"Epoxy v3,one,2,5,1,0000000000000001,%b,00" % GREETING_TEXT,
        b"Epoxy v3,\xff,2,5,1,0000000000000001,%b,00" % GREETING_TEXT,
        b"Epoxy v3,%b,2,5,1,0000000000000001,%b,00" % (b"9" * 5000, GREETING_TEXT),
        b"Epoxy v3,1,2,5,1,0000000000000001,%b,00" % GREETING_TEXT.replace(b"14", b"-14"),
        b"Epoxy v3,1,2,5,1,0000000000000001,%b,00" % GREETING_TEXT.replace(b"14", b"%d" % (1 << 64)),
    ],
)
def test_what_is_no_signature_is_refused(ground: Ground, value: bytes) -> None:
    with pytest.raises(BadSignature):
        ground.verifier.verify({b"authorization": value}, PATH, BODY)
    with pytest.raises(BadSignature, match="not signed"):
        ground.verifier.verify({}, PATH, BODY)


@pytest.mark.parametrize("spelling", [b"+1", b"01", b" 1", b"1_0"])
def test_a_number_has_one_spelling(ground: Ground, spelling: bytes) -> None:
    """Signed as it stands by somebody who knows the secret, even."""
    words = b"%b,2,5,%d,0000000000000001,%b" % (spelling, NOW, GREETING_TEXT)
    mac = auth.request_mac(SECRET, words, PATH, BODY)
    with pytest.raises(BadSignature, match="spelling"):
        ground.verifier.verify({b"authorization": b"Epoxy v3,%b,%b" % (words, mac)}, PATH, BODY)


def test_a_request_for_another_replica_is_refused(ground: Ground) -> None:
    with pytest.raises(BadSignature, match="meant for replica 3"):
        ground.enter(ground.header(recipient=3))


def test_a_clock_too_far_away_is_named(ground: Ground) -> None:
    ground.enter(ground.header(age_ms=WINDOW_MS))
    ground.enter(ground.header(age_ms=-WINDOW_MS))
    for age_ms in (WINDOW_MS + 1, -WINDOW_MS - 1):
        with pytest.raises(BadSignature, match="compare them"):
            ground.enter(ground.header(age_ms=age_ms))
    with pytest.raises(BadSignature, match="the sender's clock is 95 s behind that of replica 2, more than 30"):
        ground.enter(ground.header(age_ms=95_000))
    with pytest.raises(BadSignature, match="the sender's clock is 95 s ahead of that of replica 2"):
        ground.enter(ground.header(age_ms=-95_000))


def test_a_stranger_is_refused_unless_its_epoch_is_new_to_us(ground: Ground) -> None:
    with pytest.raises(BadSignature, match="replica 9 has no part in epoch 5"):
        ground.enter(ground.header(sender=9, epoch=5))
    assert ground.enter(ground.header(sender=9, epoch=6)).header.sender == 9
    assert ground.enter(ground.header(sender=OPERATOR)).header.sender == OPERATOR


def test_a_repetition_is_refused_by_the_next_process_too() -> None:
    """It does not remember the nonce; the time tells that another one may have accepted it."""
    ground = Ground()
    header = ground.header(age_ms=1)
    ground.enter(header)
    ground.verifier = Verifier(2, SECRET, since_ms=NOW, now_ms=lambda: ground.now_ms)
    with pytest.raises(BadSignature, match="before replica 2 started"):
        ground.enter(header)
    ground.enter(ground.header())


def test_a_repetition_is_refused_as_long_as_its_time_would_do(ground: Ground) -> None:
    header = ground.header(age_ms=-WINDOW_MS)
    ground.enter(header)
    while ground.now_ms <= header.time_ms + WINDOW_MS:
        with pytest.raises(BadSignature, match="a repetition"):
            ground.enter(header)
        ground.now_ms += 7_000
        ground.enter(ground.header())
    with pytest.raises(BadSignature, match="compare them"):
        ground.enter(header)


def test_two_senders_may_draw_the_same_nonce(ground: Ground) -> None:
    ground.enter(ground.header(sender=1, nonce=77))
    ground.enter(ground.header(sender=3, nonce=77))


def test_what_is_forgotten_for_want_of_room_is_refused_by_its_age(ground: Ground) -> None:
    first = ground.header()
    ground.enter(first)
    for _ in range(2 * MAX_NONCES):
        ground.now_ms += 1
        ground.enter(ground.header())
    with pytest.raises(BadSignature, match="a repetition"):
        ground.enter(first)
    late = ground.header(age_ms=MAX_NONCES // 2)
    ground.enter(late)
    with pytest.raises(BadSignature, match="a repetition"):
        ground.enter(late)


def test_one_fast_clock_locks_nobody_else_out(ground: Ground) -> None:
    for _ in range(3 * MAX_NONCES):
        ground.enter(ground.header(sender=3, age_ms=-WINDOW_MS))
        ground.now_ms += 1
    ground.enter(ground.header(sender=1))


def test_memory_is_bounded() -> None:
    ground = Ground()
    for sender in range(MAX_SENDERS):
        ground.enter(ground.header(sender=sender, epoch=9))
    with pytest.raises(BadSignature, match="other senders"):
        ground.enter(ground.header(sender=MAX_SENDERS, epoch=9))
    nonces = auth.Nonces()
    for number in range(5 * MAX_NONCES):
        assert nonces.add(number, NOW + number, NOW)
    assert len(nonces._young) + len(nonces._old) <= 2 * MAX_NONCES


def test_an_answer_belongs_to_its_request(ground: Ground) -> None:
    one, other = ground.enter(ground.header()), ground.enter(ground.header())
    name, value = ground.verifier.answer(one, 200, b"yes", GREETING)
    text, _, mac = value.rpartition(b",")
    assert (name, text) == (auth.MAC_HEADER, GREETING_TEXT)
    assert auth.greeting_of(SECRET, one.mac, 200, value, b"yes") == GREETING
    for parts in [
        (SECRET, other.mac, 200, value, b"yes"),
        (SECRET, one.mac, 201, value, b"yes"),
        (SECRET, one.mac, 200, value, b"no"),
        (SECRET, one.mac, 200, b"%b,%b" % (text.replace(b"14", b"15"), mac), b"yes"),
        (SECRET, one.mac, 200, mac, b"yes"),
        (SECRET, one.mac, 200, b"", b"yes"),
        (SECRET, one.mac, 200, b"x," + auth.answer_mac(SECRET, one.mac, 200, b"x", b"yes"), b"yes"),
        (b"x", one.mac, 200, value, b"yes"),
    ]:
        assert auth.greeting_of(*parts) is None


def test_a_signature_of_another_release_is_told_from_none(ground: Ground) -> None:
    with pytest.raises(BadSignature, match="another release does: this one speaks Epoxy v3"):
        ground.verifier.verify({b"authorization": b"Epoxy v2,1,2,5,1,1,2,00"}, PATH, BODY)
