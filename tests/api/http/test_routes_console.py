"""The console's pages over HTTP."""

import gzip

import pytest

from epoxy.api.console import sources
from epoxy.api.console.assets import STATIC, Assets
from epoxy.api.http.router import Api
from epoxy.api.metrics import Metrics
from tests.api.http.fake_api import FakeApi
from tests.api.http.http_bench import FakeNode, ask
from tools.vendor_console import OF_PYODIDE, PYODIDE


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


@pytest.mark.parametrize(
    ("accepted", "packed"),
    [
        ("gzip", True),
        ("br, GZIP;q=0.1", True),
        ("gzip;q=0", False),
        ("br, gzip; q=0.00", False),
        ("x-notgzip", False),
        ("identity", False),
    ],
)
def test_clients_that_refuse_compression_get_none(fake: FakeApi, accepted: str, packed: bool) -> None:
    answer = fake.ask("GET", "/ui/app.js", accept_encoding=accepted)
    assert (answer.status, answer.headers.get("content-encoding") == "gzip") == (200, packed)


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


def test_the_playgrounds_worker_alone_may_compile_webassembly(fake: FakeApi) -> None:
    worker = fake.ask("GET", "/ui/playground/worker.js")
    assert worker.headers["content-security-policy"].endswith("script-src 'self' 'wasm-unsafe-eval'")
    others = [name for name in Assets().names if name != "playground/worker.js"]
    assert len(others) > 10
    for name in others:
        page = fake.ask("GET", f"/ui/{name}", accept_encoding="gzip")
        assert page.status == 200, name
        assert "unsafe" not in page.headers["content-security-policy"], name


def test_files_with_a_version_in_their_address_are_kept_for_ever(fake: FakeApi) -> None:
    kept = {name: fake.ask("GET", f"/ui/{name}", accept_encoding="gzip").headers for name in Assets().names}
    immutable = {name for name, headers in kept.items() if "immutable" in headers["cache-control"]}
    assert immutable == {name for name in kept if name.startswith(f"vendor/{OF_PYODIDE}/")}
    assert kept[f"vendor/{OF_PYODIDE}/pyodide.asm.wasm"]["content-type"] == "application/wasm"
    assert kept["app.js"]["cache-control"] == "no-cache"


def test_the_worker_asks_for_the_version_that_is_shipped() -> None:
    text = (STATIC / "playground" / "worker.js").read_text("utf-8")
    assert text.count(f'"/ui/vendor/{OF_PYODIDE}/') == 2
    assert f'version: "{PYODIDE}"' in text


def test_the_sources_for_the_playground(fake: FakeApi) -> None:
    archive = fake.ask("GET", f"/ui/{sources.ARCHIVE}")
    assert (archive.status, archive.headers["content-type"]) == (200, "application/zip")
    assert archive.body == sources.archive()
    assert archive.headers["cache-control"] == "no-cache"
    again = fake.ask("GET", f"/ui/{sources.ARCHIVE}", if_none_match=archive.headers["etag"])
    assert (again.status, again.body) == (304, b"")


def test_without_sources_there_is_no_archive_and_it_says_why(fake: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "MAX_ARCHIVE_BYTES", 1000)
    refused = fake.ask("GET", f"/ui/{sources.ARCHIVE}")
    assert refused.status == 404
    assert "outgrown their limit" in refused.json()["error"]["message"]


def test_files_that_are_kept_compressed_are_given_to_those_that_take_them(fake: FakeApi) -> None:
    refused = fake.ask("GET", f"/ui/vendor/{OF_PYODIDE}/pyodide.asm.wasm")
    assert (refused.status, refused.json()["error"]["code"]) == (406, "not_acceptable")
