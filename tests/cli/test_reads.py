"""get and watch: what they print, where, and how they exit."""

import json

import pytest

from epoxy.cli.reads import in_words, reading_json
from epoxy.client.results import Reading
from epoxy.model.writes import Source
from tests.cli.commands import Captured, command, in_json
from tests.client.fake import FakeNode, Held


def test_get_prints_the_value_and_nothing_else(node: FakeNode, capsysbinary: Captured) -> None:
    node.kv[b"k"] = Held(b"v", 3, mutable=True)
    assert command(["get", "k"], capsysbinary) == (0, "v", "")
    status, out, err = command(["get", "k", "-v", "--read", "linearizable"], capsysbinary)
    assert (status, out) == (0, "v")
    assert err.startswith("version 3, mutable, source quorum, ")
    assert node.requests[-1] == "GET /v2/kv/k?read=linearizable"


def test_get_of_a_deleted_key_says_so(node: FakeNode, capsysbinary: Captured) -> None:
    node.kv[b"k"] = Held(None, 3, mutable=True)
    status, out, err = command(["get", "k", "-v"], capsysbinary)
    assert (status, out) == (4, "")
    assert err.startswith("epoxy: no value is committed under k\nversion 3, deleted, source ")


@pytest.mark.usefixtures("node")
def test_get_of_nothing(capsysbinary: Captured) -> None:
    assert command(["get", "k"], capsysbinary) == (4, "", "epoxy: no value is committed under k\n")
    status, told = in_json(["get", "k"], capsysbinary)
    assert (status, told["found"], told["value"], told["source"]) == (4, False, None, "local")


def test_watch_tells_each_change_on_a_line(node: FakeNode, capsysbinary: Captured) -> None:
    node.commit_event(b"user/ada", Held(b"eu", 1, mutable=False))
    node.commit_event(b"\xff", Held(b"two\nlines", 2, mutable=True))
    node.commit_event(b"gone", Held(None, 3, mutable=True))
    status, out, _ = command(["watch", "--no-follow"], capsysbinary)
    assert status == 0
    assert out.splitlines() == [
        "1  reserved  user/ada = eu  (version 1)",
        r"2  put       \xff = two\nlines  (version 2)",
        "3  deleted   gone  (version 3)",
    ]


def test_watch_in_json_comes_back_until_it_has_enough(node: FakeNode, capsysbinary: Captured) -> None:
    """The fake ends the stream after what it has, so the third change needs a second connection."""
    node.commit_event(b"a", Held(b"1", 1, mutable=True))
    node.commit_event(b"b", Held(b"\xff", 1, mutable=True))
    node.changes_later = [(b"c", Held(b"3", 1, mutable=True))]
    status, out, _ = command(["watch", "--json", "--count", "3", "--prefix", "p/"], capsysbinary)
    told = [json.loads(line) for line in out.splitlines()]
    assert status == 0
    assert [(change["cursor"], change["key"], change["value"]) for change in told] == [
        ("1", "a", "1"),
        ("2", "b", None),
        ("3", "c", "3"),
    ]
    assert node.requests == ["GET /v2/changes?prefix=p%2F", "GET /v2/changes?prefix=p%2F&after=2"]


def test_watch_without_a_node(capsysbinary: Captured) -> None:
    status, _, err = command(["watch", "--url", "127.0.0.1:1"], capsysbinary)
    assert (status, err) == (1, "epoxy: http://127.0.0.1:1: connection refused\n")


def test_a_key_of_transactions_is_told_without_a_version() -> None:
    found = Reading(
        key=b"k", value=b"v", version=0, mutable=True, source=Source.LOCAL, latency_ms=1.0, transactional=True
    )
    assert in_words(found) == "belongs to transactions, source local, 1.0 ms"
    assert reading_json(found)["version"] is None
