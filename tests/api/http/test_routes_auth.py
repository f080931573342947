"""Grants and tokens over HTTP: made, shown once, replaced, listed, revoked."""

from typing import Any

import msgspec
import pytest

from epoxy.model.access import AccessRole
from epoxy.model.writes import ConsensusFailed, Refused
from epoxy.protocol.access.tokens import digest_of
from epoxy.transport.peers.auth import OPERATOR, answer_mac, sign
from epoxy.transport.peers.signed_header import SignedHeader
from tests.api.http.access_bench import NOW_MS, SECRET, Guarded, bearer
from tests.api.http.http_bench import Answer, Wire, request
from tests.node.access.test_control import NOW_S

JSON = {"content_type": "application/json"}
INIT, TOKENS = "/v2/auth/init", "/v2/auth/tokens"
ADMIN = 9


class Office(Guarded):
    """Its operator has token 9. Orders are carried out, which takes a sync of the disk or two."""

    def __init__(self, *, is_open: bool = False) -> None:
        super().__init__(is_open=is_open)
        self.node.give(ADMIN, AccessRole.OPERATOR)

    def order(self, method: str, target: str, order: Any = None, *, by: int = ADMIN, **headers: str) -> Answer:
        body = msgspec.json.encode(order) if order is not None else None
        shown = {"authorization": bearer(by)} if by else {}
        wire = Wire(request(method, target, body, **({**JSON} if body is not None else {}), **shown | headers))
        self.api(wire.exchange)
        for _ in range(20):
            if wire.sent:
                break
            self.node.desk.node.disk.sync()
        return wire.answer()

    def init(self, order: Any, *, sender: int = OPERATOR, secret: bytes = SECRET, nonce: int = 1) -> Answer:
        header = SignedHeader(sender, self.node.me, 0, NOW_MS, nonce)
        signature, _ = sign(secret, header, INIT.encode(), msgspec.json.encode(order))
        return self.order("POST", INIT, order, by=0, authorization=signature.decode())


def test_a_token_is_shown_once_and_lets_in() -> None:
    office = Office()
    made = office.order(
        "POST",
        TOKENS,
        {"name": "ci", "roles": ["writer", "worker"], "prefixes": ["user/%FF"], "expires_in_s": 60, "pools": ["a"]},
    )
    assert made.status == 201
    token, grant = made.json()["token"], made.json()["grant"]
    assert grant == {
        "name": "ci",
        "roles": ["writer", "worker"],
        "prefixes": ["user/%FF"],
        "pools": ["a"],
        "san": "",
        "token_ends": [0],
        "expires_s": NOW_S + 60,
        "requests_per_s": 0,
        "stored_bytes": 0,
        "created_s": NOW_S,
        "created_by": f"client-{ADMIN}",
    }
    stored = office.node.access.table.grant("ci")
    assert stored is not None
    assert stored.digests[0].sha256 == digest_of(token.encode())
    assert stored.prefixes == (b"user/\xff",)
    listed = office.order("GET", TOKENS)
    assert [each["name"] for each in listed.json()["grants"]] == ["ci", f"client-{ADMIN}"]
    assert listed.json()["version"] == office.node.access.version
    assert token.encode() not in listed.body
    me = office.ask("GET", "/v2/auth/whoami", authorization=f"Bearer {token}").json()
    assert me == {key: grant[key] for key in me if key != "auth"} | {"auth": "tokens"}


def test_a_grant_of_certificates_alone_has_no_token() -> None:
    office = Office()
    made = office.order("POST", TOKENS, {"name": "ci", "roles": ["reader"], "san": "ci.example.com", "token": False})
    assert (made.json()["token"], made.json()["grant"]["token_ends"]) == ("", [])
    assert office.node.access.of_certificate(["ci.example.com"]) is not None


def test_a_token_is_replaced_and_the_last_one_is_kept_for_a_while() -> None:
    office = Office()
    first = office.order("POST", TOKENS, {"name": "ci", "roles": ["reader"]}).json()["token"]
    rotated = office.order("POST", f"{TOKENS}/rotate", {"name": "ci", "keep_s": 60})
    assert rotated.status == 200
    second = rotated.json()["token"]
    assert rotated.json()["grant"]["token_ends"] == [0, NOW_S + 60]
    for token in (first, second):
        assert office.ask("GET", "/v2/kv/k", authorization=f"Bearer {token}").status == 200
    third = office.order("POST", f"{TOKENS}/rotate", {"name": "ci"}).json()["token"]
    statuses = [office.ask("GET", "/v2/kv/k", authorization=f"Bearer {each}").status for each in (first, second, third)]
    assert statuses == [401, 401, 200]


def test_what_is_revoked_is_over() -> None:
    office = Office()
    token = office.order("POST", TOKENS, {"name": "ci", "roles": ["reader"]}).json()["token"]
    gone = office.order("DELETE", f"{TOKENS}?name=ci")
    assert (gone.status, gone.json()["name"]) == (200, "ci")
    assert office.ask("GET", "/v2/kv/k", authorization=f"Bearer {token}").status == 401
    assert office.order("DELETE", f"{TOKENS}?name=ci").error()["code"] == "not_found"
    assert office.order("POST", f"{TOKENS}/rotate", {"name": "ci"}).status == 404


@pytest.mark.parametrize(
    ("order", "status", "words"),
    [
        ({"name": f"client-{ADMIN}", "roles": ["reader"]}, 409, "there is a grant named"),
        ({"name": "a b", "roles": ["reader"]}, 400, "a grant's name"),
        ({"name": "default", "roles": ["reader"]}, 400, "Redis"),
        ({"name": "ci", "roles": []}, 400, "one or more roles"),
        ({"name": "ci", "roles": ["root"]}, 400, "root"),
        ({"name": "ci", "roles": ["reader"], "prefixes": ["%"]}, 400, "percent"),
        ({"name": "ci", "roles": ["reader"], "token": False}, 400, "needs a token"),
        ({"name": "ci", "roles": ["reader"], "expires_in_s": -1}, 400, "expires_in_s"),
        ({"name": "ci", "roles": ["reader"], "stored_bytes": 10**30}, 400, "stored_bytes"),
        ({"name": "ci", "roles": ["reader"], "more": 1}, 400, "more"),
    ],
)
def test_orders_that_are_refused(order: Any, status: int, words: str) -> None:
    office = Office()
    refused = office.order("POST", TOKENS, order)
    assert refused.status == status
    assert words in refused.error()["message"]
    assert len(office.node.access.table.grants) == 1


def test_orders_are_for_operators() -> None:
    office = Office()
    office.node.give(1, AccessRole.READER, AccessRole.WRITER, AccessRole.WORKER, AccessRole.CALLER)
    for method, target in (("GET", TOKENS), ("POST", TOKENS), ("POST", f"{TOKENS}/rotate"), ("DELETE", TOKENS)):
        assert [office.code(method, target, b"{}", by=by)[0] for by in (0, 1)] == [401, 403], target


def test_what_is_not_decided_is_told() -> None:
    office = Office()

    def change(_edit: object, answered: Any) -> None:
        answered(outcome)

    office.node.access.change = change  # type: ignore[method-assign, assignment]
    outcome: Any = Refused(reason="no quorum")
    assert office.order("DELETE", f"{TOKENS}?name=x").error()["code"] == "refused"
    outcome = ConsensusFailed(reason="no quorum")
    error = office.order("DELETE", f"{TOKENS}?name=x").error()
    assert (error["code"], error["definite"]) == ("consensus_failed", False)
    assert [line["outcome"] for line in office.node.audit.lines] == ["failed", "unknown"]


def test_acts_are_recorded_with_the_grants_they_are_about() -> None:
    office = Office()
    office.order("POST", TOKENS, {"name": "ci", "roles": ["reader"]})
    office.order("POST", f"{TOKENS}/rotate", {"name": "ci"})
    office.order("DELETE", f"{TOKENS}?name=ci")
    office.init({"name": "root"})
    found = [(line["act"], line["name"], line["target"], line["outcome"]) for line in office.node.audit.lines]
    assert found == [
        ("POST /v2/auth/tokens", f"client-{ADMIN}", "ci", "done"),
        ("POST /v2/auth/tokens/rotate", f"client-{ADMIN}", "ci", "done"),
        ("DELETE /v2/auth/tokens", f"client-{ADMIN}", "ci", "done"),
        ("POST /v2/auth/init", "(secret)", "root", "done"),
    ]


# The first token


@pytest.mark.parametrize("is_open", [False, True])
def test_the_secret_makes_an_operator_again_and_again(is_open: bool) -> None:
    office = Office(is_open=is_open)
    first = office.init({"name": "root"}, nonce=1)
    assert first.status == 201
    assert first.json()["grant"]["roles"] == ["operator"]
    assert first.json()["grant"]["created_by"] == "(secret)"
    second = office.init({"name": "root"}, nonce=2)
    tokens = [each.json()["token"] for each in (first, second)]
    assert [office.ask("GET", TOKENS, authorization=f"Bearer {each}").status for each in tokens] == [401, 200]


def test_an_order_with_a_limit_that_limits_nothing_is_refused() -> None:
    office = Office()
    answer = office.order("POST", TOKENS, {"name": "w", "roles": ["worker"], "prefixes": ["chat"]})
    assert (answer.status, answer.error()["code"]) == (400, "bad_request")
    assert office.node.access.table.grant("w") is None


def test_the_secret_does_not_replace_the_grant_of_other_clients() -> None:
    office = Office()
    made = office.order("POST", TOKENS, {"name": "shop", "roles": ["writer"], "prefixes": ["user/"]}).json()
    assert office.init({"name": "shop"}).error()["code"] == "exists"
    me = office.ask("GET", "/v2/auth/whoami", authorization=f"Bearer {made['token']}").json()
    assert me["roles"] == ["writer"]


def test_the_answer_is_signed_too() -> None:
    office = Office()
    body = {"name": "root"}
    signature, mac = sign(SECRET, SignedHeader(OPERATOR, 1, 0, NOW_MS, 5), INIT.encode(), msgspec.json.encode(body))
    made = office.order("POST", INIT, body, by=0, authorization=signature.decode())
    greeting, _, told = made.headers["epoxy-mac"].rpartition(",")
    assert told.encode() == answer_mac(SECRET, mac, 201, greeting.encode(), made.body)


def test_others_do_not_make_the_first_token() -> None:
    office = Office()
    assert office.init({}, secret=b"another").status == 401
    assert office.init({}, sender=2).status == 403
    assert office.order("POST", INIT, {}, by=0).status == 401
    office.node.give(1, AccessRole.WRITER)
    assert office.order("POST", INIT, {}, by=1).status == 403
    assert office.init({"name": "a b"}, nonce=2).status == 400
    assert office.init({"name": "root"}, nonce=3).status == 201
    assert office.init({"name": "root"}, nonce=3).status == 401, "a repetition"
    assert office.order("POST", INIT, {"name": "second"}).status == 201, "an operator may, too"


def test_who_one_is_at_an_open_node() -> None:
    me = Office(is_open=True).ask("GET", "/v2/auth/whoami").json()
    assert (me["auth"], me["name"], len(me["roles"])) == ("open", "", len(AccessRole))
