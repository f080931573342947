"""Grants and their tokens: who one is, what there is, and orders to make, replace and revoke them."""

import secrets
import time
from collections.abc import Callable
from functools import partial
from typing import TypeVar
from urllib.parse import quote_from_bytes

import msgspec

from epoxy.api.http.backend import AccessInForce
from epoxy.api.http.calls import RETRY_AFTER_MS, ApiCall
from epoxy.api.http.inputs import BadRequest, json_record, unquote
from epoxy.api.http.operator_signature import OperatorSignatures
from epoxy.api.http.routes import JSON, NO_LENGTH, NOT_JSON, Parameter, Route, RouteAnswer, refusal
from epoxy.model.access import Access, AccessRole, AccessTable, Grant, TokenDigest
from epoxy.model.api import Name
from epoxy.model.api_access import AuthInit, GrantInfo, GrantList, GrantOrder, RotateOrder, TokenMade, WhoAmI
from epoxy.model.errors import InvalidRequest
from epoxy.model.writes import ConsensusFailed, Refused
from epoxy.protocol.access.grants import check_new, rotated, with_grant, without_grant
from epoxy.protocol.access.tokens import TOKEN_RANDOM_BYTES, digest_of, token_of

INIT = "/v2/auth/init"
TOKENS = "/v2/auth/tokens"

MAX_NUMBER = 1 << 53
"""Of seconds, requests or bytes: what every reader of JSON keeps exactly."""

T = TypeVar("T", AuthInit, GrantOrder, RotateOrder)

inits = msgspec.json.Decoder(AuthInit)
orders = msgspec.json.Decoder(GrantOrder, strict=False)
rotations = msgspec.json.Decoder(RotateOrder, strict=False)

MADE = "The token, which is shown here and never again."
UNDECIDED = refusal("No decision in time (it may still take effect), or not now.", "refused", "consensus_failed")
MISSING = refusal("There is no such grant.", "not_found")


class NoSuchGrant(InvalidRequest):
    pass


class GrantExists(InvalidRequest):
    pass


class AuthRoutes:
    """A grant is changed at any node, open or not: what is changed is the cluster's, and stays."""

    def __init__(
        self,
        access: AccessInForce,
        signatures: OperatorSignatures,
        *,
        random: Callable[[int], bytes] = secrets.token_bytes,
        unix_s: Callable[[], float] = time.time,
    ) -> None:
        self._access = access
        self._signatures = signatures
        self._random = random
        self._unix_s = unix_s

    def table(self) -> list[Route]:
        return [
            Route(
                method="GET",
                path="/v2/auth/whoami",
                handler=self.whoami,
                kind="http_get_whoami",
                access=Access.ANY,
                operation="whoAmI",
                summary="As whom this node knows the client, and what it may do",
                answers={200: RouteAnswer("The client's grant.", {JSON: WhoAmI})},
                needs_ready=False,
            ),
            Route(
                method="GET",
                path=TOKENS,
                handler=self.list,
                kind="http_get_tokens",
                access=Access.OPERATE,
                operation="listTokens",
                summary="All grants, without their tokens",
                answers={200: RouteAnswer("The grants.", {JSON: GrantList})},
                guarded=True,
            ),
            *self._changing(),
        ]

    def _changing(self) -> list[Route]:
        return [
            Route(
                method="POST",
                path=INIT,
                handler=self.init,
                kind="http_post_auth_init",
                access=Access.OPERATE,
                operation="initAuth",
                summary="Make a token for an operator, with the cluster's secret",
                body={JSON: AuthInit},
                answers={
                    201: RouteAnswer(MADE, {JSON: TokenMade}),
                    409: refusal("The name is that of a grant that is no operator's.", "exists"),
                    411: NO_LENGTH,
                    415: NOT_JSON,
                    503: UNDECIDED,
                },
                signed=True,
            ),
            Route(
                method="POST",
                path=TOKENS,
                handler=self.create,
                kind="http_post_token",
                access=Access.OPERATE,
                operation="createToken",
                summary="Make a grant, and a token for it",
                body={JSON: GrantOrder},
                answers={
                    201: RouteAnswer(MADE, {JSON: TokenMade}),
                    409: refusal("There is a grant of this name.", "exists"),
                    411: NO_LENGTH,
                    415: NOT_JSON,
                    503: UNDECIDED,
                },
                guarded=True,
            ),
            Route(
                method="POST",
                path=f"{TOKENS}/rotate",
                handler=self.rotate,
                kind="http_post_token_rotate",
                access=Access.OPERATE,
                operation="rotateToken",
                summary="Make another token for a grant; its last one is accepted a while longer",
                body={JSON: RotateOrder},
                answers={
                    200: RouteAnswer(MADE, {JSON: TokenMade}),
                    404: MISSING,
                    411: NO_LENGTH,
                    415: NOT_JSON,
                    503: UNDECIDED,
                },
                guarded=True,
            ),
            Route(
                method="DELETE",
                path=TOKENS,
                handler=self.revoke,
                kind="http_delete_token",
                access=Access.OPERATE,
                operation="revokeToken",
                summary="End a grant and its tokens, at every node within seconds",
                parameters=(Parameter("name", Name, "Of the grant.", required=True),),
                answers={200: RouteAnswer("It was this one.", {JSON: GrantInfo}), 404: MISSING, 503: UNDECIDED},
                guarded=True,
            ),
        ]

    def whoami(self, call: ApiCall) -> None:
        call.parameters()
        grant = call.principal.grant
        told = WhoAmI(
            auth="open" if self._access.is_open else "tokens",
            name=grant.name,
            roles=list(grant.roles),
            prefixes=list(map(spelled, grant.prefixes)),
            pools=list(grant.pools),
            expires_s=grant.expires_s,
            requests_per_s=grant.requests_per_s,
            stored_bytes=grant.stored_bytes,
        )
        call.json(200, told)

    def list(self, call: ApiCall) -> None:
        call.parameters()
        call.json(
            200, GrantList(grants=[info(each) for each in self._access.table.grants], version=self._access.version)
        )

    def init(self, call: ApiCall) -> None:
        call.parameters()
        signed = self._signatures.check(call)
        name = call.target = json_record(call.request, inits, "name for an operator").name
        token, digest = self._token()
        grant = self._stamped(Grant(name=name, roles=(AccessRole.OPERATOR,), digests=(digest,)), call)

        def edit(table: AccessTable) -> AccessTable:
            before = table.grant(name)
            if before is None:
                return with_grant(table, grant)
            if AccessRole.OPERATOR not in before.roles:
                raise GrantExists(f"{name!r} is the grant of other clients, and no operator's; choose another name")
            return with_grant(without_grant(table, name), grant)

        def made() -> None:
            self._signatures.answer(call, signed, msgspec.json.encode(TokenMade(token=token, grant=info(grant))), 201)

        self._change(call, edit, made)

    def create(self, call: ApiCall) -> None:
        call.parameters()
        order = bounded(json_record(call.request, orders, "order for a grant"))
        call.target = order.name
        token, digest = self._token() if order.token else ("", None)
        grant = Grant(
            name=order.name,
            roles=tuple(order.roles),
            prefixes=tuple([unquote(text.encode()) for text in order.prefixes]),
            pools=tuple(order.pools),
            digests=(digest,) if digest is not None else (),
            san=order.san,
            expires_s=self._now_s() + order.expires_in_s if order.expires_in_s else 0,
            requests_per_s=order.requests_per_s,
            stored_bytes=order.stored_bytes,
        )
        grant = self._stamped(grant, call)

        def edit(table: AccessTable) -> AccessTable:
            if table.grant(grant.name) is not None:
                raise GrantExists(f"there is a grant named {grant.name!r}; revoke it first, or rotate its token")
            check_new(grant)
            return with_grant(table, grant)

        self._change(call, edit, lambda: call.json(201, TokenMade(token=token, grant=info(grant))))

    def rotate(self, call: ApiCall) -> None:
        call.parameters()
        order = bounded(json_record(call.request, rotations, "order to replace a token"))
        call.target = order.name
        token, digest = self._token()
        now_s = self._now_s()
        after: list[Grant] = []

        def edit(table: AccessTable) -> AccessTable:
            found(table, order.name)
            edited = rotated(table, order.name, digest.sha256, now_s + order.keep_s, now_s)
            after[:] = [found(edited, order.name)]
            return edited

        self._change(call, edit, lambda: call.json(200, TokenMade(token=token, grant=info(after[0]))))

    def revoke(self, call: ApiCall) -> None:
        given = call.parameters().get(b"name", b"")
        name = call.target = given.decode("utf-8", "replace")
        before: list[Grant] = []

        def edit(table: AccessTable) -> AccessTable:
            before[:] = [found(table, name)]
            return without_grant(table, name)

        self._change(call, edit, lambda: call.json(200, info(before[0])))

    def _change(self, call: ApiCall, edit: Callable[[AccessTable], AccessTable], done: Callable[[], None]) -> None:
        self._access.change(edit, partial(answer, call, done))

    def _token(self) -> tuple[str, TokenDigest]:
        token = token_of(self._random(TOKEN_RANDOM_BYTES))
        return token, TokenDigest(sha256=digest_of(token.encode()))

    def _stamped(self, grant: Grant, call: ApiCall) -> Grant:
        return msgspec.structs.replace(grant, created_s=self._now_s(), created_by=call.principal.name)

    def _now_s(self) -> int:
        return int(self._unix_s())


def answer(
    call: ApiCall, done: Callable[[], None], edited: AccessTable | InvalidRequest | Refused | ConsensusFailed
) -> None:
    match edited:
        case AccessTable():
            done()
        case NoSuchGrant():
            call.fail(404, "not_found", str(edited))
        case GrantExists():
            call.fail(409, "exists", str(edited))
        case InvalidRequest():
            call.fail(400, "bad_request", str(edited))
        case Refused():
            call.fail(503, "refused", edited.reason, retry_after_ms=RETRY_AFTER_MS)
        case ConsensusFailed():
            message = (
                f"the outcome is unknown: {edited.reason}. It may still take effect; `epoxy auth token list` tells"
            )
            call.fail(503, "consensus_failed", message, definite=False)


def found(table: AccessTable, name: str) -> Grant:
    grant = table.grant(name)
    if grant is None:
        raise NoSuchGrant(f"there is no grant named {name!r}")
    return grant


def bounded(order: T) -> T:
    """No number that could not be stored."""
    for name in order.__struct_fields__:
        value = getattr(order, name)
        if isinstance(value, int) and not 0 <= value <= MAX_NUMBER:
            raise BadRequest(400, "bad_request", f"{name} is a number from 0 to {MAX_NUMBER}")
    return order


def info(grant: Grant) -> GrantInfo:
    return GrantInfo(
        name=grant.name,
        roles=list(grant.roles),
        prefixes=list(map(spelled, grant.prefixes)),
        pools=list(grant.pools),
        san=grant.san,
        token_ends=[each.expires_s for each in grant.digests],
        expires_s=grant.expires_s,
        requests_per_s=grant.requests_per_s,
        stored_bytes=grant.stored_bytes,
        created_s=grant.created_s,
        created_by=grant.created_by,
    )


def spelled(prefix: bytes) -> str:
    return quote_from_bytes(prefix, safe="/")
