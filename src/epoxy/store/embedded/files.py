"""Everything the embedded store does to a disk. The simulator brings a disk of its own; `SystemFiles` is the real one.

Files are written through descriptors and named by paths. What is durable when: the contents of a file after `sync`, or
after `write` if it comes from `create`; a name that was made, renamed or removed after `sync_folder` of its folder; a
transaction of the tree when its block has ended.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Protocol, Self

import lmdb

try:
    from epoxy.store.embedded.log_writer import LogWriter
except ImportError:  # Interpreted packages have none.
    LogWriter = None  # type: ignore[assignment, misc]

MAP_BYTES = 1 << 40
"""Address space, not memory or disk: the file grows with its rows. A terabyte is a 128th of a process's address space,
and more than one replica should hold."""

FORMAT_FILE, LOG_FOLDER, TREE_FOLDER = "format", "log", "tree"
"""In a data directory."""

TREE_FILE = "data.mdb"
"""LMDB's name for the file of a tree, in the folder it is given."""

TREE_DRAFT = "data.next"
"""The same file before its first pages are synced."""

READ_AHEAD_BYTES = 8 << 20
"""Read into the page cache at a time."""

ZEROS_BYTES = 1 << 20
"""Written at a time where room is made: a sync of the log that comes meanwhile waits for that much at most."""


class TreeCursor(Protocol):
    """As LMDB's. Reads do not raise at the end of the tree: they are False or empty."""

    def set_range(self, key: bytes, /) -> bool:
        """Go to the first row with this key or a greater one."""

    def last(self) -> bool: ...

    def prev(self) -> bool: ...

    def next(self) -> bool: ...

    def key(self) -> bytes: ...

    def value(self) -> bytes: ...

    def iternext(self) -> Iterator[tuple[bytes, bytes]]:
        """This row and those after it."""

    def iterprev(self) -> Iterator[tuple[bytes, bytes]]: ...

    def putmulti(self, items: list[tuple[bytes, bytes]], /) -> object: ...


class TreeTransaction(Protocol):
    """As LMDB's: a reader sees one moment for as long as it is held; a block that ends without an exception is
    committed and synced."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *reason: object) -> None: ...

    def get(self, key: bytes, /) -> bytes | None: ...

    def put(self, key: bytes, value: bytes, /) -> object: ...

    def delete(self, key: bytes, /) -> bool:
        """Whether there was such a row."""

    def cursor(self) -> TreeCursor: ...


class TreeEnvironment(Protocol):
    """An ordered map on a disk. Its errors are `lmdb.Error`."""

    def begin(self, *, write: bool = False) -> TreeTransaction: ...

    def path(self) -> str: ...

    def close(self) -> None: ...


class FrameWriter(Protocol):
    """A thread that writes frames of the log, each synced when its write has ended; one is under way at a time."""

    def fileno(self) -> int:
        """Readable when a write has ended."""

    def write(self, file: int, frame: bytes, offset: int, /) -> None: ...

    def take(self) -> tuple[int, float, float] | None:
        """Of a write that has ended: its errno, or 0, and when it began and ended, in seconds of `time.monotonic`."""

    def close(self) -> None:
        """Returns when the write under way has ended; it is not taken any more."""


class Files(Protocol):
    """Errors are `OSError`."""

    def create(self, path: Path) -> int:
        """A file, emptied if it exists; every write to it is synced before it returns."""

    def write(self, file: int, data: bytes, offset: int) -> int:
        """How much of it was written: a full disk writes a part, and fails at the next call."""

    def allocate(self, file: int, offset: int, size: int) -> None:
        """Room at the end of a file that reads as zeros, or an error if the disk is full."""

    def sync(self, file: int) -> None: ...

    def close(self, file: int) -> None:
        """Releases its lock, too."""

    def read(self, path: Path) -> bytes: ...

    def read_synced(self, path: Path) -> bytes:
        """Durable from here on: a process that was killed during a write may have left it in the page cache alone."""

    def size(self, path: Path) -> int: ...

    def exists(self, path: Path) -> bool: ...

    def is_folder(self, path: Path) -> bool: ...

    def names(self, folder: Path) -> list[str]:
        """Of the files and folders in it, in order."""

    def make_folder(self, path: Path, mode: int = 0o700) -> None:
        """Its parent exists. If it exists itself, nothing happens."""

    def rename(self, path: Path, to: Path) -> None: ...

    def remove(self, path: Path) -> None: ...

    def remove_folder(self, path: Path) -> None:
        """With the files in it."""

    def sync_folder(self, folder: Path) -> None:
        """Makes the names in it durable."""

    def lock(self, path: Path) -> int | None:
        """Lock a folder, or a file, which is made if there is none, until `close` or the end of the process. None:
        another process has it."""

    def overwrite(self, file: int, data: bytes) -> None:
        """The whole contents of a locked file."""

    def free_bytes(self, folder: Path) -> int:
        """For this user."""

    def read_ahead(self, path: Path) -> None:
        """Have the system read all of it into the page cache."""

    def open_environment(self, folder: Path) -> TreeEnvironment: ...

    def frame_writer(self) -> FrameWriter | None:
        """For files of `create`. None: there is no such thread, and frames go through `write`."""


class SystemFiles:
    def create(self, path: Path) -> int:
        # With O_DSYNC a write returns when it is synced: one call less, and one wait for the interpreter's lock.
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_DSYNC, 0o600)

    def write(self, file: int, data: bytes, offset: int) -> int:
        return os.pwrite(file, data, offset)

    def allocate(self, file: int, offset: int, size: int) -> None:
        os.posix_fallocate(file, offset, size)
        # Blocks that are allocated and were never written are converted by their first write, whose sync then waits for
        # the file's metadata, too: a second write, and where there is a journal its commit.
        zeros = bytes(min(size, ZEROS_BYTES))
        for begin in range(offset, offset + size, ZEROS_BYTES):
            write_all(self, file, zeros[: offset + size - begin], begin)

    def sync(self, file: int) -> None:
        os.fsync(file)

    def close(self, file: int) -> None:
        os.close(file)

    def read(self, path: Path) -> bytes:
        return path.read_bytes()

    def read_synced(self, path: Path) -> bytes:
        with path.open("rb") as file:
            os.fsync(file.fileno())
            return file.read()

    def size(self, path: Path) -> int:
        return path.stat().st_size

    def exists(self, path: Path) -> bool:
        return path.exists()

    def is_folder(self, path: Path) -> bool:
        return path.is_dir()

    def names(self, folder: Path) -> list[str]:
        return sorted(os.listdir(folder))

    def make_folder(self, path: Path, mode: int = 0o700) -> None:
        path.mkdir(mode=mode, exist_ok=True)

    def rename(self, path: Path, to: Path) -> None:
        path.rename(to)

    def remove(self, path: Path) -> None:
        path.unlink()

    def remove_folder(self, path: Path) -> None:
        for name in os.listdir(path):
            (path / name).unlink()
        path.rmdir()

    def sync_folder(self, folder: Path) -> None:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def lock(self, path: Path) -> int | None:
        flags = os.O_RDONLY | os.O_DIRECTORY if path.is_dir() else os.O_RDWR | os.O_CREAT
        descriptor = os.open(path, flags, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            if isinstance(error, BlockingIOError):
                return None
            raise
        return descriptor

    def overwrite(self, file: int, data: bytes) -> None:
        os.ftruncate(file, 0)
        os.pwrite(file, data, 0)

    def free_bytes(self, folder: Path) -> int:
        stat = os.statvfs(folder)
        return stat.f_bavail * stat.f_frsize

    def read_ahead(self, path: Path) -> None:
        with path.open("rb") as data:
            for offset in range(0, path.stat().st_size, READ_AHEAD_BYTES):
                os.posix_fadvise(data.fileno(), offset, READ_AHEAD_BYTES, os.POSIX_FADV_WILLNEED)

    def open_environment(self, folder: Path) -> TreeEnvironment:
        if not (folder / TREE_FILE).exists():
            make_tree_file(folder)
        # Lookups are scattered: reading ahead would fill the page cache with rows that are not wanted.
        return lmdb.open(str(folder), map_size=MAP_BYTES, mode=0o600, readahead=False)

    def frame_writer(self) -> FrameWriter | None:
        return LogWriter() if LogWriter is not None else None


def make_tree_file(folder: Path) -> None:
    """LMDB syncs the first pages of its file with the first commit: a power cut before that would leave a file that it
    does not open. So the file gets its name when they are synced."""
    draft = folder / TREE_DRAFT
    draft.unlink(missing_ok=True)
    environment = lmdb.open(str(draft), subdir=False, lock=False, mode=0o600)
    environment.sync(True)
    environment.close()
    draft.rename(folder / TREE_FILE)


SYSTEM_FILES = SystemFiles()
"""The default of everything that takes `Files`."""


def write_all(files: Files, file: int, data: bytes, offset: int) -> None:
    while data:
        written = files.write(file, data, offset)
        data, offset = data[written:], offset + written


def write_whole(files: Files, path: Path, data: bytes) -> None:
    """Atomically, by a rename. The draft is left if that fails."""
    draft = path.with_name(f"{path.name}.next")
    file = files.create(draft)
    try:
        write_all(files, file, data, 0)
        files.sync(file)
    finally:
        files.close(file)
    files.rename(draft, path)
    files.sync_folder(path.parent)


def sync_parents(files: Files, path: Path) -> None:
    """A process that was killed may have made some of these and synced none. Those that cannot be opened existed
    before."""
    for parent in path.absolute().parents:
        with suppress(PermissionError):
            files.sync_folder(parent)
