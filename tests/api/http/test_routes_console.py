"""The console's pages over HTTP."""

import gzip

import pytest

from epoxy.api.console.assets import STATIC
from epoxy.api.http.router import Api
from epoxy.api.metrics import Metrics
from tests.api.http.fake_api import FakeApi
from tests.api.http.http_bench import FakeNode, ask


@pytest.fixture
def fake() -> FakeApi:
    return FakeApi()


@pytest.mark.parametrize("path", ["/ui", "/ui/", "/ui/index.html"])
def test_the_first_page(fake: FakeApi, path: str) -> None:
    page = fake.ask("GET", path)
    assert page.status == 200
    assert page.body == (STATIC / "index.html").read_bytes()
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.headers["content-security-policy"].startswith("default-src 'self';")
    assert "unsafe" not in page.headers["content-security-policy"]


def test_a_browser_that_has_the_file_is_told_so(fake: FakeApi) -> None:
    first = fake.ask("GET", "/ui/app.js")
    again = fake.ask("GET", "/ui/app.js", if_none_match=first.headers["etag"])
    assert (again.status, again.body) == (304, b"")
    other = fake.ask("GET", "/ui/app.js", if_none_match='"another"')
    assert other.status == 200


def test_files_are_compressed_for_clients_that_take_it(fake: FakeApi) -> None:
    packed = fake.ask("GET", "/ui/app.js", accept_encoding="br, gzip")
    assert packed.headers["content-encoding"] == "gzip"
    assert gzip.decompress(packed.body) == fake.ask("GET", "/ui/app.js").body == (STATIC / "app.js").read_bytes()


@pytest.mark.parametrize("path", ["/ui/none.js", "/ui/../pyproject.toml", "/ui/%2e%2e/assets.py", "/ui/\x80", "/uix"])
def test_nothing_else_is_served(fake: FakeApi, path: str) -> None:
    refused = fake.ask("GET", path)
    assert (refused.status, refused.json()["error"]["code"]) == (404, "no_such_route")


def test_pages_of_a_demo_may_ask_its_panel_and_no_other_address() -> None:
    api = Api(FakeNode(), Metrics(), panel="http://127.0.0.1:7891")
    policy = ask(api, "GET", "/ui").headers["content-security-policy"]
    assert policy.split("; ")[-1] == "connect-src 'self' http://127.0.0.1:7891"
    assert "connect-src" not in ask(Api(FakeNode(), Metrics()), "GET", "/ui").headers["content-security-policy"]


def test_pages_are_only_read(fake: FakeApi) -> None:
    assert fake.ask("POST", "/ui").status == 405
    assert fake.ask("HEAD", "/ui").status == 200
