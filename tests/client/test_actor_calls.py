"""What is asked of an actor in HTTP, and what its answers mean."""

import msgspec
import pytest

from epoxy import InvalidRequest, NotRunning, OutcomeUnknown, UnexpectedAnswer
from epoxy.client import actor_calls
from epoxy.client.actor_calls import Which
from epoxy.client.http1 import HttpResponse

ROOM = Which(name="room", key="a/b")


def failure(status: int, code: str, *, definite: bool) -> HttpResponse:
    body = msgspec.json.encode({"error": {"code": code, "message": "why", "definite": definite}})
    return HttpResponse(status=status, headers={"content-type": "application/json", "epoxy-error": code}, body=body)


def test_an_actor_is_addressed_by_name_and_key_and_made_in_a_pool() -> None:
    asked = actor_calls.fetch(ROOM, "PUT", "/my lines/%2F", query={"q": "ä"}, body=b"x", pool="p")
    assert (asked.method, asked.target) == ("PUT", "/v2/actors/at/room/a%2Fb/my%20lines/%2F?q=%C3%A4&epoxy-pool=p")
    assert (asked.body, asked.writes) == (b"x", True)
    found = actor_calls.fetch(Which(name="room", key="x", namespace="n"), "GET")
    assert found.target == "/v2/actors/at/room/x/?epoxy-namespace=n&epoxy-create=false"
    assert (found.body, found.writes) == (None, False)


def test_headers_are_passed_on_and_a_request_with_a_key_may_be_sent_again() -> None:
    asked = actor_calls.fetch(
        ROOM, headers={"Content-Type": "text/csv", "accept": "text/*", "X-A": "1"}, idempotency_key="7"
    )
    assert (asked.content_type, asked.accept, asked.body) == ("text/csv", "text/*", b"")
    assert asked.headers == (("X-A", "1"), ("Idempotency-Key", "7"))
    assert not asked.writes
    short = actor_calls.request(ROOM, b"x", idempotency_key="7")
    assert (short.headers, short.writes) == ((("Idempotency-Key", "7"),), False)


@pytest.mark.parametrize(
    "wrong",
    [
        {"method": "get"},
        {"path": "lines"},
        {"headers": {"X-A": "1\r\nX-B: 2"}},
        {"headers": {"X A": "1"}},
        {"headers": {"Authorization": "Bearer x"}},
        {"idempotency_key": "x" * 256},
        {"idempotency_key": "a b"},
    ],
)
def test_what_would_not_be_one_request_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidRequest):
        actor_calls.fetch(ROOM, **wrong)  # type: ignore[arg-type]


def test_by_id_there_is_no_address() -> None:
    with pytest.raises(InvalidRequest, match="not by its id"):
        actor_calls.fetch(Which(id="01aa"))


def test_an_actors_own_errors_are_answers_and_those_of_a_node_are_raised() -> None:
    read = actor_calls.fetch(ROOM).read
    gone = read(HttpResponse(status=404, headers={"x-a": "1"}, body=b'{"why": "no"}'))
    assert (gone.status, gone.headers, gone.json(), gone.text) == (404, {"x-a": "1"}, {"why": "no"}, '{"why": "no"}')
    with pytest.raises(NotRunning, match="why"):
        read(failure(503, "not_running", definite=True))
    with pytest.raises(OutcomeUnknown):
        read(failure(502, "actor_failed", definite=False))
    with pytest.raises(UnexpectedAnswer, match="not JSON"):
        read(HttpResponse(status=200, headers={}, body=b"x")).json()
