"""reserve, put, add and delete: what they print, where, and how they exit."""

import pytest

from tests.cli.commands import Captured, command, in_json
from tests.client.fake import FakeNode, Held


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


def test_delete(node: FakeNode, capsysbinary: Captured) -> None:
    node.kv[b"k"] = Held(b"v", 1, mutable=True)
    assert command(["delete", "k"], capsysbinary)[:2][1].startswith("deleted: k, version 2 is a tombstone\n")
    status, out, err = command(["delete", "k"], capsysbinary)
    assert (status, out, err) == (4, "", "epoxy: there is nothing to delete under k\n")
    status, told = in_json(["delete", "k"], capsysbinary)
    assert (status, told["deleted"], told["version"]) == (4, False, 2)


def test_what_was_there_before(node: FakeNode, capsysbinary: Captured) -> None:
    out = command(["put", "k", "1", "--returning"], capsysbinary)[1]
    assert [line.split() for line in out.splitlines()[:2]] == [
        ["written:", "k,", "version", "1,", "a", "new", "key"],
        ["before", "nothing"],
    ]
    assert command(["put", "k", "2", "--returning"], capsysbinary)[1].splitlines()[1].split() == ["before", "1"]
    assert in_json(["put", "k", "3"], capsysbinary)[1].keys().isdisjoint({"previous"})
    assert in_json(["put", "k", "4", "--returning"], capsysbinary)[1]["previous"]["value"] == "3"
    assert command(["delete", "k", "--returning"], capsysbinary)[1].splitlines()[1].split() == ["before", "4"]
    assert in_json(["delete", "k", "--returning"], capsysbinary)[1]["previous"] is None
    assert node.kv[b"k"].version == 5


@pytest.mark.parametrize("arguments", [["--jsno", "5"], ["--jsno", "n"], ["n", "--jsno"], ["-5"]])
def test_a_mistyped_option_or_an_amount_alone_is_no_key(
    node: FakeNode, capsysbinary: Captured, arguments: list[str]
) -> None:
    status, out, err = command(["add", *arguments], capsysbinary)
    assert (status, out) == (2, "")
    assert err.startswith(("epoxy: No such option '--jsno'", "epoxy: Missing argument 'KEY'"))
    assert command(["add", "n", "-5", "--url", node.url], capsysbinary)[1].startswith("added: n is -5, version 1")
    assert command(["add", "--", "-5", "-2"], capsysbinary)[1].startswith("added: -5 is -2, version 1")


def test_add(node: FakeNode, capsysbinary: Captured) -> None:
    assert command(["add", "n"], capsysbinary)[1].startswith("added: n is 1, version 1, a new key\n")
    assert command(["add", "n", "-4"], capsysbinary)[1].startswith("added: n is -3, version 2\n")
    status, told = in_json(["add", "n", "10", "--if-version", "2"], capsysbinary)
    assert (status, told["key"], told["number"], told["version"], told["created"]) == (0, "n", 7, 3, False)
    assert command(["add", "n", "--if-version", "2"], capsysbinary)[0] == 3
    node.kv[b"n"] = Held(b"word", 4, mutable=True)
    status, out, err = command(["add", "n"], capsysbinary)
    assert (status, out) == (3, "")
    words = "nothing can be added: the value is no decimal number of 64 bits. Definite: nothing was written"
    assert err == f"epoxy: {words}\n"
    status, told = in_json(["add", "n"], capsysbinary)
    assert (status, told["error"]["code"], told["error"]["committed"]["value"]) == (3, "NotAnInteger", "word")


@pytest.mark.parametrize("amount", ["one", "1.5", "9223372036854775808", "-9223372036854775809", ""])
def test_an_amount_that_is_no_number_of_64_bits(node: FakeNode, amount: str, capsysbinary: Captured) -> None:
    status, out, err = command(["add", "n", amount], capsysbinary)
    assert (status, out) == (2, "")
    assert "[N]" in err
    assert "is not a valid integer." in err or "is not in the range" in err
    assert not node.requests


def test_an_empty_value_leaves_no_gap(node: FakeNode, capsysbinary: Captured) -> None:
    status, out, _ = command(["reserve", "k", ""], capsysbinary)
    assert (status, node.kv[b"k"].value) == (0, b"")
    assert out.startswith('won: k is "", for ever\n')
