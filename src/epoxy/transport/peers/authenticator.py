"""What every request between replicas passes before anything in it is looked at."""

from collections.abc import Callable

from epoxy.transport.http.exchange import Exchange
from epoxy.transport.http.incoming import Refusal
from epoxy.transport.http.response import Headers
from epoxy.transport.peers.auth import OPERATOR, Unauthenticated, Verifier
from epoxy.transport.peers.frames import FrameExchange
from epoxy.transport.peers.session import PeerSession, greeted
from epoxy.transport.peers.signed_header import Signed, SignedHeader
from epoxy.transport.wan.emulation import Link

LOST_STATUS = 504
"""The answer of an emulated link that is cut: to be treated like no answer."""

CUT = "this link is cut on purpose"

Recognises = Callable[[SignedHeader], bool | None]
"""Whether the sender's store is the one it should be, and on record. None: it is nobody's, but it is answered."""


def everybody(claim: SignedHeader) -> bool:  # noqa: ARG001
    return True


class Gate:
    def __init__(
        self,
        verifier: Verifier,
        *,
        link: Link | None = None,
        certificates: bool = False,
        recognises: Recognises = everybody,
    ) -> None:
        """`certificates`: only connections that have shown a client's certificate are answered."""
        self._verifier = verifier
        self._link = link
        self._certificates = certificates
        self._recognises = recognises

    def admit(self, exchange: Exchange) -> Signed | None:
        """Whoever is there holds the secret, and may stay. None: refused, and told so."""
        request = exchange.request
        try:
            if self._certificates and not exchange.certified:
                raise Unauthenticated("peers show a certificate")
            signed = self._verifier.verify(request.headers, request.path, request.body)
            if signed.claim.sender == OPERATOR:
                raise Unauthenticated("the operator is no replica")
        except Unauthenticated as refusal:
            exchange.fail(401, "unauthenticated", str(refusal))
            return None
        exchange.vouch()
        return signed

    def enter(self, exchange: Exchange) -> Signed | None:
        """... and this request of it is heard."""
        signed = self.admit(exchange)
        if signed is None:
            return None
        try:
            known = self._hear(signed.claim)
        except Refusal as refusal:
            exchange.fail(refusal.status, refusal.code, refusal.message)
            return None
        return signed if known else Signed(signed.claim, signed.mac, known=False)

    def welcome(self, signed: Signed) -> PeerSession:
        """Whoever was admitted may go on with frames."""
        return greeted(self._verifier.secret, signed, self._verifier.store)

    def hear(self, exchange: FrameExchange) -> bool | None:
        """A frame, which the connection has found sealed. Whether its sender's store is on record here. None: refused,
        and told so."""
        try:
            self._verifier.check_part(exchange.claim)
            return self._hear(exchange.claim)
        except Unauthenticated as refused:
            exchange.fail(401, "unauthenticated", str(refused))
        except Refusal as refusal:
            exchange.fail(refusal.status, refusal.code, refusal.message)
        return None

    def reply(self, exchange: FrameExchange, known: bool, took_us: int, body: bytes) -> None:
        """What `answer` is to a request."""
        if self._link is not None and not self._link.sends(exchange.claim.sender):
            exchange.fail(LOST_STATUS, "link_cut", CUT)
        else:
            exchange.respond(200, body, took_us, self._verifier.store if known else 0)

    def _hear(self, claim: SignedHeader) -> bool:
        if self._link is not None and not self._link.hears(claim.sender):
            raise Refusal(LOST_STATUS, "link_cut", CUT)
        recognised = self._recognises(claim)
        if recognised is None:
            return False
        if not recognised:
            raise Refusal(403, "another_store", other_store(claim.sender))
        return True

    def answer(self, exchange: Exchange, signed: Signed, body: bytes, headers: Headers = ()) -> None:
        if self._link is not None and not self._link.sends(signed.claim.sender):
            exchange.fail(LOST_STATUS, "link_cut", CUT)
        else:
            exchange.respond(200, body, headers=(self._verifier.answer(signed, 200, body), *headers))


def other_store(replica: int) -> str:
    return f"another store is on record for replica {replica}; who lost its disk comes back under a new id"
