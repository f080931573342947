"""Who is accepted: certificates, signatures, stores on record, and cut links."""

from functools import partial

import pytest

from epoxy.model.incarnation import MismatchCode, StoreMismatch
from epoxy.transport.http.request import HttpRequest
from epoxy.transport.peers.auth import OPERATOR, Verifier, sign
from epoxy.transport.peers.authenticator import Authenticator, HasLeft, has_none_left
from epoxy.transport.peers.signed_header import SignedHeader
from epoxy.transport.peers.store_gate import OpenGate
from epoxy.transport.wan.emulation import Link
from tests.api.http.http_bench import Wire
from tests.transport.peers.pair import HandGate
from tests.transport.peers.test_auth import GREETING
from tests.transport.wan.test_emulation import JumpingClock

SECRET, ME, SENDER, STORE, NOW_MS = b"secret", 2, 1, 0x57, 1_800_000_000_000


class Caller(Wire):
    """One signed request."""

    def __init__(
        self, *, sender: int = SENDER, secret: bytes = SECRET, certified: bool = False, upgrade: bytes = b""
    ) -> None:
        signature, _ = sign(secret, SignedHeader(sender, ME, 1, NOW_MS, 7, GREETING), b"/path", b"body")
        headers = {b"authorization": signature, b"upgrade": upgrade}
        super().__init__(HttpRequest("POST", b"/path", b"", headers, b"body"))
        self.certified = certified
        self.is_peer = False

    def mark_as_peer(self) -> None:
        self.is_peer = True


def authenticator(
    gate: OpenGate | None = None,
    *,
    link: Link | None = None,
    certificates: bool = False,
    has_left: HasLeft = has_none_left,
) -> Authenticator:
    verifier = Verifier(ME, SECRET, now_ms=lambda: NOW_MS)
    return Authenticator(verifier, gate or OpenGate(STORE), link=link, certificates=certificates, has_left=has_left)


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


def test_a_start_on_record_is_heard_without_being_judged_again() -> None:
    """Its position may have been overtaken by that of a frame."""
    gate = HandGate(STORE)
    assert authenticator(gate).authenticate(Caller().exchange) is not None
    assert gate.calls == [("told", (SENDER, GREETING.known)), ("hear", (SENDER, 8, 10))]


@pytest.mark.parametrize("mismatch", [None, StoreMismatch(MismatchCode.OLD_COPY, "an older copy")])
def test_a_start_that_is_not_on_record_is_judged_and_told_why(mismatch: StoreMismatch | None) -> None:
    caller, gate = Caller(), HandGate(STORE)
    gate.hears, gate.mismatch = False, mismatch
    assert (authenticator(gate).authenticate(caller.exchange) is None) is (mismatch is not None)
    assert gate.of("meet") == [(SENDER, GREETING, None)]
    if mismatch is not None:
        assert caller.sent.startswith(b"HTTP/1.1 403 ")
        assert b'"old_copy"' in caller.sent
        assert b"an older copy" in caller.sent


def test_one_that_left_is_answered_and_not_met() -> None:
    gate = HandGate(STORE)
    signed = authenticator(gate, has_left=lambda _: True).authenticate(Caller().exchange)
    assert signed is not None
    assert not signed.known
    assert gate.calls == []


def constant(answer: bool, _: SignedHeader) -> bool:
    return answer


def test_a_handshake_is_judged_for_the_log_unless_its_sender_left_or_is_cut_off() -> None:
    link = Link(JumpingClock())
    for has_left, is_cut, judged in ((False, False, 1), (True, False, 0), (False, True, 0)):
        gate = HandGate(STORE)
        if is_cut:
            link.cut(SENDER)
        mine = authenticator(gate, link=link, has_left=partial(constant, has_left))
        signed = mine.verify(Caller().exchange)
        assert signed is not None
        mine.open_session(signed)
        assert gate.of("meet") == [(SENDER, GREETING, None)] * judged


def test_another_version_of_frames_is_named_with_ours() -> None:
    caller = Caller(upgrade=b"epoxy-frames/2")
    assert authenticator().accept(caller.exchange) is None
    assert caller.sent.startswith(b"HTTP/1.1 400 ")
    assert b"speaks epoxy-frames/5, and 'epoxy-frames/2' was asked for" in caller.sent


@pytest.mark.parametrize(("has_left", "named"), [(False, b"%016x" % STORE), (True, b"%016x" % 0)])
def test_only_a_sender_on_record_is_told_our_store(has_left: bool, named: bytes) -> None:
    caller, mine = Caller(), authenticator(has_left=lambda _: has_left)
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

    verifier = Verifier(ME, SECRET, admits=lambda sender, epoch: epoch > 1)  # noqa: ARG005
    frame = Frame()
    assert Authenticator(verifier).authenticate_frame(frame) is None  # type: ignore[arg-type]
    assert frame.failed == 401
