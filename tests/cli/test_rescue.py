"""`epoxy rescue` at the command line: what the operator must type, and what is printed and listed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from epoxy.backup.open_writes import Doubt, OpenWrite
from epoxy.cli import rescue as module
from epoxy.cli.rescue import document, rescue
from epoxy.node.process.exits import EXIT_STORE
from tests.backup.test_rescue import committed, node, voted


def run(*arguments: str | Path, given: str = "") -> Result:
    return CliRunner().invoke(rescue, list(map(str, arguments)), input=given)


@pytest.fixture
def survivor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return node(tmp_path, 1, committed(b"a", b"1"), voted(b"open", b"mine"))


def test_a_script_names_exactly_the_lost_members(survivor: Path) -> None:
    for wrong in ("2", "1,2,3", "", "2,3,3", "x"):
        refused = run(survivor, "--out", "b", "--lost", wrong)
        assert refused.exit_code == 1, wrong
        assert "the members that are not given are 2,3, not " in refused.stderr
    assert "without a terminal, name the lost members: --lost 2,3" in run(survivor, "--out", "b").stderr
    assert not Path("b").exists()
    assert run(survivor, "--out", "b", "--lost", "3, 2").exit_code == 5


def test_a_directory_that_is_given_twice_is_not_in_use(survivor: Path) -> None:
    refused = run(survivor, survivor.parent / "." / survivor.name, "--out", "b", "--lost", "2,3")
    assert (refused.exit_code, f"{survivor} is given twice" in refused.stderr) == (2, True)


def test_at_a_terminal_they_are_typed(survivor: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "is_terminal", lambda: True)
    refused = run(survivor, "--out", "b", given="yes\n")
    assert (refused.exit_code, Path("b").exists()) == (1, False)
    assert "lost: 2 (eu), 3 (ap)" in refused.stderr
    assert "must never run again" in refused.stderr
    assert run(survivor, "--out", "b", given="2,3\n").exit_code == 5


def test_what_is_in_doubt_is_listed_and_said(survivor: Path) -> None:
    done = run(survivor, "--out", "b", "--lost", "2,3")
    lines = done.stdout.splitlines()
    assert lines[:4] == [
        "b: 2 keys, 0 values of transactions, 0 rows of actors",
        "actors of ap, eu are lost; their names stay reserved",
        "  open: voted for, not known to be decided (replica 1): taken",
        "1 write in doubt: b.missing",
    ]
    assert "has left no trace" in done.stdout
    assert "next: epoxy restore b --config epoxy.toml" in done.stdout
    (line,) = Path("b.missing").read_text().splitlines()
    assert json.loads(line) == {
        "key": "open",
        "why": "vote",
        "replicas": [1],
        "version": 1,
        "value": "mine",
        "taken": True,
    }


def test_left_votes_are_listed_too(survivor: Path) -> None:
    done = run(survivor, "--out", "b", "--lost", "2,3", "--open-votes", "leave", "--json")
    assert json.loads(done.stdout) == {
        "file": "b",
        "quorum": False,
        "lost": [2, 3],
        "keys": 1,
        "values": 0,
        "actors": 0,
        "in_doubt": 1,
        "list": "b.missing",
    }
    assert json.loads(Path("b.missing").read_text())["taken"] is False


def test_a_quorum_misses_nothing_and_is_told_so(survivor: Path, tmp_path: Path) -> None:
    done = run(survivor, node(tmp_path, 2), "--out", "b", "--lost", "3")
    assert done.exit_code == 0
    assert "these are a quorum: every acknowledged write of a key is in them" in done.stderr
    assert not Path("b.missing").exists()


def test_copies_of_all_need_no_confirmation(survivor: Path, tmp_path: Path) -> None:
    done = run(survivor, node(tmp_path, 2), node(tmp_path, 3), "--out", "b")
    assert (done.exit_code, "must never run again" in done.output) == (0, False)


@pytest.mark.parametrize("there", ["b", "b.missing"])
def test_nothing_is_overwritten(survivor: Path, there: str) -> None:
    Path(there).write_text("precious")
    refused = run(survivor, "--out", "b", "--lost", "2,3")
    assert (refused.exit_code, f"{there} exists" in refused.stderr) == (1, True)
    assert Path(there).read_text() == "precious"


def test_a_tree_that_was_cut_short_is_told_in_one_line(survivor: Path) -> None:
    os.truncate(survivor / "tree" / "data.mdb", 8192)
    command = [sys.executable, "-m", "epoxy", "rescue", str(survivor), "--out", "rescued"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == EXIT_STORE
    assert ended.stderr.splitlines()[-1].startswith(f"epoxy: SIGBUS: the tree in {survivor} was cut short")


def test_a_directory_that_is_none_is_refused(tmp_path: Path) -> None:
    refused = run(tmp_path, "--out", tmp_path / "b")
    assert (refused.exit_code, "not made by Epoxy" in refused.stderr) == (78, True)


def test_keys_and_values_that_are_no_text() -> None:
    doubt = OpenWrite(key=b"\xf0/\x00", doubt=Doubt.VOTE, version=2, value=b"\xff", replicas=(1, 2))
    expected = {"key": "%F0%2F%00", "why": "vote", "replicas": (1, 2), "version": 2, "value_base64": b"\xff"}
    assert document(doubt) == expected | {"taken": False}
    deleted = OpenWrite(key=b"k", doubt=Doubt.VOTE, version=2, value=None, replicas=(1,))
    assert document(deleted)["value"] is None
    assert document(OpenWrite(key=b"k", doubt=Doubt.PROMISE, version=2, replicas=(1,))) == {
        "key": "k",
        "why": "promise",
        "replicas": (1,),
        "version": 2,
    }
