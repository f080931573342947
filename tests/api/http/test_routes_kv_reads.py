"""Reads through the HTTP API: values and pages of them, literally."""

from urllib.parse import unquote_to_bytes

import pytest

from epoxy.api.http.key_answers import addresses
from epoxy.model.access import AccessRole, Grant
from epoxy.model.transactions import OrderedValue
from epoxy.model.writes import Consistency, ReadFailed, ReadResult, Refused, Source
from epoxy.node.txn.transactions import shown
from epoxy.protocol.access.principal import Principal
from tests.api.http.fake_api import JSON, FakeApi, ours, told
from tests.api.http.http_bench import proposal


def test_a_value_known_here_is_answered_at_once(fake: FakeApi) -> None:
    fake.node.here = ReadResult(committed=proposal(b"\x00\xff", 0), source=Source.LEGACY)
    answer = fake.ask("GET", "/v2/kv/k")
    assert (answer.status, answer.body) == (200, b"\x00\xff")
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert ours(answer) == {"epoxy-version": "0", "epoxy-mutable": "false", "epoxy-source": "legacy"}
    assert fake.node.reads == []


def test_a_key_of_transactions_says_so(fake: FakeApi) -> None:
    fake.node.here = ReadResult(committed=shown(OrderedValue(value=b"v", version=3)), source=Source.LOCAL)
    answer = fake.ask("GET", "/v2/kv/k")
    about = {"epoxy-version": "3", "epoxy-mutable": "true", "epoxy-source": "local", "epoxy-engine": "transactions"}
    assert ours(answer) == about
    assert fake.ask("GET", "/v2/kv/k", accept=JSON).json()["engine"] == "transactions"
    fake.node.here = ReadResult(committed=shown(OrderedValue(value=None, version=4)), source=Source.QUORUM)
    answer = fake.ask("GET", "/v2/kv/k")
    assert (answer.status, answer.headers["epoxy-engine"]) == (404, "transactions")


def test_a_value_as_json(fake: FakeApi) -> None:
    fake.node.here = ReadResult(committed=proposal(b"\x00\xff", 3, mutable=True), source=Source.CACHE)
    answer = fake.ask("GET", "/v2/kv/k", accept=JSON)
    assert answer.json() == {
        "key": "k",
        "value": None,
        "value_base64": "AP8=",
        "version": 3,
        "mutable": True,
        "deleted": False,
        "source": "cache",
    }


@pytest.mark.parametrize("source", list(Source))
def test_the_source_is_named(fake: FakeApi, source: Source) -> None:
    fake.node.reading = ReadResult(committed=proposal(), source=source)
    assert fake.ask("GET", "/v2/kv/k").headers["epoxy-source"] == source.value


@pytest.mark.parametrize(
    ("here", "query", "asked"),
    [
        (None, "", Consistency.OPTIMISTIC),
        (None, "?read=optimistic", Consistency.OPTIMISTIC),
        (None, "?read=skip_cache", Consistency.SKIP_CACHE),
        (None, "?read=linearizable", Consistency.LINEARIZABLE),
        (Source.CACHE, "?read=optimistic", None),
        (Source.CACHE, "?read=skip_cache", Consistency.SKIP_CACHE),
        (Source.CACHE, "?read=linearizable", Consistency.LINEARIZABLE),
        (Source.LOCAL, "?read=skip_cache", None),
        (Source.LOCAL, "?read=linearizable", Consistency.LINEARIZABLE),
    ],
)
def test_others_are_asked_when_they_must_be(
    fake: FakeApi, here: Source | None, query: str, asked: Consistency | None
) -> None:
    fake.node.here = ReadResult(committed=proposal(), source=here) if here is not None else None
    fake.node.reading = ReadResult(committed=proposal(), source=Source.QUORUM)
    assert fake.ask("GET", f"/v2/kv/k{query}").status == 200
    assert fake.node.reads == ([(b"k", asked)] if asked is not None else [])


def test_absent(fake: FakeApi) -> None:
    fake.node.reading = ReadResult(committed=None, source=Source.REMOTE)
    answer = fake.ask("GET", "/v2/kv/k")
    assert answer.status == 404
    assert answer.error() == told("not_found", "no value is committed under this key")
    assert ours(answer) == {"epoxy-error": "not_found", "epoxy-source": "remote"}


def test_deleted_is_absent_with_a_version(fake: FakeApi) -> None:
    fake.node.here = ReadResult(committed=proposal(None, 7, mutable=True), source=Source.LOCAL)
    answer = fake.ask("GET", "/v2/kv/k")
    assert answer.status == 404
    assert answer.error()["code"] == "not_found"
    assert ours(answer) == {
        "epoxy-error": "not_found",
        "epoxy-source": "local",
        "epoxy-version": "7",
        "epoxy-mutable": "true",
    }


def test_too_few_to_say(fake: FakeApi) -> None:
    fake.node.reading = ReadFailed(reason="only 1 of 3 replicas answered")
    answer = fake.ask("GET", "/v2/kv/k")
    assert answer.status == 503
    assert answer.error() == told("read_failed", "only 1 of 3 replicas answered", retry_after_ms=1000)


def test_a_read_that_is_one_too_many(fake: FakeApi) -> None:
    fake.node.reading = Refused(reason="2000 reads are asking other regions already")
    answer = fake.ask("GET", "/v2/kv/k")
    assert answer.status == 429
    words = "turned away: 2000 reads are asking other regions already"
    assert answer.error() == told("overloaded", words, retry_after_ms=1000)
    assert answer.headers["retry-after"] == "1"


def test_head_is_get_without_the_body(fake: FakeApi) -> None:
    fake.node.here = ReadResult(committed=proposal(b"four"), source=Source.LOCAL)
    answer = fake.ask("HEAD", "/v2/kv/k")
    assert (answer.status, answer.body, answer.headers["content-length"]) == (200, b"", "4")
    assert answer.headers["epoxy-version"] == "1"


def test_a_page(fake: FakeApi) -> None:
    fake.node.keys = [
        (b"a", proposal(b"1")),
        (b"b b", proposal(None, 2, mutable=True)),
        (b"b/\xff", proposal(b"\xff", 3, mutable=True)),
        (b"c", proposal(b"4")),
    ]
    page = fake.ask("GET", "/v2/kv").json()
    assert [row["key"] for row in page["keys"]] == ["a", "b/%FF", "c"]
    assert page["next"] is None
    assert page["keys"][1] == {
        "key": "b/%FF",
        "value": None,
        "value_base64": "/w==",
        "version": 3,
        "mutable": True,
        "deleted": False,
    }
    page = fake.ask("GET", "/v2/kv?prefix=b+b&limit=1").json()
    assert page == {"keys": [], "next": "b%20b"}, "a deleted key fills its place"
    page = fake.ask("GET", "/v2/kv?prefix=b&limit=1&after=b%20b").json()
    assert ([row["key"] for row in page["keys"]], page["next"]) == (["b/%FF"], "b/%FF")
    assert fake.ask("GET", "/v2/kv?after=b/%FF").json()["keys"][0]["key"] == "c"


def test_pages_are_walked_to_the_end(fake: FakeApi) -> None:
    fake.node.keys = [(b"k%04d" % i, proposal(b"%d" % i)) for i in range(250)]
    seen: list[str] = []
    after: str | None = ""
    sizes = []
    while after is not None:
        page = fake.ask("GET", f"/v2/kv?limit=100&after={after}").json()
        seen += [row["key"] for row in page["keys"]]
        sizes.append(len(page["keys"]))
        after = page["next"]
    assert sizes == [100, 100, 50]
    assert seen == [f"k{i:04}" for i in range(250)]


def test_a_page_of_large_values_ends_early(fake: FakeApi) -> None:
    fake.node.keys = [(b"k%04d" % i, proposal(bytes(1 << 20))) for i in range(40)]
    page = fake.ask("GET", "/v2/kv?limit=1000").json()
    assert (len(page["keys"]), page["next"]) == (4, "k0003")


@pytest.mark.parametrize(
    ("prefix", "begins"),
    [
        (b"user/", (b"/v2/kv/user%2F", b"/v2/kv/user/")),
        (b"user-", (b"/v2/kv/user-",)),
        (b"a?read=", (b"/v2/kv/a%3Fread%3D",)),
        (b"50%", (b"/v2/kv/50%25",)),
        (b"\xff\x00", (b"/v2/kv/%FF%00",)),
    ],
)
def test_addresses_under_a_prefix_begin_with_it_and_end_no_path(prefix: bytes, begins: tuple[bytes, ...]) -> None:
    """A question mark in an address ends the key: taken as a part of it, another key's answer would be given."""
    principal = Principal(Grant(name="ci", roles=(AccessRole.READER,), prefixes=(prefix,)))
    assert addresses(principal) == begins
    assert all(unquote_to_bytes(begin.removeprefix(b"/v2/kv/")) == prefix for begin in begins)


def test_a_client_whose_requests_are_counted_gets_no_answer_from_the_cache() -> None:
    assert addresses(Principal(Grant(name="ci", roles=(AccessRole.READER,), requests_per_s=1))) == ()
