"""A data directory is taken by one process, of one replica, in one format, and refused in words to everybody else."""

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from epoxy.model.errors import StoreFailed, StoreRefused
from epoxy.store.embedded.datadir import FORMAT, DataDir
from epoxy.store.embedded.files import SystemFiles
from epoxy.store.embedded.store import LOG_BYTES, EmbeddedStore, open_folder

HOLDER = """
import sys
from pathlib import Path
from epoxy.store.embedded.datadir import DataDir
DataDir.open(Path(sys.argv[1]), replica=7, name="eu-west-1")
print("held", flush=True)
sys.stdin.read()
"""


def opened(path: Path, replica: int = 7) -> DataDir:
    return DataDir.open(path, replica=replica, name="eu-west-1")


def test_a_new_directory_is_made_and_found_again(tmp_path: Path) -> None:
    path = tmp_path / "data" / "eu"
    with opened(path) as first:
        assert first.path == path
        assert path.stat().st_mode & 0o777 == 0o700
    with opened(path):
        assert (path / "format").read_bytes() == b'{"format":%d,"replica":7}' % FORMAT


def test_a_directory_remembers_its_cluster_and_refuses_another(tmp_path: Path) -> None:
    mine, other = "00000000000000aa", "00000000000000bb"
    DataDir.open(tmp_path / "1", replica=7, name="eu", cluster=mine).close()
    for given in ("", mine):
        with DataDir.open(tmp_path / "1", replica=7, name="eu", cluster=given, make=False) as found:
            assert found.cluster == mine
    with pytest.raises(StoreRefused, match=rf"belongs to cluster {mine}, but cluster\.id is {other}"):
        DataDir.open(tmp_path / "1", replica=7, name="eu", cluster=other)
    opened(tmp_path / "2").close()
    with pytest.raises(StoreRefused, match=r"was not made from a backup, but cluster\.id is"):
        DataDir.open(tmp_path / "2", replica=7, name="eu", cluster=mine)


def test_a_first_member_of_a_restored_cluster_does_not_begin_empty(tmp_path: Path) -> None:
    with pytest.raises(StoreRefused, match="run `epoxy restore` here"):
        DataDir.open(tmp_path, replica=7, name="eu", cluster="00000000000000aa", make=False)
    assert not (tmp_path / "tree").exists()


def test_a_mark_stays_until_it_is_taken_away(tmp_path: Path) -> None:
    with opened(tmp_path) as first:
        assert not first.is_marked
        assert first.mark()
        assert first.is_marked
    with opened(tmp_path) as second:
        assert second.is_marked, "the first did not end in order"
        assert (tmp_path / "format").read_bytes() == b'{"format":6,"replica":7}'
        second.unmark()
    with opened(tmp_path) as third:
        assert not third.is_marked
        assert (tmp_path / "format").read_bytes() == b'{"format":5,"replica":7}'


def test_a_mark_that_the_disk_refuses_is_none(tmp_path: Path) -> None:
    class Full(SystemFiles):
        def sync(self, file: int) -> None:  # noqa: ARG002
            raise OSError(28, "no space left on the disk")

    opened(tmp_path).close()
    with DataDir.open(tmp_path, replica=7, name="eu-west-1", files=Full()) as full:
        assert not full.mark()
        assert not full.is_marked


def test_an_empty_directory_is_good_too(tmp_path: Path) -> None:
    opened(tmp_path).close()
    assert (tmp_path / "format").exists()


def test_what_a_crash_left_of_the_making_is_made_again(tmp_path: Path) -> None:
    (tmp_path / "lock").touch()
    (tmp_path / "format.next").write_bytes(b'{"for')
    opened(tmp_path).close()
    opened(tmp_path).close()
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["format", "lock", "log", "tree"]


@pytest.mark.parametrize("place", ["epoxy.store.embedded.datadir.write_whole", "epoxy.store.embedded.store.recover"])
def test_a_making_that_was_cut_short_is_begun_again(
    tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(place, dies)
        with pytest.raises(KeyboardInterrupt):
            opened(tmp_path)
    assert (tmp_path / "tree").exists()
    with opened(tmp_path) as again:
        assert again.is_new


@pytest.mark.parametrize("lost", ["log", "tree"])
@pytest.mark.parametrize("emptied", [False, True])
def test_a_directory_that_has_lost_its_store_is_refused(tmp_path: Path, lost: str, emptied: bool) -> None:
    """It would open as an empty one, and vote again where it has voted."""
    opened(tmp_path).close()
    shutil.rmtree(tmp_path / lost)
    if emptied:
        (tmp_path / lost).mkdir()
    with pytest.raises(StoreRefused, match=f"its `{lost}` is missing or empty"):
        opened(tmp_path)


def test_rows_without_a_description_are_refused(tmp_path: Path) -> None:
    opened(tmp_path).close()
    store = EmbeddedStore(tmp_path, post=ignore, schedule=ignore, on_failure=ignore)
    store.close()
    tree, log, _, _ = open_folder(tmp_path, LOG_BYTES)
    log.write(log.frame(1, {b"a": b"v"}))
    log.close()
    tree.close()
    (tmp_path / "format").unlink()
    with pytest.raises(StoreRefused, match="holds rows, but has no file `format`"):
        opened(tmp_path)


def ignore(_: object) -> None:
    """Nothing is committed here."""


def test_every_folder_on_the_way_is_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[Path] = []
    monkeypatch.setattr(SystemFiles, "sync_folder", lambda _, folder: synced.append(folder))
    opened(tmp_path / "a" / "b" / "c").close()
    assert synced[:3] == [tmp_path, tmp_path / "a", tmp_path / "a" / "b"]


def test_one_process_at_a_time_and_the_other_is_told_whose(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(StoreRefused, match=rf"in use by eu-west-1 \(pid {holder.pid}\)"):
            opened(tmp_path)
        holder.kill()
        holder.wait()
    opened(tmp_path).close()


def test_without_the_lock_file_a_second_process_is_refused_too(tmp_path: Path) -> None:
    with opened(tmp_path):
        (tmp_path / "lock").unlink()
        with pytest.raises(StoreRefused, match="in use by another process"):
            opened(tmp_path)
    opened(tmp_path).close()


def test_a_version_that_locks_the_file_alone_is_noticed(tmp_path: Path) -> None:
    opened(tmp_path).close()
    with (tmp_path / "lock").open("r+") as older:
        older.write("older (pid 5)")
        older.flush()
        fcntl.flock(older, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with pytest.raises(StoreRefused, match=r"in use by older \(pid 5\)"):
            opened(tmp_path)
    opened(tmp_path).close()


def test_without_a_lock_of_the_directory_a_second_process_would_enter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = SystemFiles.lock

    def locks_files_alone(files: SystemFiles, path: Path) -> int | None:
        return real(files, path / "other" if path.is_dir() else path)

    monkeypatch.setattr(SystemFiles, "lock", locks_files_alone)
    with opened(tmp_path / "data") as first:
        (first.path / "lock").unlink()
        (first.path / "other").unlink()
        opened(tmp_path / "data").close()


def test_the_same_process_is_refused_as_well(tmp_path: Path) -> None:
    with opened(tmp_path), pytest.raises(StoreRefused, match=rf"in use by eu-west-1 \(pid {os.getpid()}\)"):
        opened(tmp_path)


def test_a_refused_directory_is_let_go(tmp_path: Path) -> None:
    opened(tmp_path).close()
    with pytest.raises(StoreRefused):
        opened(tmp_path, replica=8)
    opened(tmp_path).close()


@pytest.mark.parametrize(
    ("description", "message"),
    [
        ('{"format": 7, "tenants": []}', "format 7, which is newer than this release knows: it reads format 5"),
        ('{"format": 0, "replica": 7}', "format 0; this release reads format 5, and migrates 4"),
        ('{"format": 5, "replica": 9}', "belongs to replica 9, this is replica 7"),
        ('{"format": 1}', "the file `format` is damaged"),
        ('{"format": "1", "replica": 7}', "the file `format` is damaged"),
        ("", "the file `format` is damaged"),
    ],
)
def test_another_format_or_another_replica_is_refused(tmp_path: Path, description: str, message: str) -> None:
    (tmp_path / "format").write_text(description)
    with pytest.raises(StoreRefused, match=message):
        opened(tmp_path)
    assert (tmp_path / "format").read_text() == description


def test_a_folder_of_somebody_else_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(StoreRefused, match="not empty, and not made by Epoxy"):
        opened(tmp_path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_file_in_its_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").touch()
    with pytest.raises(StoreRefused, match="not a directory"):
        opened(tmp_path / "data")
    with pytest.raises(StoreRefused, match="Not a directory"):
        opened(tmp_path / "data" / "below")


def test_a_disk_that_refuses_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(StoreFailed, match=r"the disk is full: make room, .*No space left on device"):
        opened(tmp_path)
    monkeypatch.undo()
    opened(tmp_path).close()
