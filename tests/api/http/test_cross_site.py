"""Requests that pages of others make a browser send, with the headers a browser sends, and those that are meant."""

import pytest

from epoxy.api.http.cross_site import MAX_KNOWN, CrossSiteGuard
from epoxy.api.http.router import Api
from epoxy.api.metrics import Metrics
from epoxy.model.transactions import Done, Executed
from epoxy.transport.limits import SIGNED_PATHS
from tests.api.http.http_bench import Answer, FakeNode, ask, request, whole_api

HOST = "127.0.0.1:7800"
TXN = b'{"then": [{"op": "put", "key": "a", "value": "b"}]}'
ORDER = b'{"remove": [3]}'
JSON = "application/json"

# As Chromium 140 sends them from a page of http://evil.example.
NO_CORS_POST = {
    "host": HOST,
    "origin": "http://evil.example",
    "sec_fetch_site": "cross-site",
    "sec_fetch_mode": "no-cors",
    "sec_fetch_dest": "empty",
    "content_type": "text/plain;charset=UTF-8",
}
"""fetch(url, {method: "POST", mode: "no-cors", body: "..."})"""

FORM = NO_CORS_POST | {"sec_fetch_mode": "navigate", "sec_fetch_dest": "document", "content_type": "text/plain"}
"""<form method="POST" enctype="text/plain">, sent by a script"""

IMAGE = {"host": HOST, "sec_fetch_site": "cross-site", "sec_fetch_mode": "no-cors", "sec_fetch_dest": "image"}
"""<img src=...>: a GET without Origin"""

OTHER_PORT = NO_CORS_POST | {"origin": "http://127.0.0.1:3000", "sec_fetch_site": "same-site"}
SANDBOXED = NO_CORS_POST | {"origin": "null"}
WITHOUT_SITE = {key: value for key, value in NO_CORS_POST.items() if not key.startswith("sec_")}
"""What a node on another machine gets without TLS."""

ROUTES = [
    ("POST", "/v2/txn", TXN),
    ("POST", "/v2/members", ORDER),
    ("POST", "/v2/actors", b'{"name": "a", "key": "b"}'),
    ("POST", "/v2/actors/request?name=a&key=b&create=true", b"x"),
    ("GET", "/v2/actors/relay", None),
    ("POST", "/v2/envoys/drain?envoy=e", b""),
    ("DELETE", "/v2/actors?name=a&key=b", None),
    ("PUT", "/v2/kv/k", b"v"),
    ("GET", "/v2/envoys/connect", None),
]


def code(answer: Answer) -> tuple[int, str]:
    return answer.status, answer.error()["code"]


def named_api(*names: str) -> tuple[FakeNode, Api]:
    node = FakeNode()
    node.executed = Executed(succeeded=True, done=(Done(value=None),))
    return node, Api(node, Metrics(), names=lambda: names)


@pytest.mark.parametrize("headers", [NO_CORS_POST, FORM, OTHER_PORT, SANDBOXED, WITHOUT_SITE])
@pytest.mark.parametrize(("method", "target", "body"), ROUTES)
def test_a_page_of_another_origin_does_nothing(
    method: str, target: str, body: bytes | None, headers: dict[str, str]
) -> None:
    node = FakeNode()
    assert code(ask(whole_api(node), method, target, body, **headers)) == (403, "cross_site")
    assert (node.txns, node.writes) == ([], [])


@pytest.mark.parametrize("target", ["/v2/changes", "/v2/kv/k", "/metrics", "/healthz"])
def test_a_page_of_another_site_reads_nothing(target: str) -> None:
    assert code(ask(whole_api(FakeNode()), "GET", target, None, **IMAGE)) == (403, "cross_site")


@pytest.mark.parametrize("media_type", ["", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
@pytest.mark.parametrize("target", ["/v2/txn", "/v2/members", "/v2/actors"])
def test_json_must_say_that_it_is(target: str, media_type: str) -> None:
    """What a browser sends for any page without asking first, should it not say whose page that is."""
    typed = {"content_type": media_type} if media_type else {}
    node = FakeNode()
    assert code(ask(whole_api(node), "POST", target, TXN, host=HOST, **typed)) == (415, "unsupported_media_type")
    assert node.txns == []


def test_json_that_says_so_is_read() -> None:
    node, api = named_api()
    for media_type in (JSON, "Application/JSON; charset=utf-8"):
        assert ask(api, "POST", "/v2/txn", TXN, content_type=media_type).status == 200
    assert len(node.txns) == 2


def test_what_people_and_programs_send_goes_through() -> None:
    """curl says nothing of origins; a browser says that somebody typed the address, follows a link, or reads a page of
    ours."""
    api = whole_api(FakeNode())
    link = {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate", "sec_fetch_dest": "document"}
    own = {"origin": f"http://{HOST}", "sec_fetch_site": "same-origin"}
    for headers in ({}, {"sec_fetch_site": "none"}, link, own, {"origin": f"https://{HOST}"}):
        assert ask(api, "GET", "/healthz", None, host=HOST, **headers).status == 200, headers
    form = "application/x-www-form-urlencoded"
    asked = ask(api, "POST", "/v2/actors/request?id=zz", b"x", host=HOST, content_type=form)
    assert code(asked) == (400, "bad_request"), "curl -d to an actor is looked at"


@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1:7800", "10.9.8.7", "[::1]:7800", "[2001:db8::1]", "localhost", "LOCALHOST:1", "a.localhost:7800"),
        *("node-1.internal:7800", "Node-1.Internal", "node-1.internal.:80", ""),
    ],
)
def test_names_of_this_node(host: str) -> None:
    _, api = named_api("node-1.internal")
    assert ask(api, "GET", "/v2/status", host=host).status == 200


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example:7800", "127.0.0.1.evil.example", "localhost.evil.example", "node-2.internal", "notlocalhost"),
        *("user@localhost", "localhost/", "localhost, evil.example", "[::1", "localhost:port", "h\u00e9", "[x]", "*"),
    ],
)
def test_another_name_is_a_page_that_pretends(host: str) -> None:
    """DNS rebinding: the name is the page's, the address ours, and for the browser both are one origin."""
    _, api = named_api("node-1.internal")
    same = {"origin": f"http://{host}", "sec_fetch_site": "same-origin"}
    assert code(ask(api, "GET", "/v2/status", host=host)) == (421, "unknown_host")
    assert code(ask(api, "POST", "/v2/txn", TXN, host=host, content_type=JSON, **same)) == (421, "unknown_host")


def test_an_operator_may_allow_any_name() -> None:
    _, api = named_api("*")
    assert ask(api, "GET", "/v2/status", host="anything.example").status == 200


def test_probes_and_signed_requests_have_names_of_their_own() -> None:
    guard = CrossSiteGuard(tuple)
    for path in (*SIGNED_PATHS, b"/healthz", b"/readyz"):
        assert guard.objection(request("POST", path.decode(), host="some.balancer")) is None
        assert guard.objection(request("POST", path.decode(), host="some.balancer", origin="http://e")) is not None
    assert guard.objection(request("GET", "/metrics", host="some.balancer")) is not None


def test_a_name_is_asked_for_again_when_it_was_refused() -> None:
    names: list[str] = []
    guard = CrossSiteGuard(lambda: names)
    assert guard.objection(request("GET", "/", host="late.example")) is not None
    names.append("late.example")
    assert guard.objection(request("GET", "/", host="late.example")) is None


def test_spellings_that_are_remembered_have_an_end() -> None:
    guard = CrossSiteGuard(tuple)
    for port in range(2 * MAX_KNOWN + 5):
        assert guard.objection(request("GET", "/", host=f"localhost:{port}")) is None
    assert len(guard._known) <= MAX_KNOWN


APP = "https://app.example"
OF_APP = {"host": HOST, "origin": APP, "sec_fetch_site": "cross-site", "sec_fetch_mode": "cors"}


def shared_api() -> tuple[FakeNode, Api]:
    node = FakeNode()
    node.executed = Executed(succeeded=True, done=(Done(value=None),))
    return node, Api(node, Metrics(), origins=(APP,))


def test_a_page_of_an_allowed_origin_writes_and_reads_the_answer() -> None:
    node, api = shared_api()
    answer = ask(api, "POST", "/v2/txn", TXN, **OF_APP, content_type=JSON)
    assert len(node.txns) == 1
    assert answer.headers["access-control-allow-origin"] == APP
    assert answer.headers["vary"] == "Origin"
    refused = ask(api, "GET", "/nothing/here", None, **OF_APP)
    assert (refused.status, refused.headers["access-control-allow-origin"]) == (404, APP), "errors are read, too"


def test_a_preflight_of_an_allowed_origin_is_answered_and_nothing_is_done() -> None:
    node, api = shared_api()
    asked = OF_APP | {"access_control_request_method": "PUT", "access_control_request_headers": "authorization"}
    answer = ask(api, "OPTIONS", "/v2/kv/k", None, **asked)
    assert (answer.status, answer.body, node.writes) == (204, b"", [])
    assert answer.headers["access-control-allow-origin"] == APP
    assert "PUT" in answer.headers["access-control-allow-methods"]
    assert "authorization" in answer.headers["access-control-allow-headers"]


@pytest.mark.parametrize(
    "origin",
    ["https://app.example.evil", "http://app.example", "https://app.example:8443", "null", "https://APP.example"],
)
def test_an_origin_is_allowed_as_it_is_written_and_no_other(origin: str) -> None:
    node, api = shared_api()
    asked = OF_APP | {"origin": origin}
    assert code(ask(api, "PUT", "/v2/kv/k", b"v", **asked)) == (403, "cross_site")
    preflight = ask(api, "OPTIONS", "/v2/kv/k", None, **asked, access_control_request_method="PUT")
    assert (code(preflight), node.writes) == ((403, "cross_site"), [])
    assert "access-control-allow-origin" not in preflight.headers


def test_an_allowed_origin_does_not_open_other_names_or_plain_text() -> None:
    node, api = shared_api()
    assert code(ask(api, "GET", "/v2/status", None, **OF_APP | {"host": "evil.example"})) == (421, "unknown_host")
    assert code(ask(api, "POST", "/v2/txn", TXN, **OF_APP, content_type="text/plain"))[0] == 415
    assert node.txns == []


def test_without_origin_no_answer_is_shared() -> None:
    _, api = shared_api()
    assert "access-control-allow-origin" not in ask(api, "GET", "/v2/status", host=HOST).headers
