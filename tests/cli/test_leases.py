"""renew, session, and the options of put and add about time: what they print, where, and how they exit."""

import pytest

from epoxy.cli.leases import TimeSpan
from tests.cli.commands import Captured, command, in_json
from tests.client.fake import FakeNode, Held


def test_put_with_a_time_to_live(node: FakeNode, capsysbinary: Captured) -> None:
    status, out, _ = command(["put", "k", "v", "--ttl", "30s", "--if-absent"], capsysbinary)
    assert (status, node.kv[b"k"].ttl) == (0, 30_000)
    assert "expires             in 30.0 s" in out
    status, _, err = command(["put", "k", "w", "--ttl", "500ms", "--if-absent"], capsysbinary)
    assert status == 3
    assert err.startswith("epoxy: the key has a value, version 1, for another 30.0 s unless it is renewed. Definite")
    assert in_json(["get", "k"], capsysbinary)[1]["ttl"] == 30.0
    assert "expires in 30.0 s" in command(["get", "k", "-v"], capsysbinary)[2]
    assert in_json(["put", "k", "w"], capsysbinary)[1]["ttl"] is None
    assert command(["add", "n", "--ttl", "1m"], capsysbinary)[0] == 0
    assert "PATCH /v2/kv/n?add=1&ttl=60000" in node.requests


def test_renew(node: FakeNode, capsysbinary: Captured) -> None:
    node.kv[b"k"] = Held(b"v", 4, mutable=True)
    status, out, _ = command(["renew", "k", "--ttl", "1m", "--if-version", "4"], capsysbinary)
    assert (status, out) == (0, "renewed: k, version 5, expires in 60.0 s\n")
    status, out, _ = command(["renew", "k", "--never"], capsysbinary)
    assert (status, out) == (0, "renewed: k, version 6, does not expire\n")
    assert command(["renew", "k", "--ttl", "1s", "--if-version", "4"], capsysbinary)[0] == 3
    status, out, err = command(["renew", "none", "--ttl", "1s"], capsysbinary)
    assert (status, out, err) == (4, "", "epoxy: there is nothing to renew under none\n")
    status, told = in_json(["renew", "k", "--ttl", "2s"], capsysbinary)
    assert (status, told) == (0, {"key": "k", "renewed": True, "version": 7, "ttl": 2.0})
    for words in ([], ["--ttl", "1s", "--never"]):
        status, _, err = command(["renew", "k", *words], capsysbinary)
        assert (status, err) == (2, "epoxy: give --ttl TIME, or --never\n")


def test_sessions(node: FakeNode, capsysbinary: Captured) -> None:
    status, out, _ = command(["session", "new", "--ttl", "2m"], capsysbinary)
    session = out.strip()
    assert (status, node.sessions) == (0, {session: 120_000})
    assert command(["put", "w", "up", "--session", session], capsysbinary)[0] == 0
    assert command(["session", "renew", session], capsysbinary)[1] == "renewed: lasts for 120.0 s\n"
    shown = "lasts for another 120.0 s; 120 s after each renewal\n"
    assert command(["session", "show", session], capsysbinary)[1] == shown
    assert in_json(["session", "show", session], capsysbinary)[1] == {
        "session": session,
        "ttl": 120.0,
        "remaining": 120.0,
    }
    assert command(["session", "end", session], capsysbinary)[:2] == (0, "ended\n")
    for words in (["session", "end", session], ["session", "show", session], ["put", "w", "up", "--session", session]):
        status, out, err = command(words, capsysbinary)
        assert (status, out) == (4, "")
        assert err.startswith("epoxy: about no_session (no_session)")
    assert command(["session", "show", "abc"], capsysbinary)[0] == 2


@pytest.mark.parametrize(
    ("text", "seconds"), [("500ms", 0.5), ("30s", 30.0), ("1.5m", 90.0), ("2h", 7200.0), ("1d", 86400.0)]
)
def test_times(text: str, seconds: float) -> None:
    assert TimeSpan().convert(text, None, None) == seconds


@pytest.mark.usefixtures("node")
@pytest.mark.parametrize("text", ["5", "s", "-1s", "1 s", "1w", ""])
def test_times_that_are_none(text: str, capsysbinary: Captured) -> None:
    status, _, err = command(["put", "k", "v", f"--ttl={text}"], capsysbinary)
    assert status == 2
    assert err.endswith(f"{text!r} is no time; write 500ms, 30s, 5m, 2h or 1d\n")
