"""Checks every request between replicas before its body is decoded, and authenticates the answers."""

from collections.abc import Callable

from epoxy.model.incarnation import StoreMismatch
from epoxy.model.versions import PeerVersions
from epoxy.transport.http.exchange import Exchange
from epoxy.transport.http.incoming import Refusal
from epoxy.transport.http.response import Headers
from epoxy.transport.peers.auth import OPERATOR, BadSignature, Verifier
from epoxy.transport.peers.frames import FrameExchange
from epoxy.transport.peers.negotiation import (
    PROTOCOL,
    SPEAKS_HEADER,
    known_versions,
    offer_text,
    verify_offer,
    version_of,
)
from epoxy.transport.peers.session import PeerSession, accept_handshake
from epoxy.transport.peers.signed_header import NO_GREETING, Signed, SignedHeader
from epoxy.transport.peers.store_gate import OpenGate, StoreGate
from epoxy.transport.wan.emulation import Link

LOST_STATUS = 504
"""The answer of an emulated link that is cut: treated as no answer."""

CUT = LOST_STATUS, "link_cut", "this link is cut on purpose"

WRONG_VERSION = "wrong_version"
"""The code of an answer to a handshake: the two ends have no version of the wire in common."""

HasLeft = Callable[[SignedHeader], bool]
"""Whether the sender is no member any more: it is answered with the configuration, and its store is not recorded."""


def has_none_left(header: SignedHeader) -> bool:  # noqa: ARG001
    return False


class Authenticator:
    def __init__(
        self,
        verifier: Verifier,
        gate: StoreGate | None = None,
        *,
        link: Link | None = None,
        certificates: bool = False,
        has_left: HasLeft = has_none_left,
        versions: PeerVersions | None = None,
    ) -> None:
        """`gate`: which stores are heard; without one, all. `certificates`: refuse connections without a client
        certificate. `versions`: of the wire, of this node and its peers."""
        self._verifier = verifier
        self._gate = gate if gate is not None else OpenGate()
        self._link = link
        self._certificates = certificates
        self._has_left = has_left
        self._versions = versions or known_versions(verifier.me)

    def accept(self, exchange: Exchange) -> PeerSession | None:
        """The server's end of a handshake, in the highest version that both ends speak. None: refused, and
        answered."""
        headers, mine = exchange.request.headers, self._versions.mine
        upgrade, offered = headers.get(b"upgrade", b""), headers.get(SPEAKS_HEADER)
        asked = version_of(upgrade)
        if asked is None or (offered is None and not mine.oldest <= asked <= mine.newest):
            # Before the signature is read: a release that makes no offers may sign in another way, too.
            asked_for = f"{upgrade.decode('ascii', 'replace')!r} was asked for"
            spoken = f"replica {self._versions.me} (release {mine.release}) speaks {PROTOCOL.decode()}{mine.text}"
            exchange.fail(400, WRONG_VERSION, f"{spoken}, and {asked_for}; see docs/upgrading.md for the order")
            return None
        signed = self.verify(exchange)
        if signed is None:
            return None
        sender = signed.header.sender
        theirs = verify_offer(signed.key.secret, signed.mac, offered) if offered is not None else None
        if offered is not None and (theirs is None or theirs.oldest != asked):
            why = "cannot be read, is not signed for this request, or begins with another version than was asked for"
            exchange.fail(400, WRONG_VERSION, f"the header {SPEAKS_HEADER.decode()} {why}")
            return None
        version = self._versions.heard(sender, theirs)
        if version is None:
            exchange.fail(400, WRONG_VERSION, self._versions.trouble(sender))
            return None
        session = self.open_session(signed, offer_text(mine) if offered is not None else b"")
        session.version = version
        return session

    def verify(self, exchange: Exchange) -> Signed | None:
        """Check that the sender holds the secret. None: refused, and answered."""
        request = exchange.request
        try:
            if self._certificates and not exchange.certified:
                raise BadSignature("peers show a certificate")
            signed = self._verifier.verify(request.headers, request.path, request.body)
            if signed.header.sender == OPERATOR:
                raise BadSignature("this address is for replicas, not for the operator")
        except BadSignature as refusal:
            exchange.fail(401, "unauthenticated", str(refusal))
            return None
        exchange.mark_as_peer()
        return signed

    def authenticate(self, exchange: Exchange) -> Signed | None:
        """As `verify`, and check that the sender's store is heard."""
        signed = self.verify(exchange)
        if signed is None:
            return None
        header = signed.header
        try:
            self._check_link(header)
            if self._has_left(header):
                return Signed(header, signed.mac, signed.key, known=False)
            self._check_request(header)
        except Refusal as refusal:
            exchange.fail(refusal.status, refusal.code, refusal.message)
            return None
        return signed

    def still_hears(self, header: SignedHeader) -> bool:
        """Of a connection that outlives its handshake: whether its sender is a member, and the link is not cut."""
        return not self._has_left(header) and (self._link is None or self._link.hears(header.sender))

    def _check_request(self, header: SignedHeader) -> None:
        """The position of a start that is on record is not judged: frames on another connection may have been faster.
        The sender compares its own with what the answer says is remembered here."""
        gate, sender, greeting = self._gate, header.sender, header.greeting
        gate.told(sender, greeting.known)
        if not gate.hear(sender, greeting.incarnation.nonce, greeting.position):
            refuse(gate.meet(sender, greeting, None))

    def authenticate_frame(self, exchange: FrameExchange) -> bool | None:
        """The same for a frame, whose seal is checked already: whether the sender's store is on record here. None:
        refused, and answered."""
        header = exchange.header
        try:
            self._verifier.check_membership(header)
            self._check_link(header)
            if self._has_left(header):
                return False
            refuse(exchange.start.refusal(exchange.position))
            return True
        except BadSignature as refused:
            exchange.fail(401, "unauthenticated", str(refused))
        except Refusal as refusal:
            exchange.fail(refusal.status, refusal.code, refusal.message)
        return None

    def open_session(self, signed: Signed, offer: bytes = b"") -> PeerSession:
        """A store that is refused refuses itself when it reads the answer, and sends no frame. So its start is judged
        here already, all but its position, for the sake of the log at this end."""
        header = signed.header
        session = accept_handshake(signed, self._gate, offer)
        is_heard = self._link is None or self._link.hears(header.sender)
        if is_heard and not self._has_left(header):
            self._gate.meet(header.sender, header.greeting, None)
        return session

    def respond(self, exchange: Exchange, signed: Signed, body: bytes, headers: Headers = ()) -> None:
        if self._is_cut_to(signed.header.sender):
            exchange.fail(*CUT)
        else:
            greeting = self._gate.greeting(signed.header.sender) if signed.known else NO_GREETING
            exchange.respond(200, body, headers=(self._verifier.answer(signed, 200, body, greeting), *headers))

    def respond_to_frame(self, exchange: FrameExchange, known: bool, took_us: int, body: bytes) -> None:
        if self._is_cut_to(exchange.header.sender):
            exchange.fail(*CUT)
        else:
            exchange.respond(200, body, took_us, known)

    def _is_cut_to(self, peer: int) -> bool:
        return self._link is not None and not self._link.sends(peer)

    def _check_link(self, header: SignedHeader) -> None:
        if self._link is not None and not self._link.hears(header.sender):
            raise Refusal(*CUT)


def refuse(mismatch: StoreMismatch | None) -> None:
    if mismatch is not None:
        raise Refusal(403, mismatch.code.value, mismatch.words)
