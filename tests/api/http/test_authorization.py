"""A request is authorised before its route is served: by a token, by a certificate, or not at all."""

import asyncio

import pytest

from epoxy.api.http.authorization import MAX_DELAYED, MAX_KNOWN_BYTES, Authorization
from epoxy.api.http.router import Api
from epoxy.model.access import AccessRole
from epoxy.node.access.guesses import FREE_GUESSES
from epoxy.protocol.access.principal import Principal
from epoxy.transport.http.request import HttpRequest
from tests.api.http.access_bench import Guarded, bearer, token
from tests.api.http.http_bench import Wire, request

READER, WRITER, OPERATOR = AccessRole.READER, AccessRole.WRITER, AccessRole.OPERATOR
REFUSED, FORBIDDEN = (401, "unauthenticated"), (403, "forbidden")


def guarded() -> Guarded:
    here = Guarded()
    here.node.give(1, READER)
    return here


def test_without_a_token_nothing_but_public_routes_is_served() -> None:
    here = guarded()
    refused = here.ask("GET", "/v2/kv/k")
    assert (refused.status, refused.headers["www-authenticate"]) == (401, "Bearer")
    assert refused.error()["definite"] is True
    assert here.ask("GET", "/healthz").status == 200
    assert here.ask("GET", "/openapi.json").status == 200
    assert here.ask("GET", "/v2/nowhere").status == 404
    assert here.ask("OPTIONS", "/v2/kv/k").status == 405


def test_a_token_is_let_in_until_it_is_revoked() -> None:
    here = guarded()
    assert here.ask("GET", "/v2/kv/k", by=1).status == 200
    here.node.revoke(1)
    assert here.code("GET", "/v2/kv/k", by=1) == REFUSED
    here.node.give(1, READER)
    assert here.ask("GET", "/v2/kv/k", by=1).status == 200


def test_all_wrong_tokens_have_one_answer() -> None:
    answers = []
    for value in (bearer(2), bearer(3), "Bearer", "Basic Zm9v", "Bearer epx_short", f"Bearer {token(1)}x", token(1)):
        here = guarded()
        here.node.give(3, READER)
        here.node.end(3)
        answers.append(here.ask("GET", "/v2/kv/k", authorization=value))
    assert {answer.status for answer in answers} == {401}
    assert len({answer.body for answer in answers}) == 1


@pytest.mark.parametrize("value", [bearer(1), bearer(1).replace("Bearer", "bearer"), bearer(1).replace(" ", "  ")])
def test_the_scheme_is_read_as_the_standard_says(value: str) -> None:
    assert guarded().ask("GET", "/v2/kv/k", authorization=value).status == 200


def test_a_role_that_is_missing_is_named() -> None:
    here = guarded()
    refused = here.ask("PUT", "/v2/kv/k", b"v", by=1)
    assert refused.status == 403
    assert refused.error()["message"] == "this needs the role writer; the grant 'client-1' has reader"
    assert here.node.writes == []


def test_head_needs_what_get_needs() -> None:
    here = guarded()
    here.node.give(2, OPERATOR)
    assert [here.code("HEAD", "/v2/kv/k", by=by) for by in (0, 1, 2)] == [REFUSED, (200, ""), FORBIDDEN]


def test_a_certificate_stands_for_its_grant_if_no_token_is_shown() -> None:
    here = guarded()
    here.node.give(2, READER, san="ci.example.com")

    def status(sent: HttpRequest) -> int:
        wire = Wire(sent)
        wire.certificate_names = ("spiffe://other", "ci.example.com")
        here.api(wire.exchange)
        return wire.answer().status

    assert status(request("GET", "/v2/kv/k")) == 200
    assert status(request("PUT", "/v2/kv/k", b"v")) == 403
    assert status(request("GET", "/v2/kv/k", authorization=bearer(9))) == 401, "a wrong token is not overlooked"
    here.node.revoke(2)
    assert status(request("GET", "/v2/kv/k")) == 401


def test_what_was_found_for_a_header_is_kept_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    here = guarded()
    authorization = here.api._authorization
    asked: list[bytes] = []
    of_token = here.node.access.of_token

    def counted(shown: bytes) -> Principal | None:
        asked.append(shown)
        return of_token(shown)

    monkeypatch.setattr(here.node.access, "of_token", counted)
    for _ in range(3):
        here.ask("GET", "/v2/kv/k", by=1)
    assert asked == [token(1).encode()]
    monkeypatch.setattr("epoxy.api.http.authorization.MAX_KNOWN", 9)
    for blanks in range(40):
        authorization._identify(b"Bearer " + b" " * blanks + token(1).encode())
        assert len(authorization._known) <= 9
    before = len(authorization._known)
    here.ask("GET", "/v2/kv/k", by=7)
    assert len(authorization._known) == before, "wrong tokens are not kept"
    padded = "Bearer " + " " * MAX_KNOWN_BYTES + token(1)
    assert here.ask("GET", "/v2/kv/k", authorization=padded).status == 200
    assert len(authorization._known) == before, "padded ones are not kept"


# Wrong tokens are slowed


def guess(api: Api, body: bytes = b"") -> Wire:
    wire = Wire(request("PUT", "/v2/kv/k", body, authorization=bearer(9)))
    wire.exchange.size = len(body)
    api(wire.exchange)
    return wire


def test_wrong_tokens_wait_without_their_bodies_and_right_ones_do_not() -> None:
    async def test() -> None:
        here = guarded()
        here.node.give(2, WRITER)
        for _ in range(FREE_GUESSES):
            assert guess(here.api).answer().status == 401
        slow = guess(here.api, b"x" * 1000)
        assert (slow.sent, slow.exchange.request.body, slow.exchange.size) == (b"", b"", 0)
        assert here.ask("PUT", "/v2/kv/k", b"v", by=2).status == 201
        while not slow.sent:
            await asyncio.sleep(0.01)
        assert slow.answer().status == 401
        assert here.api._authorization.delayed == 0
        lost = guess(here.api)
        lost.exchange.lost()
        while here.api._authorization.delayed:
            await asyncio.sleep(0.01)
        assert lost.sent == b""

    asyncio.run(test())


def test_few_refusals_wait_at_a_time() -> None:
    async def test() -> None:
        here = guarded()
        wires = [guess(here.api) for _ in range(FREE_GUESSES + MAX_DELAYED + 3)]
        assert [bool(wire.sent) for wire in wires] == [True] * FREE_GUESSES + [False] * MAX_DELAYED + [True] * 3
        assert here.api._authorization.delayed == MAX_DELAYED

    asyncio.run(test())


# The audit log


def test_acts_of_operators_are_recorded_with_their_outcome_and_what_they_read_is_not() -> None:
    here = guarded()
    here.node.give(2, OPERATOR)
    here.ask("GET", "/v2/auth/tokens", by=2)
    assert here.node.audit.lines == []
    here.ask("POST", "/v2/members", b"{}", by=2, content_type="application/json")
    here.ask("POST", "/v2/members", b"{", by=2, content_type="application/json")
    acts = [(line["act"], line["name"], line["outcome"], line["detail"]) for line in here.node.audit.lines]
    assert acts == [
        ("POST /v2/members", "client-2", "failed", "not_implemented"),
        ("POST /v2/members", "client-2", "failed", "bad_request"),
    ]
    assert here.node.audit.lines[0]["address"] == "127.0.0.1"


def test_refusals_are_recorded() -> None:
    here = guarded()
    here.ask("GET", "/v2/kv/k")
    assert here.node.audit.lines == [], "a client that does not know yet that it needs a token is no event"
    here.ask("POST", "/v2/members", b"{}")
    here.ask("POST", "/v2/members", b"{}", by=1)
    here.ask("GET", "/v2/kv/k", by=9)
    acts = [(line["act"], line["name"], line["outcome"], line["detail"]) for line in here.node.audit.lines]
    assert acts == [
        ("POST /v2/members", "", "refused", "without a token"),
        ("POST /v2/members", "client-1", "refused", "this needs the role operator; the grant 'client-1' has reader"),
        ("GET /v2/kv/{key}", "", "refused", "this token is not in force here"),
    ]
    assert token(9) not in str(here.node.audit.lines)


def test_the_audit_log_has_neither_keys_nor_tokens_of_a_query() -> None:
    here = guarded()
    here.ask("GET", "/v2/kv?prefix=user/ada", by=9)
    here.ask("DELETE", f"/v2/auth/tokens?token={token(1)}")
    here.ask("DELETE", "/v2/auth/tokens?name=ci")
    assert [line["target"] for line in here.node.audit.lines] == ["", "", "name=ci"]
    here.node.give(4, READER, prefixes=(b"a/",))
    here.ask("GET", "/v2/kv/user/ada", by=4)
    refused = here.node.audit.lines[-1]
    assert (refused["act"], refused["name"], refused["detail"]) == ("GET /v2/kv/{key}", "client-4", "forbidden")
    assert "ada" not in str(here.node.audit.lines)


def test_the_audit_log_names_the_members_of_an_order() -> None:
    here = guarded()
    here.node.give(2, OPERATOR)
    order = b'{"add":[{"id":4,"url":"http://10.3.0.1:7800"}],"remove":[2],"move":[{"id":3,"url":"http://10.2.0.9:1"}]}'
    here.ask("POST", "/v2/members", order, by=2, content_type="application/json")
    assert here.node.audit.lines[0]["target"] == "add 4 http://10.3.0.1:7800, remove 2, move 3 http://10.2.0.9:1"


# An open node


def test_an_open_node_asks_for_nothing_except_for_what_would_stay() -> None:
    here = Guarded(is_open=True)
    assert here.ask("PUT", "/v2/kv/k", b"v").status == 201
    assert here.ask("POST", "/v2/members", b"{}", content_type="application/json").status == 501
    assert here.ask("GET", "/v2/kv/k", authorization="Bearer nonsense").status == 200
    assert here.code("POST", "/v2/auth/tokens", b"{}", content_type="application/json") == REFUSED
    assert here.code("POST", "/v2/admin/links", b"{}") == REFUSED
    here.node.give(1, OPERATOR)
    assert here.ask("GET", "/v2/auth/tokens", by=1).status == 200


def test_planted_an_authorization_that_forgets_generations_serves_the_revoked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check above would notice: `admits` without the comparison of generations."""
    here = guarded()
    assert here.ask("GET", "/v2/kv/k", by=1).status == 200
    frozen = here.node.access.generation
    here.node.revoke(1)
    monkeypatch.setattr(here.node.access, "generation", frozen)
    assert here.ask("GET", "/v2/kv/k", by=1).status == 200, "a fault that is planted is seen"


def test_a_route_permits_what_the_table_of_roles_says() -> None:
    here = guarded()
    for route in here.api.routes:
        if route.access.value in {role.value for role in AccessRole}:
            for role in AccessRole:
                here.node.give(1, role)
                found = here.node.access.of_token(token(1).encode())
                assert found is not None
                assert route.permits(found) is found.has(route.access), (route.path, role)
    assert isinstance(here.api._authorization, Authorization)
