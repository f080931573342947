"""Which token and which certificates commands use."""

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from epoxy.cli.credentials import home_token, write_private
from epoxy.model.errors import InvalidRequest
from tests.cli.commands import Captured, command
from tests.client.fake import FakeNode


def test_the_nearest_of_four_places_counts(
    node: FakeNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: Captured
) -> None:
    def shown(*words: str) -> str | None:
        command(["get", "k", *words], capfdbinary)
        return node.authorizations[-1]

    assert shown() is None
    write_private(home_token(), "epx_home", replace=False)
    assert shown() == "Bearer epx_home"
    for place in ("variable", "option"):
        (tmp_path / place).write_text(f"epx_{place}_file")
    monkeypatch.setenv("EPOXY_TOKEN_FILE", str(tmp_path / "variable"))
    assert shown() == "Bearer epx_variable_file"
    monkeypatch.setenv("EPOXY_TOKEN", "epx_variable")
    assert shown() == "Bearer epx_variable"
    assert shown("--token-file", str(tmp_path / "option")) == "Bearer epx_option_file"


@pytest.mark.parametrize(
    "words",
    [
        ["status"],
        ["put", "k", "v"],
        ["txn", "FILE"],
        ["watch", "--no-follow"],
        ["doctor"],
        ["members", "list"],
        ["scrub"],
        ["backup", "OUT"],
        ["actor", "get", "a", "b"],
        ["envoy", "list"],
        ["inspect", "k"],
        ["bench", "reserve", "--count", "1"],
    ],
    ids=lambda words: words[0],
)
def test_every_command_that_asks_a_node_shows_it(
    node: FakeNode, words: list[str], tmp_path: Path, capfdbinary: Captured
) -> None:
    node.token = "epx_t"
    file = tmp_path / "token"
    file.write_text("epx_t")
    (tmp_path / "txn").write_text('{"then": [{"op": "put", "key": "a", "value": "b"}]}')
    places = {"FILE": str(tmp_path / "txn"), "OUT": str(tmp_path / "out")}
    words = [places.get(word, word) for word in words]
    node.members, node.scrubs = [{}], [(200, {})]
    command([*words, "--token-file", str(file)], capfdbinary)
    assert set(node.authorizations) == {"Bearer epx_t"}
    node.authorizations.clear()
    status, _, err = command(words, capfdbinary)
    assert set(node.authorizations) == {None}
    assert status == (1 if words == ["doctor"] else 77), err


def test_a_file_that_is_not_there(node: FakeNode, tmp_path: Path, capfdbinary: Captured) -> None:
    status, _, err = command(["get", "k", "--token-file", str(tmp_path / "absent")], capfdbinary)
    assert (status, node.requests) == (2, [])
    assert err == f"epoxy: the token in {tmp_path}/absent cannot be read: no such file or directory\n"


def test_another_machine_without_tls(monkeypatch: pytest.MonkeyPatch, capfdbinary: Captured) -> None:
    monkeypatch.setenv("EPOXY_TOKEN", "epx_hidden")
    status, _, err = command(["get", "k", "--url", "http://10.0.0.1:7800"], capfdbinary)
    assert status == 2
    assert "unencrypted; use https" in err
    assert "epx_hidden" not in err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--ca", "absent"], "--ca absent: no such file or directory"),
        (["--cert", "absent"], "--cert absent: no such file or directory"),
        (["--key", "absent"], "--cert is missing"),
        (["--ca", "/dev/null"], "--ca /dev/null: "),
    ],
)
def test_certificates_that_cannot_be_used(node: FakeNode, words: list[str], told: str, capfdbinary: Captured) -> None:
    status, _, err = command(["get", "k", *words], capfdbinary)
    assert (status, node.requests) == (2, [])
    assert told in err
    assert len(err.splitlines()) == 1


def test_a_private_file_is_private_from_the_first_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a" / "token"
    seen: list[int] = []
    link = Path.replace

    def replace(self: Path, target: Any) -> Any:
        seen.append(stat.S_IMODE(self.stat().st_mode))
        return link(self, target)

    monkeypatch.setattr(Path, "replace", replace)
    write_private(file, "one", replace=False)
    with pytest.raises(InvalidRequest, match="exists; --force"):
        write_private(file, "two", replace=False)
    file.chmod(0o644)
    write_private(file, "three", replace=True)
    assert (file.read_text(), stat.S_IMODE(file.stat().st_mode), seen) == ("three\n", 0o600, [0o600] * 2)
    assert [each.name for each in file.parent.iterdir()] == ["token"]
    with pytest.raises(InvalidRequest, match="cannot be written"):
        write_private(file / "below", "x", replace=True)


def test_a_planted_fault_a_file_that_others_can_read_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = os.open
    monkeypatch.setattr(os, "open", lambda path, flags, _mode: opened(path, flags, 0o644))
    with pytest.raises(AssertionError):
        test_a_private_file_is_private_from_the_first_moment(tmp_path, monkeypatch)
