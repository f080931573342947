"""A data directory belongs to one replica, is in one format, and is used by one process at a time.

format      {"format": 4, "replica": id}, written when the directory is made, as the last thing
lock        locked by the process that uses the directory, with its name
log, tree   the embedded store: made before `format`, so a directory that has `format` alone has lost them
"""

import fcntl
import os
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from msgspec import DecodeError, Struct, ValidationError, json

from epoxy.model.errors import StoreRefused
from epoxy.store.embedded.log import sync_folder
from epoxy.store.embedded.store import LOG_BYTES, LOG_FOLDER, TREE_FOLDER, open_folder

FORMAT = 4
"""Of the rows. 2: the configuration is the value of a key. 3: votes have rows apart from their keys. 4: instances of
the ordered engine are kept by term, which the configuration counts."""
FORMAT_FILE, FORMAT_DRAFT, LOCK_FILE = "format", "format.next", "lock"


class Description(Struct, frozen=True, kw_only=True):
    format: int
    replica: int


class DataDir:
    """Holds the lock. It is released when the process ends, in whatever way."""

    def __init__(self, path: Path, lock: int, *, is_new: bool = False) -> None:
        self.path = path
        self.is_new = is_new
        self._lock = lock

    @classmethod
    def open(cls, path: Path, *, replica: int, name: str) -> Self:
        """Lock the directory for this replica, and make it if there is none. A process that
        finds it locked reports `name`."""
        try:
            make_folder(path)
            lock = take_lock(path, name)
        except OSError as error:
            raise StoreRefused(f"data directory {path}: {error.strerror}") from error
        try:
            is_new = describe(path, replica)
        except OSError as error:
            os.close(lock)
            raise StoreRefused(f"data directory {path}: {error.strerror}") from error
        except BaseException:
            os.close(lock)
            raise
        return cls(path, lock, is_new=is_new)

    def close(self) -> None:
        os.close(self._lock)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()


def make_folder(path: Path) -> None:
    """Refuse a folder that holds something else before anything is put into it."""
    for missing in reversed([folder for folder in (path, *path.parents) if not folder.exists()]):
        missing.mkdir(mode=0o700 if missing == path else 0o777)
        sync_folder(missing.parent)
    if not path.is_dir():
        raise StoreRefused(f"data directory {path}: not a directory")
    # A crash while the directory is made leaves at most these.
    others = {entry.name for entry in path.iterdir()} - {LOCK_FILE, FORMAT_DRAFT, LOG_FOLDER, TREE_FOLDER}
    if others and FORMAT_FILE not in others:
        raise StoreRefused(f"data directory {path}: not empty, and not made by Epoxy (it has no file `{FORMAT_FILE}`)")


def sync_parents(path: Path) -> None:
    """A process that was killed may have made some of these and synced none. Those that cannot be opened existed
    before."""
    for parent in path.absolute().parents:
        with suppress(PermissionError):
            sync_folder(parent)


def take_lock(path: Path, name: str) -> int:
    lock = os.open(path / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(lock, 1024, 0).decode(errors="replace").strip()
        os.close(lock)
        raise StoreRefused(f"data directory {path}: in use by {holder or 'another process'}") from None
    os.ftruncate(lock, 0)
    os.pwrite(lock, f"{name} (pid {os.getpid()})\n".encode(), 0)
    return lock


def describe(path: Path, replica: int) -> bool:
    """Check the description, or write it into a directory that has none: True."""
    file = path / FORMAT_FILE
    if not file.exists():
        sync_parents(path)
        make_store(path)
        write_whole(file, json.encode(Description(format=FORMAT, replica=replica)))
        return True
    found = read_description(file)
    if found.format != FORMAT:
        raise StoreRefused(f"data directory {path}: format {found.format}; this version reads format {FORMAT}")
    if found.replica != replica:
        raise StoreRefused(f"data directory {path}: belongs to replica {found.replica}, this is replica {replica}")
    check_store(path)
    return False


def make_store(path: Path) -> None:
    """An empty one. A store with rows but without a description is refused: its replica is unknown."""
    tree, log, _, reached = open_folder(path, LOG_BYTES)
    tree.close()
    log.close()
    if reached.frame:
        raise StoreRefused(f"data directory {path}: holds rows, but has no file `{FORMAT_FILE}`")


def check_store(path: Path) -> None:
    """A replica that has voted and starts with an empty store could vote again."""
    for folder, file in ((LOG_FOLDER, "*.log"), (TREE_FOLDER, "data.mdb")):
        if not any((path / folder).glob(file)):
            raise StoreRefused(
                f"data directory {path}: its `{folder}` is missing or empty; if that cannot be put back, "
                "this replica must come back under a new id"
            )


def read_description(file: Path) -> Description:
    """Of a newer format only the number is read."""
    try:
        version = json.decode(file.read_bytes(), type=dict[str, object]).get("format")
        if isinstance(version, int) and version > FORMAT:
            return Description(format=version, replica=0)
        return json.decode(file.read_bytes(), type=Description)
    except (DecodeError, ValidationError) as error:
        raise StoreRefused(f"data directory {file.parent}: the file `{file.name}` is damaged: {error}") from None


def write_whole(file: Path, data: bytes) -> None:
    """Atomically, by a rename."""
    draft = file.with_name(FORMAT_DRAFT)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        os.write(descriptor, data)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    os.rename(draft, file)
    sync_folder(file.parent)
