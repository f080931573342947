"""A data directory made from known rows: complete, or nothing that a node would start with."""

import errno
import os
from pathlib import Path

import pytest

from epoxy.model.errors import StoreFailed, StoreRefused
from epoxy.store.embedded.bulk import DataDirBuilder
from epoxy.store.embedded.datadir import DataDir
from epoxy.store.embedded.files import SystemFiles
from epoxy.store.embedded.store import EmbeddedStore
from epoxy.store.embedded.tree import Tree

CLUSTER = "00000000000000aa"
ROWS = {b"key %03d" % number: b"value %d" % number for number in range(300)}
LONG = {b"long" + bytes(600): b"x", b"empty": b""}


def ignore(_: object) -> None:
    """Nothing is committed here."""


def build(path: Path, rows: dict[bytes, bytes] = ROWS, files: SystemFiles | None = None) -> None:
    with builder(path, files) as made:
        made.write(dict(rows))
        made.finish()


def builder(path: Path, files: SystemFiles | None = None) -> DataDirBuilder:
    return DataDirBuilder(path, replica=7, cluster=CLUSTER, name="a test", files=files or SystemFiles())


def opened(path: Path) -> dict[bytes, bytes]:
    """As a node would start with it."""
    with DataDir.open(path, replica=7, name="eu") as directory:
        assert directory.cluster == CLUSTER
        assert not directory.is_new
        return rows_of(path)


def rows_of(path: Path) -> dict[bytes, bytes]:
    """Of a directory that was just made."""
    store = EmbeddedStore(path, post=ignore, schedule=ignore, on_failure=ignore)
    found = dict(store.newest().range(b"", b"\xff", limit=1000))
    assert (store.position(), store.newest_stamp()) == (0, 0)
    store.close()
    return found


def test_a_node_starts_with_the_rows(tmp_path: Path) -> None:
    path = tmp_path / "a" / "data"
    build(path, ROWS | LONG)
    assert opened(path) == ROWS | LONG
    assert sorted(os.listdir(path)) == ["format", "lock", "log", "tree"]


def test_what_was_written_can_be_read_while_it_is_made(tmp_path: Path) -> None:
    with builder(tmp_path) as made:
        made.write({b"a": b"1"})
        made.write({b"b": b"2"})
        assert made.read([b"a", b"x", b"b"]) == [b"1", None, b"2"]


def test_without_finish_nothing_is_left(tmp_path: Path) -> None:
    with builder(tmp_path) as made:
        made.write(dict(ROWS))
    assert os.listdir(tmp_path) == ["lock"]


@pytest.mark.parametrize("name", ["format", "tree", "notes.txt"])
def test_a_directory_that_holds_anything_is_refused_and_left(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text('{"format": 4, "replica": 3}')
    with pytest.raises(StoreRefused, match="a backup is restored into an empty one"):
        builder(tmp_path)
    assert os.listdir(tmp_path) == [name]


def test_a_file_in_its_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    with pytest.raises(StoreRefused, match="not a directory"):
        builder(tmp_path / "data")


def test_two_processes_do_not_make_one_directory(tmp_path: Path) -> None:
    with builder(tmp_path), pytest.raises(StoreRefused, match="in use by a test"):
        builder(tmp_path)


class PowerCut(BaseException):
    pass


class FailingFiles(SystemFiles):
    """Ends at the n-th change of the directory, as a power cut does: nothing is done after it."""

    def __init__(self, at: int) -> None:
        self.left = at

    def _step(self) -> None:
        self.left -= 1
        if self.left <= 0:
            raise PowerCut

    def rename(self, path: Path, to: Path) -> None:
        self._step()
        super().rename(path, to)

    def remove_folder(self, path: Path) -> None:
        self._step()
        super().remove_folder(path)

    def make_folder(self, path: Path, mode: int = 0o700) -> None:
        self._step()
        super().make_folder(path, mode)


def test_after_a_power_cut_it_is_whole_or_refused_and_made_again(tmp_path: Path) -> None:
    whole = 0
    for at in range(1, 30):
        path = tmp_path / str(at) / "data"
        path.mkdir(parents=True)
        try:
            made = builder(path, FailingFiles(at))
            try:
                made.write(dict(ROWS))
                made.finish()
            finally:
                made.close()
        except PowerCut:
            pass
        else:
            assert opened(path) == ROWS
            break
        if (path / "format").exists():
            assert opened(path) == ROWS
            whole += 1
            continue
        if (path / "restoring").exists():
            with pytest.raises(StoreRefused, match="`epoxy restore` was interrupted here"):
                DataDir.open(path, replica=7, name="eu")
        build(path)
        assert opened(path) == ROWS
    assert at > 6, "every step was cut"
    assert whole, "the last step is the removal of an empty folder"


class FullDisk(SystemFiles):
    """Has room for so many renames."""

    def __init__(self, good: int) -> None:
        self.good = good

    def rename(self, source: Path, target: Path) -> None:
        if not self.good:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.good -= 1
        super().rename(source, target)


@pytest.mark.parametrize("good", [0, 1, 2])
def test_a_full_disk_is_called_so_and_leaves_nothing(tmp_path: Path, good: int) -> None:
    with pytest.raises(StoreFailed, match=r"the disk is full: .*No space left"):
        build(tmp_path, files=FullDisk(good))
    assert opened_after_another_attempt(tmp_path) == ROWS


def opened_after_another_attempt(path: Path) -> dict[bytes, bytes]:
    build(path)
    return opened(path)


def test_what_lmdb_calls_an_input_output_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise StoreFailed("the tree cannot be written: Input/output error")

    monkeypatch.setattr(Tree, "apply", fail)
    with pytest.raises(StoreFailed, match=r": the tree cannot be written: Input") as broken:
        build(tmp_path)
    assert "full" not in str(broken.value)
    monkeypatch.setattr(SystemFiles, "free_bytes", lambda *_: 0)
    with pytest.raises(StoreFailed, match="the disk is full: the tree cannot be written"):
        build(tmp_path)
