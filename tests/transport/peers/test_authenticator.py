"""Who is accepted: certificates, signatures, stores on record, and cut links."""

import pytest

from epoxy.transport.http.request import HttpRequest
from epoxy.transport.peers.auth import OPERATOR, Verifier, sign
from epoxy.transport.peers.authenticator import Authenticator, Recognises
from epoxy.transport.peers.signed_header import SignedHeader
from epoxy.transport.wan.emulation import Link
from tests.api.http.http_bench import Wire
from tests.transport.wan.test_emulation import JumpingClock

SECRET, ME, SENDER, STORE, NOW_MS = b"secret", 2, 1, 0x57, 1_800_000_000_000


class Caller(Wire):
    """One signed request."""

    def __init__(self, *, sender: int = SENDER, secret: bytes = SECRET, certified: bool = False) -> None:
        signature, _ = sign(secret, SignedHeader(sender, ME, 1, NOW_MS, 7), b"/path", b"body")
        super().__init__(HttpRequest("POST", b"/path", b"", {b"authorization": signature}, b"body"))
        self.certified = certified
        self.is_peer = False

    def mark_as_peer(self) -> None:
        self.is_peer = True


def authenticator(
    *, link: Link | None = None, certificates: bool = False, recognises: Recognises = lambda _: True
) -> Authenticator:
    verifier = Verifier(ME, SECRET, store=STORE, now_ms=lambda: NOW_MS)
    return Authenticator(verifier, link=link, certificates=certificates, recognises=recognises)


def test_a_holder_of_the_secret_counts_as_a_peer() -> None:
    caller = Caller()
    signed = authenticator().authenticate(caller.exchange)
    assert signed is not None
    assert (signed.header.sender, signed.known, caller.is_peer) == (SENDER, True, True)


@pytest.mark.parametrize(
    ("caller", "certificates"), [(Caller(secret=b"other"), False), (Caller(sender=OPERATOR), False), (Caller(), True)]
)
def test_others_are_refused_and_count_as_clients(caller: Caller, certificates: bool) -> None:
    assert authenticator(certificates=certificates).verify(caller.exchange) is None
    assert caller.sent.startswith(b"HTTP/1.1 401 ")
    assert not caller.is_peer


def test_a_certificate_is_asked_for_beside_the_signature() -> None:
    assert authenticator(certificates=True).verify(Caller(certified=True).exchange) is not None


def test_another_store_is_refused() -> None:
    caller = Caller()
    assert authenticator(recognises=lambda _: False).authenticate(caller.exchange) is None
    assert caller.sent.startswith(b"HTTP/1.1 403 ")
    assert b"another_store" in caller.sent


@pytest.mark.parametrize(("recognised", "named"), [(True, b"%016x" % STORE), (None, b"%016x" % 0)])
def test_only_a_sender_on_record_is_told_our_store(recognised: bool | None, named: bytes) -> None:
    caller, mine = Caller(), authenticator(recognises=lambda _: recognised)
    signed = mine.authenticate(caller.exchange)
    assert signed is not None
    mine.respond(caller.exchange, signed, b"yes")
    assert b"epoxy-mac: %b," % named in caller.sent


def test_a_cut_link_neither_hears_nor_answers() -> None:
    link = Link(JumpingClock())
    link.cut(SENDER, sends=True, hears=False)
    deaf = Caller()
    assert authenticator(link=link).authenticate(deaf.exchange) is None
    link.cut(SENDER, sends=False, hears=True)
    mute = Caller()
    mine = authenticator(link=link)
    signed = mine.authenticate(mute.exchange)
    assert signed is not None
    mine.respond(mute.exchange, signed, b"yes")
    for caller in (deaf, mute):
        assert caller.sent.startswith(b"HTTP/1.1 504 ")
        assert b"link_cut" in caller.sent


@pytest.mark.pure("a frame that belongs to no connection")
def test_a_frame_from_a_removed_replica_is_refused() -> None:
    class Frame:
        header = SignedHeader(SENDER, ME, 1, NOW_MS, 7)
        failed = 0

        def fail(self, status: int, code: str, message: str) -> None:  # noqa: ARG002
            self.failed = status

    verifier = Verifier(ME, SECRET, admits=lambda sender, epoch: epoch > 1, store=STORE)  # noqa: ARG005
    frame = Frame()
    assert Authenticator(verifier).authenticate_frame(frame) is None  # type: ignore[arg-type]
    assert frame.failed == 401
