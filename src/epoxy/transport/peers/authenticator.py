"""Checks every request between replicas before its body is decoded, and authenticates the answers."""

from collections.abc import Callable

from epoxy.model.incarnation import StoreMismatch
from epoxy.transport.http.exchange import Exchange
from epoxy.transport.http.incoming import Refusal
from epoxy.transport.http.response import Headers
from epoxy.transport.peers.auth import OPERATOR, BadSignature, Verifier
from epoxy.transport.peers.frames import PROTOCOL, FrameExchange
from epoxy.transport.peers.session import PeerSession, accept_handshake
from epoxy.transport.peers.signed_header import NO_GREETING, Signed, SignedHeader
from epoxy.transport.peers.store_gate import OpenGate, StoreGate
from epoxy.transport.wan.emulation import Link

LOST_STATUS = 504
"""The answer of an emulated link that is cut: treated as no answer."""

CUT = LOST_STATUS, "link_cut", "this link is cut on purpose"

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
    ) -> None:
        """`gate`: which stores are heard; without one, all. `certificates`: refuse connections without a client
        certificate."""
        self._verifier = verifier
        self._gate = gate if gate is not None else OpenGate()
        self._link = link
        self._certificates = certificates
        self._has_left = has_left

    def verify_handshake(self, exchange: Exchange) -> Signed | None:
        """As `verify`. The version of frames is checked first: another release may sign in another way."""
        asked = exchange.request.headers.get(b"upgrade", b"").lower()
        if asked == PROTOCOL:
            return self.verify(exchange)
        spoken = f"this address speaks {PROTOCOL.decode()}, and {asked.decode('ascii', 'replace')!r} was asked for"
        exchange.fail(400, "bad_request", f"{spoken}; both nodes need the same release of Epoxy")
        return None

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

    def open_session(self, signed: Signed) -> PeerSession:
        """A store that is refused refuses itself when it reads the answer, and sends no frame. So its start is judged
        here already, all but its position, for the sake of the log at this end."""
        header = signed.header
        session = accept_handshake(signed, self._gate)
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
