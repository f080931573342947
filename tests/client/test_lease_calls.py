"""Requests about values that expire, and what their answers mean."""

import pytest

from epoxy.client import calls, lease_calls
from epoxy.client.http1 import HttpResponse
from epoxy.model.errors import InvalidRequest, KeyExists, NoSession, VersionMismatch

ID = "0123456789abcdef" * 2


def answer(status: int, body: bytes = b"", **headers: str) -> HttpResponse:
    return HttpResponse(status=status, body=body, headers={n.replace("_", "-"): v for n, v in headers.items()})


def problem(status: int, code: str) -> HttpResponse:
    body = b'{"error": {"code": "%s", "message": "m", "definite": true}}' % code.encode()
    return answer(status, body, content_type="application/json", epoxy_error=code)


def test_what_is_sent() -> None:
    put = calls.put("k", "v", ttl=1.5, if_absent=True)
    assert put.target == "/v2/kv/k?mode=put&if_absent=true&ttl=1500"
    assert calls.put("k", "v", session=ID).target == f"/v2/kv/k?mode=put&session={ID}"
    assert calls.put("k", "v", keep_ttl=True).target == "/v2/kv/k?mode=put&keep_ttl=true"
    assert calls.add("k", 2, ttl=60).target == "/v2/kv/k?add=2&ttl=60000"
    assert lease_calls.renew("k", 30, if_version=4).target == "/v2/kv/k?ttl=30000&if_version=4"
    assert lease_calls.renew("k", None).target == "/v2/kv/k?ttl=0"
    assert (lease_calls.begin_session(2).method, lease_calls.begin_session(2).target) == (
        "POST",
        "/v2/sessions?ttl=2000",
    )
    for make, method in (
        (lease_calls.renew_session, "PUT"),
        (lease_calls.show_session, "GET"),
        (lease_calls.end_session, "DELETE"),
    ):
        call = make(ID)
        assert (call.method, call.target, call.writes) == (method, f"/v2/sessions/{ID}", method != "GET")


def test_what_answers_mean() -> None:
    read = calls.get("k").read(answer(200, b"v", epoxy_version="3", epoxy_mutable="true", epoxy_ttl="1500"))
    assert read is not None
    assert read.ttl == 1.5
    assert calls.put("k", "v").read(answer(201, epoxy_version="1", epoxy_ttl="900")).ttl == 0.9
    assert calls.put("k", "v").read(answer(200, epoxy_version="1")).ttl is None
    with pytest.raises(KeyExists, match=r"for another 2\.0 s unless") as exists:
        calls.put("k", "v", if_absent=True).read(
            answer(409, b"theirs", epoxy_error="exists", epoxy_version="8", epoxy_ttl="2000")
        )
    assert (exists.value.value, exists.value.version, exists.value.ttl) == (b"theirs", 8, 2.0)
    with pytest.raises(NoSession):
        calls.put("k", "v", session=ID).read(problem(409, "no_session"))
    assert lease_calls.renew("k", 1).read(problem(404, "not_found")).renewed is False
    assert lease_calls.renew("k", 1).read(answer(200, epoxy_version="5", epoxy_ttl="1000")).version == 5
    with pytest.raises(VersionMismatch):
        lease_calls.renew("k", 1, if_version=1).read(
            answer(409, b"v", epoxy_error="version_mismatch", epoxy_version="5")
        )
    told = b'{"session": "%s", "ttl": 2000, "remaining": 1500}' % ID.encode()
    shown = lease_calls.show_session(ID).read(answer(200, told, content_type="application/json"))
    assert (shown.id, shown.ttl, shown.remaining) == (ID, 2.0, 1.5)
    with pytest.raises(NoSession):
        lease_calls.renew_session(ID).read(problem(404, "no_session"))


@pytest.mark.parametrize("ttl", [0, -1, 0.0004, "1", None, 1e12])
def test_times_to_live_outside_of_the_bounds(ttl: object) -> None:
    with pytest.raises(InvalidRequest, match=r"a time to live is 0.001 to 35,184,372,088 seconds"):
        calls.checked_ttl(ttl)


@pytest.mark.parametrize("session", ["", "abc", ID.upper(), 5])
def test_ids_that_are_none(session: object) -> None:
    with pytest.raises(InvalidRequest, match="32 hexadecimal digits"):
        lease_calls.checked_session(session)
