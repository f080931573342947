"""The console's pages over HTTP."""

import gzip

import pytest

from epoxy.api.console.assets import STATIC
from tests.api.http.fake_api import FakeApi


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


def test_pages_are_only_read(fake: FakeApi) -> None:
    assert fake.ask("POST", "/ui").status == 405
    assert fake.ask("HEAD", "/ui").status == 200
