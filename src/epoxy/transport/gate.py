"""What every request between replicas passes before anything in it is looked at."""

from collections.abc import Callable

from epoxy.transport.auth import OPERATOR, Unauthenticated, Verifier
from epoxy.transport.claim import Claim, Signed
from epoxy.transport.exchange import Exchange
from epoxy.transport.link import Link
from epoxy.transport.response import Headers

LOST_STATUS = 504
"""The answer of an emulated link that is cut: to be treated like no answer."""

Recognises = Callable[[Claim], bool | None]
"""Whether the sender's store is the one it should be, and on record. None: it is nobody's, but it is answered."""


def everybody(claim: Claim) -> bool:  # noqa: ARG001
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
        if self._link is not None and not self._link.hears(signed.claim.sender):
            exchange.fail(LOST_STATUS, "link_cut", "this link is cut on purpose")
            return None
        recognised = self._recognises(signed.claim)
        if recognised is None:
            return Signed(signed.claim, signed.mac, known=False)
        if not recognised:
            exchange.fail(403, "another_store", other_store(signed.claim.sender))
            return None
        return signed

    def answer(self, exchange: Exchange, signed: Signed, body: bytes, headers: Headers = ()) -> None:
        if self._link is not None and not self._link.sends(signed.claim.sender):
            exchange.fail(LOST_STATUS, "link_cut", "this link is cut on purpose")
        else:
            exchange.respond(200, body, headers=(self._verifier.answer(signed, 200, body), *headers))


def other_store(replica: int) -> str:
    return f"another store is on record for replica {replica}; who lost its disk comes back under a new id"
