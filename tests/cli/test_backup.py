"""`epoxy backup FILE`: what it writes, what it leaves, and how it exits."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from epoxy.backup.files import BackupReader
from epoxy.cli import backup as commands
from epoxy.cli.main import run
from tests.client.fake_backup import BLOCKS, STATE, FakeBackupNode

Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "LOOK_S", 0.0)


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeBackupNode]:
    with FakeBackupNode() as fake:
        monkeypatch.setenv("EPOXY_URL", fake.url)
        yield fake


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "cluster.backup"


def written(file: Path) -> list[Any]:
    with BackupReader(file) as reader:
        found = [record for block in reader.blocks() for record in block.records]
        assert (reader.header.datacenter, reader.header.epoch) == ("us-east-1", 2)
        return found


ALL = [(b"a", b"1"), (b"b", b"2"), (b"c", b"3"), (b"b", b"7")]


def test_a_backup_is_written_and_ended_at_the_node(node: FakeBackupNode, file: Path, capsys: Captured) -> None:
    node.states = [STATE | {"phase": phase} for phase in ("settling", "executing", "cutting", "ready")]
    assert run(["backup", str(file)]) == 0
    assert written(file) == ALL
    told = capsys.readouterr()
    assert told.out.startswith(f"{file}: 3 keys, ")
    assert "settling open votes" in told.err
    assert (node.ended, list(file.parent.iterdir())) == (1, [file])


def test_a_file_is_never_overwritten_without_force(node: FakeBackupNode, file: Path, capsys: Captured) -> None:
    file.write_text("precious")
    assert run(["backup", str(file)]) == 2
    assert "exists; --force replaces it" in capsys.readouterr().err
    assert (file.read_text(), node.requests) == ("precious", [])
    assert run(["backup", "--force", str(file)]) == 0
    assert written(file) == ALL


def test_json(node: FakeBackupNode, file: Path, capsys: Captured) -> None:
    assert run(["backup", "--json", str(file)]) == 0
    told = capsys.readouterr()
    document = json.loads(told.out)
    assert (document["keys"], document["values"], document["missing_actors"], told.err) == (3, 1, [], "")
    assert node.ended == 1


def test_datacenters_whose_actors_are_missing_are_named(node: FakeBackupNode, file: Path, capsys: Captured) -> None:
    node.states = [STATE, STATE | {"phase": "done", "missing": ["eu-west-1"]}]
    assert run(["backup", str(file)]) == commands.WITHOUT_ACTORS
    assert "the actors of eu-west-1 are not in it" in capsys.readouterr().err
    with BackupReader(file) as reader:
        assert reader.verify().missing == ("eu-west-1",)


def test_one_that_fails_says_why_in_one_line(node: FakeBackupNode, file: Path, capsys: Captured) -> None:
    node.states = [STATE | {"phase": "failed", "reason": "dc-2 does not answer"}]
    assert run(["backup", "--json", str(file)]) == 1
    told = capsys.readouterr()
    assert told.err == "epoxy: us-east-1 could not make it: dc-2 does not answer\n"
    assert json.loads(told.out)["error"]["code"] == "BackupError"
    assert list(file.parent.iterdir()) == []


def test_a_lost_connection_goes_on_with_the_same_block(node: FakeBackupNode, file: Path) -> None:
    real, lost = node.answer, [0, 1, 1, 2]

    def answer(request: Any, path: str, query: dict[str, str]) -> None:
        if "from" in query and int(query["from"]) in lost:
            lost.remove(int(query["from"]))
            request.close_connection = True
            return
        real(request, path, query)

    node.answer = answer  # type: ignore[method-assign]
    assert run(["backup", str(file)]) == 0
    assert written(file) == ALL
    assert lost == []


def test_a_block_that_was_damaged_on_its_way_leaves_no_file(node: FakeBackupNode, file: Path, capsys: Captured) -> None:
    node.blocks[1] = BLOCKS[1][:-9] + b"x" + BLOCKS[1][-8:]
    assert run(["backup", str(file)]) == 1
    assert "checksum" in capsys.readouterr().err
    assert (node.ended, list(file.parent.iterdir())) == (1, [])


def test_ctrl_c_leaves_nothing_and_says_so(
    node: FakeBackupNode, file: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(commands, "copy_blocks", interrupted)
    assert run(["backup", str(file)]) == 130
    assert "interrupted" in capsys.readouterr().err
    assert (node.ended, list(file.parent.iterdir())) == (1, [])


def test_the_next_node_is_asked_if_one_is_away(node: FakeBackupNode, file: Path) -> None:
    assert run(["backup", "--url", f"http://127.0.0.1:1,{node.url}", str(file)]) == 0
    assert written(file) == ALL


def test_a_node_that_stays_away_is_given_up(
    node: FakeBackupNode, file: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "PATIENCE_S", 0.0)
    monkeypatch.setattr(node, "answer", lambda request, path, query: FakeBackupNode.answer(node, request, path, query))
    node.states = [STATE | {"phase": "settling"}]
    real = node.answer

    def answer(request: Any, path: str, query: dict[str, str]) -> None:
        if request.command == "POST":
            real(request, path, query)
        else:
            request.close_connection = True

    node.answer = answer  # type: ignore[method-assign]
    assert run(["backup", str(file)]) == 1
    assert capsys.readouterr().err.count("epoxy: ") == 1


def test_a_refusal_is_one_line(node: FakeBackupNode, file: Path, capsys: Captured) -> None:
    node.misdeeds.append(lambda request: request.error(409, "backup_running"))
    assert run(["backup", str(file)]) == 1
    assert capsys.readouterr().err == "epoxy: about backup_running (backup_running)\n"


def test_a_folder_that_is_not_there(node: FakeBackupNode, tmp_path: Path, capsys: Captured) -> None:
    assert run(["backup", str(tmp_path / "none" / "file")]) == 1
    assert "is no folder" in capsys.readouterr().err
    assert node.requests == []


@pytest.mark.parametrize(("name", "words"), [("-", "not to the standard output"), ("device", "is no regular file")])
def test_what_is_no_file_is_not_replaced(
    node: FakeBackupNode,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Captured,
    name: str,
    words: str,
) -> None:
    """As /dev/null, which a rename would replace for every process of the machine."""
    monkeypatch.chdir(tmp_path)
    os.mkfifo("device")
    assert run(["backup", "--force", name]) == 2
    assert words in capsys.readouterr().err
    assert (node.requests, os.listdir()) == ([], ["device"])
