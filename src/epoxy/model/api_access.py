"""The JSON records of `/v2/auth`: a part of `api.py`.

POST   /v2/auth/init                     AuthInit      201 TokenMade    signed by the cluster's secret
GET    /v2/auth/whoami                                 200 WhoAmI       any token
GET    /v2/auth/tokens                                 200 GrantList    and those below: operators
POST   /v2/auth/tokens                   GrantOrder    201 TokenMade
POST   /v2/auth/tokens/rotate            RotateOrder   200 TokenMade
DELETE /v2/auth/tokens?name=NAME                       200 GrantInfo    404 not_found: there is no such grant
"""

from typing import Annotated, Literal

from msgspec import Struct

from epoxy.model.access import MAX_GRANTS, AccessRole
from epoxy.model.api import Count, documented

AuthMode = Literal["open", "tokens"]

Prefix = Annotated[str, documented("The beginning of keys, or of namespace/name/key of actors; percent-encoded.")]
UnixTime = Annotated[int, documented("In seconds since 1970; 0: never.", minimum=0)]
Seconds = Annotated[int, documented(minimum=0)]


class AuthInit(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A token for an operator, made with the cluster's secret. If there is an operator of the name, its grant is
    replaced: this is the way back when all tokens are lost."""

    name: str = "admin"


class GrantOrder(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    roles: list[AccessRole]
    prefixes: list[Prefix] = []
    pools: list[str] = []
    san: Annotated[str, documented("A name in client certificates that stand for the grant.")] = ""
    token: Annotated[bool, documented("False: certificates alone stand for it, and no token is made.")] = True
    expires_in_s: Annotated[int, documented("By the node's clock, after which it ends; 0: never.", minimum=0)] = 0
    requests_per_s: Count = 0
    stored_bytes: Count = 0


class RotateOrder(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Another token for the grant; the last one is accepted for `keep_s` longer."""

    name: str
    keep_s: Seconds = 0


class GrantInfo(Struct, frozen=True, kw_only=True):
    """A grant, without its tokens. `token_ends`: when each of its tokens ends, the newest first."""

    name: str
    roles: list[AccessRole]
    prefixes: list[Prefix]
    pools: list[str]
    san: str
    token_ends: list[UnixTime]
    expires_s: UnixTime
    requests_per_s: Count
    stored_bytes: Count
    created_s: UnixTime
    created_by: str


class GrantList(Struct, frozen=True, kw_only=True):
    """All grants, by name in order, as this node knows them. `version` counts their changes."""

    grants: Annotated[list[GrantInfo], documented(maxItems=MAX_GRANTS)]
    version: Count


class TokenMade(Struct, frozen=True, kw_only=True):
    """`token` is shown in this answer and never again; empty, if certificates alone stand for the grant."""

    token: str
    grant: GrantInfo


class WhoAmI(Struct, frozen=True, kw_only=True):
    """As whom a node knows this client. With `auth` "open" clients have no names, and all rights."""

    auth: AuthMode
    name: str
    roles: list[AccessRole]
    prefixes: list[Prefix]
    pools: list[str]
    expires_s: UnixTime
    requests_per_s: Count
    stored_bytes: Count
