"""Which node is asked, arguments byte for byte, and how a failure is reported."""

import io
import sys

import pytest

from epoxy.cli.main import run
from epoxy.client import Client
from tests.cli.commands import Captured, command, in_json
from tests.client.fake import FakeNode, Held, hang_up, problem, web_page


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
