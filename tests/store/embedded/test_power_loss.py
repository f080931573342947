"""A power cut, as far as names are concerned: what was put into a folder is there afterwards only if the folder was
synced since. The contents of files are the matter of other tests; here they are as they were."""

import os
import shutil
import stat
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from epoxy.model.errors import StoreRefused
from epoxy.store.embedded.datadir import DataDir
from epoxy.store.embedded.files import SystemFiles
from epoxy.store.embedded.store import EmbeddedStore
from tests.store.conformance import rows
from tests.store.hand import SteppedIoThread

REPLICA = 7
LOG_BYTES = 64
"""Every other commit begins a segment."""


class Disk:
    """Knows for every folder what it held when it was synced last."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._synced: dict[Path, dict[str, int]] = {}
        self._sync = os.fsync

    def fsync(self, descriptor: int) -> None:
        self._sync(descriptor)
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            folder = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
            self._synced[folder] = {entry.name: entry.inode() for entry in os.scandir(folder)}

    def after_a_power_cut(self, copy: Path) -> Path:
        self._restore(self.root, copy)
        return copy

    def _restore(self, folder: Path, copy: Path) -> None:
        """A file that was renamed since has its old name again; one that was deleted stays away, as it may."""
        copy.mkdir()
        now = {entry.inode(): entry for entry in os.scandir(folder)}
        for name, inode in self._synced.get(folder, {}).items():
            entry = now.get(inode)
            if entry is None:
                continue
            if entry.is_dir():
                self._restore(Path(entry.path), copy / name)
            else:
                shutil.copyfile(entry.path, copy / name)


class Life:
    """A store in a data directory, as a process has them; its threads move when they are told to."""

    def __init__(self, path: Path) -> None:
        self.directory = DataDir.open(path, replica=REPLICA, name="test")
        self._ticks: deque[Callable[[], None]] = deque()
        self._threads: list[SteppedIoThread] = []

        def io_thread(name: str, post: object) -> SteppedIoThread:
            del name, post
            self._threads.append(SteppedIoThread())
            return self._threads[-1]

        self.store = EmbeddedStore(
            path,
            post=self._ticks.append,
            schedule=self._ticks.append,
            on_failure=fail,
            io_thread=io_thread,
            log_bytes=LOG_BYTES,
        )

    def commit(self, key: bytes, value: bytes) -> None:
        """Returns when it is acknowledged."""
        acknowledged: list[bool] = []
        self.store.transact(lambda tx: tx.set(key, value))
        self.store.when_durable(lambda: acknowledged.append(True))
        while not acknowledged:
            self._move()

    def settle(self) -> None:
        """Checkpoints too."""
        while self._move():
            pass

    def close(self) -> None:
        self.store.close()
        self.directory.close()

    def _move(self) -> bool:
        if self._ticks:
            self._ticks.popleft()()
            return True
        return any(thread.work() or thread.report() for thread in self._threads)


def fail(error: Exception) -> None:
    raise error


@contextmanager
def living(path: Path) -> Iterator[Life]:
    life = Life(path)
    try:
        yield life
    finally:
        life.close()


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Disk:
    root = tmp_path / "disk"
    root.mkdir()
    found = Disk(root)
    monkeypatch.setattr(os, "fsync", found.fsync)
    return found


def judge(disk: Disk, copy: Path, acknowledged: dict[bytes, bytes]) -> None:
    """A replica that comes back without what it has promised must not come back at all; best, it has all of it."""
    path = disk.after_a_power_cut(copy) / "var" / "epoxy"
    assert path.exists(), "its whole directory is gone"
    with living(path) as life:
        assert not life.directory.is_new, "it does not know that it has been here"
        assert dict(rows(life.store.begin())) == acknowledged


def live(disk: Disk, tmp_path: Path, commits: int = 12) -> None:
    acknowledged: dict[bytes, bytes] = {}
    with living(disk.root / "var" / "epoxy") as life:
        for number in range(commits):
            key, value = b"key-%d" % number, b"v" * 50
            life.commit(key, value)
            acknowledged[key] = value
            judge(disk, tmp_path / f"after-{number}", acknowledged)
            if number % 3 == 2:
                life.settle()
                judge(disk, tmp_path / f"settled-{number}", acknowledged)


def test_names_outlive_a_power_cut(disk: Disk, tmp_path: Path) -> None:
    live(disk, tmp_path)


@pytest.mark.parametrize("folder", ["disk", "var", "epoxy", "tree", "log"])
def test_a_sync_of_a_folder_that_is_left_out_is_noticed(
    disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    real = SystemFiles.sync_folder
    skipped = 0

    def forgetful(files: SystemFiles, path: Path) -> None:
        nonlocal skipped
        if path.name == folder:
            skipped += 1
        else:
            real(files, path)

    monkeypatch.setattr(SystemFiles, "sync_folder", forgetful)
    with pytest.raises((AssertionError, StoreRefused)):
        live(disk, tmp_path)
    assert skipped


def test_a_directory_made_by_a_process_that_was_killed_is_synced_by_the_next(disk: Disk, tmp_path: Path) -> None:
    """It was made, and nobody knows whether its name was synced."""
    (disk.root / "var" / "epoxy").mkdir(parents=True)
    live(disk, tmp_path, commits=2)
