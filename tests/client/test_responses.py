"""What the answers of a node become; tests/client/test_calls.py has those of single calls."""

import pytest

from epoxy import (
    AccessRefused,
    Forbidden,
    ImmutableKey,
    InvalidRequest,
    KeyExists,
    QuotaExceeded,
    Unauthenticated,
    Unavailable,
    WriteConflict,
)
from epoxy.client.http1 import HttpResponse
from epoxy.client.responses import fail


def refusal(status: int, code: str, **headers: str) -> HttpResponse:
    body = b'{"error": {"code": "%s", "message": "why", "definite": true}}' % code.encode()
    typed = {"content-type": "application/json", "epoxy-error": code}
    return HttpResponse(status=status, headers=typed | {n.replace("_", "-"): v for n, v in headers.items()}, body=body)


@pytest.mark.parametrize(
    ("status", "code", "expected"),
    [
        (401, "unauthenticated", Unauthenticated),
        (403, "forbidden", Forbidden),
        (429, "quota_requests", QuotaExceeded),
        (403, "quota_bytes", QuotaExceeded),
    ],
)
@pytest.mark.parametrize("writes", [True, False])
def test_a_refusal_for_want_of_rights_is_definite(
    status: int, code: str, expected: type[AccessRefused], writes: bool
) -> None:
    with pytest.raises(expected, match=rf"why \({code}\)") as caught:
        fail(refusal(status, code), writes=writes)
    assert caught.value.definite


def test_other_codes_with_these_statuses_are_what_they_were() -> None:
    with pytest.raises(InvalidRequest, match="cross_site"):
        fail(refusal(403, "cross_site"), writes=True)
    with pytest.raises(Unavailable, match="overloaded"):
        fail(refusal(429, "overloaded", retry_after="1"), writes=True)


@pytest.mark.parametrize(("said", "expected"), [({"retry_after": "3"}, 3.0), ({}, None), ({"retry_after": "x"}, None)])
def test_a_quota_says_when_to_come_again(said: dict[str, str], expected: float | None) -> None:
    with pytest.raises(QuotaExceeded) as caught:
        fail(refusal(429, "quota_requests", **said), writes=True)
    assert caught.value.retry_after_s == expected


@pytest.mark.parametrize(("mutable", "expected"), [("true", KeyExists), ("false", ImmutableKey)])
def test_a_reserved_name_is_none_that_becomes_free_by_waiting(mutable: str, expected: type[WriteConflict]) -> None:
    headers = {"epoxy-error": "exists", "epoxy-version": "1", "epoxy-mutable": mutable}
    with pytest.raises(expected) as caught:
        fail(HttpResponse(status=409, headers=headers, body=b"theirs"), writes=True)
    assert isinstance(caught.value, WriteConflict)
    assert (caught.value.value, caught.value.version) == (b"theirs", 1)
