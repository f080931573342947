"""The scrub over HTTP: shown, begun, and refused while one is under way; and reads that meet a rotten row."""

import pytest

from epoxy.api.http.router import Api
from epoxy.api.http.routes_scrub import ScrubRoutes
from epoxy.api.metrics import Metrics
from epoxy.model.errors import RottenRow, StoreUnavailable
from tests.api.http.http_bench import FakeNode, ask
from tests.node.scrub.test_scrubber import Scrubbed


@pytest.fixture
def bench() -> Scrubbed:
    return Scrubbed()


def api_of(bench: Scrubbed) -> Api:
    return Api(FakeNode(), Metrics(), more=ScrubRoutes(bench.scrubber).table())


def test_it_is_begun_once_and_shown(bench: Scrubbed) -> None:
    bench.by_hand = True
    api = api_of(bench)
    assert ask(api, "GET", "/v2/scrub").json()["state"] == "idle"
    begun = ask(api, "POST", "/v2/scrub")
    assert (begun.status, begun.json()["state"]) == (202, "running")
    refused = ask(api, "POST", "/v2/scrub")
    assert (refused.status, refused.json()["error"]["code"]) == (409, "scrub_running")
    bench.answer(None)
    shown = ask(api, "GET", "/v2/scrub").json()
    assert (shown["state"], shown["rows"], shown["unrepaired"]) == ("idle", 1000, [])


def test_a_page_that_meets_a_rotten_row_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def rotten(*_: object) -> list[object]:
        raise RottenRow(b"row")

    node = FakeNode()
    monkeypatch.setattr(node, "page", rotten)
    refused = ask(Api(node, Metrics()), "GET", "/v2/kv")
    assert (refused.status, refused.json()["error"]["code"]) == (503, "rotten_row")
    assert refused.json()["error"]["definite"]


def test_a_page_that_a_database_does_not_give_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: object) -> list[object]:
        raise StoreUnavailable("no connection to the database")

    node = FakeNode()
    monkeypatch.setattr(node, "page", away)
    refused = ask(Api(node, Metrics()), "GET", "/v2/kv")
    assert (refused.status, refused.json()["error"]["code"]) == (503, "store_unavailable")
    assert refused.json()["error"]["definite"]
