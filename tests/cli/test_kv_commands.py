"""reserve, put, delete, get and watch: what they print, where, and how they exit."""

import io
import json
import sys
from typing import Any

import pytest

from epoxy.cli.main import run
from epoxy.cli.reads import in_words, reading_json
from epoxy.client import Client
from epoxy.client.results import Reading
from epoxy.model.writes import Source
from tests.client.fake import FakeNode, Held, hang_up, problem, web_page

Captured = pytest.CaptureFixture[bytes]


def command(words: list[str], captured: Captured) -> tuple[int, str, str]:
    status = run(words)
    out, err = captured.readouterr()
    return status, out.decode(), err.decode()


def in_json(words: list[str], captured: Captured) -> tuple[int, Any]:
    status, out, _ = command([*words, "--json"], captured)
    return status, json.loads(out)


@pytest.mark.usefixtures("node")
def test_reserve_says_who_won_how_and_how_fast(capsysbinary: Captured) -> None:
    status, out, err = command(["reserve", "user/ada", "eu-west-1"], capsysbinary)
    assert (status, err) == (0, "")
    assert out.startswith("won: user/ada is eu-west-1, for ever\n")
    assert "fast: one round trip" in out
    assert "to the floor of 70.0 ms" in out


def test_reserve_again_with_the_same_and_another_value(node: FakeNode, capsysbinary: Captured) -> None:
    node.kv[b"user/ada"] = Held(b"eu-west-1", 1, mutable=False)
    status, out, _ = command(["reserve", "user/ada", "eu-west-1"], capsysbinary)
    assert (status, out.splitlines()[0]) == (0, "same value: user/ada is eu-west-1, for ever")
    status, out, _ = command(["reserve", "user/ada", "us"], capsysbinary)
    assert (status, out.splitlines()[0]) == (3, "lost: user/ada is eu-west-1, for ever")
    assert "no message was sent" in out
    assert "floor" not in out


def test_reserve_in_json(node: FakeNode, capsysbinary: Captured) -> None:
    node.kv[b"\xffk"] = Held(b"\xfe", 1, mutable=False)
    status, told = in_json(["reserve", "\udcffk", "x"], capsysbinary)
    assert status == 3
    assert (told["key"], told["outcome"], told["won"], told["path"]) == ("%FFk", "lost", False, "local")
    assert (told["value"], told["value_base64"], told["version"]) == (None, "/g==", 1)
    assert told["floor_ms"] == 70.0


@pytest.mark.usefixtures("node")
def test_put_and_compare_and_set(capsysbinary: Captured) -> None:
    assert command(["put", "cfg", "1"], capsysbinary)[1].startswith("written: cfg, version 1, a new key\n")
    assert command(["put", "cfg", "2", "--if-version", "1"], capsysbinary)[1].startswith("written: cfg, version 2\n")
    status, out, err = command(["put", "cfg", "3", "--if-version", "1"], capsysbinary)
    assert (status, out) == (3, "")
    assert err == "epoxy: not the version asked for: version 2 stands. Definite: nothing was written\n"
    status, told = in_json(["put", "cfg", "3", "--if-version", "1"], capsysbinary)
    assert (status, told["error"]["code"], told["error"]["definite"]) == (3, "VersionMismatch", True)
    assert told["error"]["committed"] == {"value": "2", "value_base64": "Mg==", "version": 2}


def test_a_put_over_a_reserved_name(node: FakeNode, capsysbinary: Captured) -> None:
    node.kv[b"k"] = Held(b"v", 1, mutable=False)
    status, _, err = command(["put", "k", "w"], capsysbinary)
    assert (status, err) == (3, "epoxy: the name is reserved, for ever, as version 1. Definite: nothing was written\n")


def test_a_value_from_stdin_is_taken_byte_for_byte(
    node: FakeNode, capsysbinary: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\x00\xff\n")))
    assert run(["put", "bin", "-"]) == 0
    assert node.kv[b"bin"].value == b"\x00\xff\n"
    capsysbinary.readouterr()
    assert run(["get", "bin"]) == 0
    assert capsysbinary.readouterr().out == b"\x00\xff\n"


def test_more_from_stdin_than_a_value_may_have(
    node: FakeNode, capsysbinary: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(bytes(1 << 21))))
    status, _, err = command(["reserve", "big", "-"], capsysbinary)
    assert (status, err) == (2, "epoxy: a value has at most 1,048,576 bytes, not 1,048,577\n")
    assert node.kv == {}


def test_a_key_that_is_no_text(node: FakeNode, capsysbinary: Captured) -> None:
    """A shell hands bytes that are no UTF-8 over as surrogates."""
    assert command(["put", "\udcff\udc80 b/%", "v"], capsysbinary)[1].startswith(r"written: \xff\x80 b/%, version 1")
    assert list(node.kv) == [b"\xff\x80 b/%"]


def test_delete(node: FakeNode, capsysbinary: Captured) -> None:
    node.kv[b"k"] = Held(b"v", 1, mutable=True)
    assert command(["delete", "k"], capsysbinary)[:2][1].startswith("deleted: k, version 2 is a tombstone\n")
    status, out, err = command(["delete", "k"], capsysbinary)
    assert (status, out, err) == (4, "", "epoxy: there is nothing to delete under k\n")
    status, told = in_json(["delete", "k"], capsysbinary)
    assert (status, told["deleted"], told["version"]) == (4, False, 2)


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


def test_an_empty_value_leaves_no_gap(node: FakeNode, capsysbinary: Captured) -> None:
    status, out, _ = command(["reserve", "k", ""], capsysbinary)
    assert (status, node.kv[b"k"].value) == (0, b"")
    assert out.startswith('won: k is "", for ever\n')


@pytest.mark.usefixtures("node")
def test_get_of_nothing(capsysbinary: Captured) -> None:
    assert command(["get", "k"], capsysbinary) == (4, "", "epoxy: no value is committed under k\n")
    status, told = in_json(["get", "k"], capsysbinary)
    assert (status, told["found"], told["value"], told["source"]) == (4, False, None, "local")


def test_an_indefinite_failure_says_so(node: FakeNode, capsysbinary: Captured) -> None:
    for misdeed, words in ((hang_up, "closed after the write was sent"), (consensus_failed, "consensus_failed")):
        node.misdeeds.extend([web_page(404), misdeed])  # the first is for the status, asked before the write
        status, out, err = command(["put", "k", "v"], capsysbinary)
        assert (status, out) == (1, "")
        assert words in err
        assert "INDEFINITE: the write may have happened" in err
        assert err.count("\n") == 1


consensus_failed = problem(503, "consensus_failed", definite=False)


def test_a_definite_failure_says_so(capsysbinary: Captured) -> None:
    status, _, err = command(["put", "k", "v", "--url", "127.0.0.1:1"], capsysbinary)
    assert (status, err) == (1, "epoxy: http://127.0.0.1:1: connection refused. Definite: nothing was written\n")
    status, told = in_json(["get", "k", "--url", "127.0.0.1:1"], capsysbinary)
    assert (status, told["error"]["definite"]) == (1, True)


def test_a_server_that_is_not_ours(node: FakeNode, capsysbinary: Captured) -> None:
    node.misdeeds.append(web_page(404))
    status, out, err = command(["get", "k"], capsysbinary)
    assert (status, out) == (1, "")
    assert "answered 404 (text/html), which no Epoxy node says; is this the address of an Epoxy node?" in err


def test_an_option_beats_the_environment(node: FakeNode) -> None:
    node.kv[b"k"] = Held(b"v", 1, mutable=True)
    assert run(["get", "k", "--url", "http://127.0.0.1:1"]) == 1
    assert run(["get", "k", "--url", f"http://127.0.0.1:1, {node.url}"]) == 0


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("get k --url nonsense://x", "is no address of a node; write http://host:port"),
        ("get k --read eventual", "'eventual' is not one of"),
        ("get k --timeout 0", "is not in the range"),
        ("put k v --if-version -1", "is not in the range"),
        ("reserve k", "Missing argument 'VALUE'"),
        ("reserv k v", "Did you mean reserve"),
        ("watch --count 0", "is not in the range"),
        ("bench append", "'append' is not one of"),
        ("bench --clients 0", "is not in the range"),
    ],
)
def test_a_mistake_is_one_line_and_status_2(words: str, told: str, capsysbinary: Captured) -> None:
    status, out, err = command(words.split(), capsysbinary)
    assert (status, out) == (2, "")
    assert told in err
    assert err.count("\n") == 1


@pytest.mark.usefixtures("node")
def test_a_key_of_no_bytes(capsysbinary: Captured) -> None:
    assert command(["get", ""], capsysbinary) == (2, "", "epoxy: a key has 1 to 1,024 bytes, not 0\n")


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


def interrupt(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.usefixtures("node")
def test_a_write_that_was_interrupted_may_have_happened(
    capsysbinary: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Client, "reserve", interrupt)
    status, out, err = command(["reserve", "user/ada", "eu-west-1"], capsysbinary)
    assert (status, out) == (130, "")
    assert err.startswith("\nepoxy: interrupted. INDEFINITE: the write may have happened")


@pytest.mark.usefixtures("node")
def test_a_read_that_was_interrupted_is_just_that(capsysbinary: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Client, "read", interrupt)
    assert command(["get", "user/ada"], capsysbinary) == (130, "", "\nepoxy: interrupted\n")


def test_an_actor_that_does_not_start_was_not_asked(node: FakeNode, capsysbinary: Captured) -> None:
    node.misdeeds.append(problem(503, "not_running", definite=True))
    status, out, err = command(["actor", "request", "room", "lobby", "hello"], capsysbinary)
    assert (status, out) == (1, "")
    assert err.endswith("(not_running). Definite: the actor was not asked\n")


def test_a_key_of_transactions_is_told_without_a_version() -> None:
    found = Reading(
        key=b"k", value=b"v", version=0, mutable=True, source=Source.LOCAL, latency_ms=1.0, transactional=True
    )
    assert in_words(found) == "belongs to transactions, source local, 1.0 ms"
    assert reading_json(found)["version"] is None
