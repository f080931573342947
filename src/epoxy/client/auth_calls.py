"""What can be asked about tokens and the grants they stand for, and what the answers mean, without IO."""

from collections.abc import Iterable
from functools import partial
from urllib.parse import quote_from_bytes, unquote_to_bytes, urlencode

import msgspec

from epoxy.client.calls import Call, as_bytes, get_json, post_json
from epoxy.client.http1 import HttpResponse
from epoxy.client.responses import JSON, read_json, says_absent
from epoxy.model.access import AccessRole
from epoxy.model.api_access import AuthInit, GrantList, GrantOrder, RotateOrder
from epoxy.model.api_access import GrantInfo as GrantInfo
from epoxy.model.api_access import TokenMade as TokenMade
from epoxy.model.api_access import WhoAmI as WhoAmI
from epoxy.model.errors import InvalidRequest

PATH = "/v2/auth/tokens"


def init_auth(name: str = "admin", *, timeout: float | None = None) -> Call[TokenMade]:
    """A token for an operator, in a request that is signed with the cluster's secret. An operator of the name is
    replaced, so a second try does no harm."""
    body = msgspec.json.encode(AuthInit(name=name))
    return post_json("/v2/auth/init", body, made, writes=False, timeout=timeout)


def whoami(*, timeout: float | None = None) -> Call[WhoAmI]:
    """As whom the node knows this client, and what it may do."""
    return get_json("/v2/auth/whoami", partial(read_json, WhoAmI), timeout)


def grants(*, timeout: float | None = None) -> Call[list[GrantInfo]]:
    """All of them, without their tokens."""
    read = partial(read_json, GrantList)
    return get_json(PATH, lambda answer: read(answer).grants, timeout)


def create_token(
    name: str,
    roles: Iterable[str | AccessRole],
    *,
    prefixes: Iterable[bytes | str] = (),
    pools: Iterable[str] = (),
    san: str = "",
    expires_in_s: int = 0,
    requests_per_s: int = 0,
    stored_bytes: int = 0,
    with_token: bool = True,
    timeout: float | None = None,
) -> Call[TokenMade | None]:
    """A grant and the token for it, which is in this result and nowhere else. None: there is a grant of this name.
    `san`: certificates with this name stand for it, too; with `with_token` False they alone do."""
    order = GrantOrder(
        name=name,
        roles=[checked_role(role) for role in roles],
        prefixes=[spelled(prefix) for prefix in prefixes],
        pools=list(pools),
        san=san,
        token=with_token,
        expires_in_s=expires_in_s,
        requests_per_s=requests_per_s,
        stored_bytes=stored_bytes,
    )

    def read(answer: HttpResponse) -> TokenMade | None:
        taken = answer.status == 409 and answer.headers.get("epoxy-error") == "exists"
        return None if taken else made(answer)

    return post_json(PATH, msgspec.json.encode(order), read, timeout=timeout)


def rotate_token(name: str, *, keep_s: int = 0, timeout: float | None = None) -> Call[TokenMade | None]:
    """Another token for the grant. Its last one is accepted for `keep_s` longer, those before it no more. None: there
    is no such grant."""

    def read(answer: HttpResponse) -> TokenMade | None:
        return None if says_absent(answer) else made(answer)

    order = RotateOrder(name=name, keep_s=keep_s)
    return post_json(f"{PATH}/rotate", msgspec.json.encode(order), read, timeout=timeout)


def revoke_token(name: str, *, timeout: float | None = None) -> Call[GrantInfo | None]:
    """End the grant and its tokens, at every node within seconds. None: there was none."""

    def read(answer: HttpResponse) -> GrantInfo | None:
        return None if says_absent(answer) else read_json(GrantInfo, answer, writes=True)

    return Call(
        method="DELETE",
        target=f"{PATH}?{urlencode({'name': name})}",
        accept=JSON,
        writes=True,
        read=read,
        timeout=timeout,
    )


def made(answer: HttpResponse) -> TokenMade:
    return read_json(TokenMade, answer, status=201 if answer.status == 201 else 200, writes=True)


def checked_role(role: str | AccessRole) -> AccessRole:
    try:
        return AccessRole(role)
    except ValueError:
        raise InvalidRequest(f"no role {role!r}; there are: {', '.join(each.value for each in AccessRole)}") from None


def spelled(prefix: bytes | str) -> str:
    return quote_from_bytes(as_bytes(prefix, "prefix"), safe="/")


def prefix_of(text: str) -> bytes:
    return unquote_to_bytes(text)
