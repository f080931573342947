"""A data directory made whole from rows that are known before: all of it, or nothing that a node would start with.

    restoring   the folder it is made in: the tree is written as by checkpoints, beside a log without frames
    log, tree   moved here from it, when all rows are written
    format      written as the last thing

A crash leaves `restoring` without `format`: a start is refused, and the next attempt begins again.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from msgspec import json

from epoxy.model.errors import StoreFailed, StoreRefused
from epoxy.store.conflicts import Values
from epoxy.store.embedded.datadir import (
    FIRST_LOG_BYTES,
    FORMAT,
    LOCK_FILE,
    RESTORING,
    Description,
    make_parents,
    read_description,
    release,
    take_locks,
)
from epoxy.store.embedded.files import (
    FORMAT_FILE,
    LOG_FOLDER,
    SYSTEM_FILES,
    TREE_FOLDER,
    Files,
    sync_parents,
    write_whole,
)
from epoxy.store.embedded.space import is_full, not_opened
from epoxy.store.embedded.store import open_folder


class DataDirBuilder:
    """Holds the locks of the directory until it is closed."""

    def __init__(self, path: Path, *, replica: int, cluster: str, name: str, files: Files = SYSTEM_FILES) -> None:
        """Refuses a directory that holds anything but what an earlier attempt left."""
        self.path = path
        self._files = files
        self._description = Description(format=FORMAT, replica=replica, cluster=cluster)
        try:
            check_empty(path, files)
            make_parents(path, files)
            self._locks = take_locks(path, name, files)
        except OSError as error:
            raise not_opened(error, f"data directory {path}", path, files) from error
        self._draft = path / RESTORING
        try:
            with self._failures():
                self._remove_earlier()
                sync_parents(files, path)
                files.make_folder(self._draft)
                files.sync_folder(path)
                self._tree, self._log, _, self._reached = open_folder(self._draft, FIRST_LOG_BYTES, files)
        except BaseException:
            release(self._locks, files)
            raise
        self._open = True

    def write(self, rows: Values) -> None:
        """Some of the rows. In the order of their keys they are written fastest."""
        with self._failures():
            self._tree.apply(rows, self._reached)

    def read(self, keys: list[bytes]) -> list[bytes | None]:
        """Of rows that were written."""
        view = self._tree.view()
        return [view.get(key) for key in keys]

    def finish(self) -> None:
        """From here on the directory is that of the replica, durably."""
        self._close_store()
        with self._failures():
            self._move_into_place()

    def _move_into_place(self) -> None:
        files = self._files
        for part in (TREE_FOLDER, LOG_FOLDER):
            files.rename(self._draft / part, self.path / part)
        files.sync_folder(self._draft)
        files.sync_folder(self.path)
        write_whole(files, self.path / FORMAT_FILE, json.encode(self._description))
        files.remove_folder(self._draft)
        files.sync_folder(self.path)

    def close(self) -> None:
        """Without `finish` nothing is left."""
        try:
            self._close_store()
            if not self._files.exists(self.path / FORMAT_FILE):
                self._remove_earlier()
        finally:
            release(self._locks, self._files)

    def _close_store(self) -> None:
        if self._open:
            self._open = False
            self._tree.close()
            self._log.close()

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """A disk that fails is one line, and a full one is called so."""
        try:
            yield
        except (OSError, StoreFailed) as error:
            full = "the disk is full: " if is_full(error, self.path, self._files) else ""
            raise StoreFailed(f"data directory {self.path}: {full}{error}") from error

    def _remove_earlier(self) -> None:
        """The folder `restoring` goes last: without it, rows without a description would be left."""
        if not self._files.exists(self._draft):
            return
        for part in (TREE_FOLDER, LOG_FOLDER):
            for folder in (self.path / part, self._draft / part):
                if self._files.exists(folder):
                    self._files.remove_folder(folder)
        self._files.sync_folder(self.path)
        self._files.remove_folder(self._draft)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()


def check_empty(path: Path, files: Files) -> None:
    if not files.exists(path):
        return
    if not files.is_folder(path):
        raise StoreRefused(f"data directory {path}: not a directory")
    names = set(files.names(path)) - {LOCK_FILE}
    if FORMAT_FILE in names:
        found = read_description(path / FORMAT_FILE, files)
        raise StoreRefused(
            f"data directory {path}: holds the rows of replica {found.replica}; a backup is restored into an empty one"
        )
    if names and RESTORING not in names:
        raise StoreRefused(f"data directory {path}: not empty; a backup is restored into an empty one")
