"""Checks every request between replicas before its body is decoded, and authenticates the answers."""

from collections.abc import Callable

from epoxy.transport.http.exchange import Exchange
from epoxy.transport.http.incoming import Refusal
from epoxy.transport.http.response import Headers
from epoxy.transport.peers.auth import OPERATOR, Unauthenticated, Verifier
from epoxy.transport.peers.frames import FrameExchange
from epoxy.transport.peers.session import PeerSession, accept_handshake
from epoxy.transport.peers.signed_header import Signed, SignedHeader
from epoxy.transport.wan.emulation import Link

LOST_STATUS = 504
"""The answer of an emulated link that is cut: treated as no answer."""

CUT = LOST_STATUS, "link_cut", "this link is cut on purpose"

Recognises = Callable[[SignedHeader], bool | None]
"""Whether the sender's store is the one on record for its id. None: there is none on record, but it is answered."""


def recognise_all(header: SignedHeader) -> bool:  # noqa: ARG001
    return True


class Authenticator:
    def __init__(
        self,
        verifier: Verifier,
        *,
        link: Link | None = None,
        certificates: bool = False,
        recognises: Recognises = recognise_all,
    ) -> None:
        """`certificates`: refuse connections without a client certificate."""
        self._verifier = verifier
        self._link = link
        self._certificates = certificates
        self._recognises = recognises

    def verify(self, exchange: Exchange) -> Signed | None:
        """Check that the sender holds the secret. None: refused, and answered."""
        request = exchange.request
        try:
            if self._certificates and not exchange.certified:
                raise Unauthenticated("peers show a certificate")
            signed = self._verifier.verify(request.headers, request.path, request.body)
            if signed.header.sender == OPERATOR:
                raise Unauthenticated("this address is for replicas, not for the operator")
        except Unauthenticated as refusal:
            exchange.fail(401, "unauthenticated", str(refusal))
            return None
        exchange.mark_as_peer()
        return signed

    def authenticate(self, exchange: Exchange) -> Signed | None:
        """As `verify`, and check that the sender's store is the one on record."""
        signed = self.verify(exchange)
        if signed is None:
            return None
        try:
            known = self._check_store(signed.header)
        except Refusal as refusal:
            exchange.fail(refusal.status, refusal.code, refusal.message)
            return None
        return signed if known else Signed(signed.header, signed.mac, known=False)

    def authenticate_frame(self, exchange: FrameExchange) -> bool | None:
        """The same for a frame, whose seal is checked already: whether the sender's store is on record here. None:
        refused, and answered."""
        try:
            self._verifier.check_membership(exchange.header)
            return self._check_store(exchange.header)
        except Unauthenticated as refused:
            exchange.fail(401, "unauthenticated", str(refused))
        except Refusal as refusal:
            exchange.fail(refusal.status, refusal.code, refusal.message)
        return None

    def open_session(self, signed: Signed) -> PeerSession:
        return accept_handshake(self._verifier.secret, signed)

    def respond(self, exchange: Exchange, signed: Signed, body: bytes, headers: Headers = ()) -> None:
        if self._is_cut_to(signed.header.sender):
            exchange.fail(*CUT)
        else:
            exchange.respond(200, body, headers=(self._verifier.answer(signed, 200, body), *headers))

    def respond_to_frame(self, exchange: FrameExchange, known: bool, took_us: int, body: bytes) -> None:
        if self._is_cut_to(exchange.header.sender):
            exchange.fail(*CUT)
        else:
            exchange.respond(200, body, took_us, self._verifier.store if known else 0)

    def _is_cut_to(self, peer: int) -> bool:
        return self._link is not None and not self._link.sends(peer)

    def _check_store(self, header: SignedHeader) -> bool:
        if self._link is not None and not self._link.hears(header.sender):
            raise Refusal(*CUT)
        recognised = self._recognises(header)
        if recognised is False:
            raise Refusal(
                403,
                "another_store",
                f"another store is on record for replica {header.sender}; a replica that lost its disk needs a new id",
            )
        return recognised is True
