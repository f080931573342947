"""Requests about tokens, as they leave a client, and their answers."""

from typing import Any

import msgspec
import pytest

from epoxy import Forbidden, InvalidRequest
from epoxy.client import auth_calls
from epoxy.client.http1 import HttpResponse
from epoxy.model.access import AccessRole

GRANT: dict[str, Any] = {
    "name": "ci",
    "roles": ["writer"],
    "prefixes": ["user/%FF"],
    "pools": [],
    "san": "",
    "token_ends": [0],
    "expires_s": 0,
    "requests_per_s": 0,
    "stored_bytes": 0,
    "created_s": 1,
    "created_by": "admin",
}


def answer(status: int, document: object, **headers: str) -> HttpResponse:
    typed = {"content-type": "application/json"} | {name.replace("_", "-"): text for name, text in headers.items()}
    return HttpResponse(status=status, headers=typed, body=msgspec.json.encode(document))


def test_creating_a_token() -> None:
    call = auth_calls.create_token(
        "ci",
        ["writer", AccessRole.CALLER],
        prefixes=[b"user/\xff", "room/"],
        pools=["chat"],
        expires_in_s=60,
        requests_per_s=5,
        stored_bytes=1 << 20,
    )
    assert (call.method, call.target, call.writes) == ("POST", "/v2/auth/tokens", True)
    assert msgspec.json.decode(call.body or b"") == {
        "name": "ci",
        "roles": ["writer", "caller"],
        "prefixes": ["user/%FF", "room/"],
        "pools": ["chat"],
        "san": "",
        "token": True,
        "expires_in_s": 60,
        "requests_per_s": 5,
        "stored_bytes": 1 << 20,
    }
    made = call.read(answer(201, {"token": "epx_x", "grant": GRANT}))
    assert made is not None
    assert (made.token, made.grant.name, made.grant.roles) == ("epx_x", "ci", [AccessRole.WRITER])
    assert auth_calls.prefix_of(made.grant.prefixes[0]) == b"user/\xff"


def test_a_role_that_does_not_exist_is_refused_before_anything_is_sent() -> None:
    with pytest.raises(InvalidRequest, match="no role 'root'; there are: reader, writer, worker, caller, operator"):
        auth_calls.create_token("ci", ["root"])


def test_rotating_a_token() -> None:
    call = auth_calls.rotate_token("ci", keep_s=3600)
    assert (call.method, call.target) == ("POST", "/v2/auth/tokens/rotate")
    assert msgspec.json.decode(call.body or b"") == {"name": "ci", "keep_s": 3600}
    made = call.read(answer(200, {"token": "epx_y", "grant": GRANT}))
    assert made is not None
    assert made.token == "epx_y"


def test_revoking_a_token() -> None:
    call = auth_calls.revoke_token("c i")
    assert (call.method, call.target, call.writes) == ("DELETE", "/v2/auth/tokens?name=c+i", True)
    gone = call.read(answer(200, GRANT))
    assert gone is not None
    assert gone.name == "ci"
    error = {"error": {"code": "not_found", "message": "no such grant", "definite": True}}
    assert call.read(answer(404, error, epoxy_error="not_found")) is None


def test_listing_grants_and_being_refused() -> None:
    call = auth_calls.grants()
    assert [each.name for each in call.read(answer(200, {"grants": [GRANT], "version": 3}))] == ["ci"]
    error = {"error": {"code": "forbidden", "message": "needs operator", "definite": True}}
    with pytest.raises(Forbidden, match="needs operator"):
        call.read(answer(403, error, epoxy_error="forbidden"))


def test_who_one_is() -> None:
    told = {key: GRANT[key] for key in ("name", "roles", "prefixes", "pools", "expires_s", "requests_per_s")}
    me = auth_calls.whoami().read(answer(200, told | {"auth": "tokens", "stored_bytes": 0}))
    assert (me.auth, me.name) == ("tokens", "ci")
