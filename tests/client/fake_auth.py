"""A fake node with tokens, which does not ask for any itself."""

import secrets
import time
from typing import Any

import msgspec

from epoxy.client.auth_calls import GrantInfo, TokenMade, WhoAmI
from epoxy.model.access import AccessRole
from epoxy.model.api_access import AuthInit, GrantList, GrantOrder, RotateOrder
from tests.client.fake import FakeNode, Handler


class FakeAuthNode(FakeNode):
    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.grants: dict[str, GrantInfo] = {}
        self.me = whoami("ada", AccessRole.OPERATOR)

    def answer(self, request: Handler, path: str, query: dict[str, str]) -> None:
        if not path.startswith("/v2/auth/"):
            super().answer(request, path, query)
            return
        body, made = request.body, "epx_" + secrets.token_urlsafe(32)
        match request.command, path.removeprefix("/v2/auth/"):
            case "POST", "init":
                name = msgspec.json.decode(body, type=AuthInit).name
                self.grants[name] = grant(name, AccessRole.OPERATOR)
                say(request, 200, TokenMade(token=made, grant=self.grants[name]))
            case "POST", "tokens":
                order = msgspec.json.decode(body, type=GrantOrder)
                if order.name in self.grants:
                    request.error(409, "exists")
                    return
                self.grants[order.name] = ordered(order)
                say(request, 201, TokenMade(token=made if order.token else "", grant=self.grants[order.name]))
            case "POST", "tokens/rotate":
                rotation = msgspec.json.decode(body, type=RotateOrder)
                if rotation.name not in self.grants:
                    request.error(404, "not_found")
                    return
                ends = [0, int(time.time()) + rotation.keep_s] if rotation.keep_s else [0]
                self.grants[rotation.name] = msgspec.structs.replace(self.grants[rotation.name], token_ends=ends)
                say(request, 200, TokenMade(token=made, grant=self.grants[rotation.name]))
            case "DELETE", "tokens" if query["name"] in self.grants:
                say(request, 200, self.grants.pop(query["name"]))
            case "GET", "tokens":
                say(request, 200, GrantList(grants=list(self.grants.values()), version=1))
            case "GET", "whoami":
                say(request, 200, self.me)
            case _:
                request.error(404, "not_found")


def say(request: Handler, status: int, document: object) -> None:
    request.reply(status, msgspec.json.encode(document), "application/json")


def grant(name: str, *roles: AccessRole, **more: Any) -> GrantInfo:
    given: dict[str, Any] = {
        "prefixes": [],
        "pools": [],
        "san": "",
        "token_ends": [0],
        "expires_s": 0,
        "requests_per_s": 0,
        "stored_bytes": 0,
        "created_s": 1_700_000_000,
        "created_by": "root",
    }
    return GrantInfo(name=name, roles=list(roles), **(given | more))


def ordered(order: GrantOrder) -> GrantInfo:
    return grant(
        order.name,
        *order.roles,
        prefixes=order.prefixes,
        pools=order.pools,
        san=order.san,
        token_ends=[0] if order.token else [],
        expires_s=int(time.time()) + order.expires_in_s if order.expires_in_s else 0,
        requests_per_s=order.requests_per_s,
        stored_bytes=order.stored_bytes,
    )


def whoami(name: str, *roles: AccessRole, auth: Any = "tokens") -> WhoAmI:
    return WhoAmI(
        auth=auth, name=name, roles=list(roles), prefixes=[], pools=[], expires_s=0, requests_per_s=0, stored_bytes=0
    )
