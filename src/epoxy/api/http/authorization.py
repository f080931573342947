"""Who asks, and whether it may: looked at before a route is served.

A client shows a token (`Authorization: Bearer`), or else a certificate that has a grant. The principal of a header is
kept until anything in force changes, so that a request costs one look into a dict. What a route demands for a key, a
name or a pool is checked by its handler: `permissions`.
"""

import asyncio
from functools import partial

from epoxy.api.http.backend import Backend
from epoxy.api.http.calls import ApiCall
from epoxy.api.http.permissions import missing_role
from epoxy.api.http.routes import Route
from epoxy.model.access import Access
from epoxy.node.access.audit import AuditOutcome
from epoxy.protocol.access.principal import Principal
from epoxy.protocol.access.tokens import TOKEN_MARK

BEARER = b"bearer "
TOKEN_PROTOCOL = b"epoxy.bearer."
"""Begins a subprotocol of a WebSocket that carries a token. It is never echoed."""

CHALLENGE = (b"WWW-Authenticate", b"Bearer")

MAX_KNOWN = 4096
"""Headers whose principals are kept: two spellings of both tokens of every grant."""

MAX_KNOWN_BYTES = 128
"""Of a header that is kept: a client may pad its own with spaces, up to all that a request's head holds."""

MAX_DELAYED = 1024
"""Refusals of wrong tokens that wait at a time, a kilobyte each. With more, one is answered at once: a token has too
many bits to be guessed, so memory matters more."""

NO_TOKEN = "this node asks for a token: Authorization: Bearer epx_...; `epoxy auth` makes them"
WRONG_TOKEN = "this token is not in force here"
"""For all that are wrong: whether it was right once is not told."""


class Authorization:
    def __init__(self, node: Backend) -> None:
        self._access = node.access
        self._quotas = node.quotas
        self._audit = node.audit
        self._guesses = node.guesses
        self._known: dict[bytes | tuple[str, ...], Principal] = {}
        self._generation = self._access.generation
        self.delayed = 0

    def admits(self, call: ApiCall, route: Route) -> bool:
        """Whether the route is served, for `call.principal`. False: the call is answered, or will be."""
        if not route.needs_grant:
            return True
        shown = call.request.headers.get(b"authorization")
        if shown is None and route.sockets:
            shown = offered_token(call.request.headers)
        if route.signed and not (shown is not None and shown[: len(BEARER)].lower() == BEARER):
            return True
        if self._generation != self._access.generation:
            self._known.clear()
            self._generation = self._access.generation
        evidence = shown if shown is not None else call.exchange.certificate_names
        principal = self._known.get(evidence) or self._identify(evidence)
        if principal is None:
            self._refuse_stranger(call, route, wrong=shown is not None)
            return False
        call.principal, call.identify = principal, self._again
        if not route.permits(principal):
            missing = missing_role(principal, route.access)
            self.refused(call, route, missing)
            call.fail(403, "forbidden", missing)
            return False
        if principal.requests_per_s and (wait_s := self._quotas.wait_s(principal)):
            refuse_rate(call, wait_s)
            return False
        return True

    def _again(self, call: ApiCall) -> Principal | None:
        headers = call.request.headers
        shown = headers.get(b"authorization")
        if shown is None and call.takes_sockets:
            shown = offered_token(headers)
        return self._identify(shown if shown is not None else call.exchange.certificate_names)

    def _identify(self, evidence: bytes | tuple[str, ...]) -> Principal | None:
        if isinstance(evidence, tuple):
            found = self._access.of_certificate(evidence)
        else:
            scheme, token = evidence[: len(BEARER)], evidence[len(BEARER) :]
            found = self._access.of_token(token.strip()) if scheme.lower() == BEARER else None
        if found is not None and (isinstance(evidence, tuple) or len(evidence) <= MAX_KNOWN_BYTES):
            if len(self._known) >= MAX_KNOWN:
                self._known.clear()
            self._known[evidence] = found
        return found

    def _refuse_stranger(self, call: ApiCall, route: Route, *, wrong: bool) -> None:
        delay_s = self._guesses.wrong(call.exchange.address, "") if wrong else 0.0
        if wrong or route.access is Access.OPERATE:
            self.refused(call, route, WRONG_TOKEN if wrong else "without a token")
        refuse = partial(call.fail, 401, "unauthenticated", WRONG_TOKEN if wrong else NO_TOKEN, headers=(CHALLENGE,))
        if not delay_s or self.delayed >= MAX_DELAYED:
            refuse()
        else:
            self.delayed += 1
            call.exchange.drop_body()
            call.request = call.exchange.request
            asyncio.get_running_loop().call_later(delay_s, self._refuse_later, refuse)

    def _refuse_later(self, refuse: "partial[None]") -> None:
        self.delayed -= 1
        refuse()

    # The audit log

    def watch(self, call: ApiCall, route: Route) -> None:
        """Record an act when its outcome is known."""
        call.on_answer = partial(self._answered, call, route, call.exchange.address)

    def _answered(self, call: ApiCall, route: Route, address: str, status: int, code: str, definite: bool) -> None:
        outcome: AuditOutcome = "failed" if definite else "unknown"
        if status < 300:
            outcome = "done"
        elif status in (401, 403):
            outcome = "refused"
        self._record(call, route, outcome, code, address)

    def refused(self, call: ApiCall, route: Route, detail: str) -> None:
        self._record(call, route, "refused", detail, call.exchange.address)

    def _record(self, call: ApiCall, route: Route, outcome: AuditOutcome, detail: str, address: str) -> None:
        self._audit.record(
            f"{call.request.method} {route.path}",
            name=call.principal.name,
            address=address,
            target=call.target or asked_for(call, route),
            outcome=outcome,
            detail=detail,
        )


def offered_token(headers: dict[bytes, bytes]) -> bytes | None:
    """As `Authorization` has it, of a page's WebSocket: a browser sends no such header with it."""
    for word in headers.get(b"sec-websocket-protocol", b"").split(b","):
        protocol = word.strip()
        if protocol.startswith(TOKEN_PROTOCOL):
            return BEARER + protocol.removeprefix(TOKEN_PROTOCOL)
    return None


def asked_for(call: ApiCall, route: Route) -> str:
    """The query of an operator's route. Queries of others name keys, and some clients put a token there."""
    query = call.request.query
    hidden = route.access is not Access.OPERATE or TOKEN_MARK.encode() in query
    return "" if hidden else query.decode("ascii", "replace")


def refuse_rate(call: ApiCall, wait_s: float) -> None:
    limit = call.principal.requests_per_s
    message = f"the grant '{call.principal.name}' may send {limit} requests a second to this node"
    call.fail(429, "quota_requests", message, retry_after_ms=max(1, round(wait_s * 1000)))
