"""An operator who holds the cluster's secret signs a request instead of showing a token.

The secret is worth more than any token, so this is how the first token is made, and how one is made when all are lost.
A signature covers the path and the body, and neither the method nor the query: a route that accepts it has one method
and no parameters.
"""

from epoxy.api.http.calls import ApiCall, Header
from epoxy.api.http.inputs import BadRequest
from epoxy.api.http.permissions import forbidden
from epoxy.model.access import AccessRole, Grant
from epoxy.protocol.access.principal import Principal
from epoxy.transport.peers.auth import OPERATOR, BadSignature, Verifier
from epoxy.transport.peers.signed_header import Signed

SECRET_HOLDER = Principal(Grant(name="(secret)", roles=(AccessRole.OPERATOR,)))
"""No grant can have this name."""


class OperatorSignatures:
    """`verifier`: of the cluster's secret itself, not of the one that peers derive from it."""

    def __init__(self, verifier: Verifier) -> None:
        self._verifier = verifier

    def check(self, call: ApiCall) -> Signed | None:
        """None: the client has shown an operator's token. Raises BadRequest, if it has neither."""
        if call.principal.operates:
            return None
        request = call.request
        try:
            signed = self._verifier.verify(request.headers, request.path, request.body)
        except BadSignature as refusal:
            raise BadRequest(401, "unauthenticated", str(refusal)) from refusal
        if signed.header.sender != OPERATOR:
            raise forbidden("signed by a replica, and only the operator may do this")
        call.principal = SECRET_HOLDER
        return signed

    def answer(self, call: ApiCall, signed: Signed | None, body: bytes, status: int = 200) -> None:
        """With this JSON, signed if the request was."""
        headers: tuple[Header, ...] = (self._verifier.answer(signed, status, body),) if signed is not None else ()
        call.answer(status, body, content_type=b"application/json", headers=headers)
