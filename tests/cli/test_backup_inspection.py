"""`epoxy backup inspect`: what is in a file, and that all of it is."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from epoxy.backup.files import BackupWriter
from epoxy.backup.format import BackupHeader, BackupMember, Kind, encode_block
from epoxy.cli.backup import backup
from tests.backup.test_restore import KEYS, RESERVED


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    header = BackupHeader(
        made_at="2026-11-16T11:00:00Z",
        replica=2,
        datacenter="eu",
        epoch=3,
        members=(BackupMember(id=1, datacenter="us"), BackupMember(id=2, datacenter="eu")),
        quorum_policy="optimal",
        version="2.0",
        cluster="00000000000000aa",
    )
    with BackupWriter(Path("b"), header) as writer:
        writer.write(encode_block(Kind.KEYS, [*KEYS, RESERVED]))
        writer.write(encode_block(Kind.VALUES, [(b"acct", b"5")]))
        writer.finish(missing=("us",))
    return Path("b")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(backup, ["inspect", *arguments])


def test_when_where_and_how_much(file: Path) -> None:
    done = run("b")
    assert done.exit_code == 0
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert lines[0] == f"b: whole, {file.stat().st_size:,} bytes"
    assert lines[1:6] == [
        "made 2026-11-16T11:00:00Z by `epoxy backup`, Epoxy 2.0",
        "at eu (replica 2), epoch 3",
        "members 1 us, 2 eu; optimal quorums",
        "cluster 00000000000000aa",
        "keys 5 " + lines[5].removeprefix("keys 5 "),
    ]
    assert lines[6] == "transactions 1 (5 bytes) of values"
    assert lines[8] == "missing actors of us"


def test_keys_by_their_beginning(file: Path) -> None:
    assert file.exists()
    shown = run("b", "--keys", "").stdout
    assert "acct  (belongs to transactions)" in shown
    assert "cfg  version 4  4" in shown
    assert "gone  version 2  (deleted)" in shown
    assert "user/ada  version 1  dublin" in shown
    assert "%FF" not in shown, "names of actors are the cluster's own"
    found = json.loads(run("b", "--keys", "c", "--json").stdout)
    assert found["keys"] == [{"key": "cfg", "version": 4, "mutable": True, "value": "4"}]
    assert (found["whole"], found["end"]["keys"]["records"], found["header"]["epoch"]) == (True, 5, 3)
    assert len(json.loads(run("b", "--keys", "", "--limit", "2", "--json").stdout)["keys"]) == 2
    assert "keys" not in json.loads(run("b", "--json").stdout)


def test_a_file_that_is_not_whole_is_refused_with_the_place(file: Path) -> None:
    data = file.read_bytes()
    file.write_bytes(data[:-1])
    refused = run("b", "--keys", "")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "b: block 3, at byte" in refused.stderr
    assert "incomplete" in refused.stderr
    assert run("absent").exit_code == 1
