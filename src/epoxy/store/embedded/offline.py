"""The rows of a data directory whose node does not run, read without any change to the directory: from a disk that is
read-only, too. Both locks are taken, so that no node starts meanwhile."""

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

import lmdb

from epoxy.model.errors import RottenRow, StoreRefused
from epoxy.ports import Snapshot
from epoxy.store.embedded.checksums import ROTTEN
from epoxy.store.embedded.datadir import (
    FORMAT,
    LOCK_FILE,
    Description,
    check_store,
    holder,
    read_description,
    release,
)
from epoxy.store.embedded.files import (
    FORMAT_FILE,
    LOG_FOLDER,
    MAP_BYTES,
    TREE_FOLDER,
    SystemFiles,
    TreeCursor,
    TreeEnvironment,
)
from epoxy.store.embedded.memtable import EMPTY, Memtable, MemtableStack, newest_of_each
from epoxy.store.embedded.recovery import recover
from epoxy.store.embedded.tree import DamageReports, Tree, TreeView


class ReadingFiles(SystemFiles):
    """Makes and changes nothing."""

    def lock(self, path: Path) -> int | None:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        return descriptor

    def open_environment(self, folder: Path) -> TreeEnvironment:
        return lmdb.open(str(folder), map_size=MAP_BYTES, readonly=True, lock=False, create=False)


class LenientView(TreeView):
    """Rotten rows beside a range do not end its reading: a damaged key could hide rows behind it, which is better than
    to have none."""

    def _check(self, cursor: TreeCursor) -> None:
        pass


class StoppedStore:
    """`rows`: everything that is durable, in the log and in the tree."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._files = ReadingFiles()
        self._locks: list[int] = []
        try:
            self.description = self._describe()
            self._take_locks()
            self._tree = Tree(path / TREE_FOLDER, self._files)
        except OSError as error:
            release(self._locks, self._files)
            raise StoreRefused(f"data directory {path}: {error.strerror}") from error
        except BaseException:
            release(self._locks, self._files)
            raise
        try:
            replayed, reached = recover(path / LOG_FOLDER, self._tree.position(), self._files)
            view = LenientView(self._tree.view().transaction, DamageReports())
        except BaseException:
            self.close()
            raise
        self.frame = reached.frame
        """The last one that was ever synced."""
        self._levels = MemtableStack(EMPTY, EMPTY, EMPTY, Memtable(replayed), view)
        self.rows: Snapshot = self._levels

    def scan(self, begin: bytes, end: bytes) -> Iterator[tuple[bytes, bytes | None]]:
        """In order, read lazily; None: the row is rotten."""
        try:
            for key, value in newest_of_each(self._levels.rows(begin, end, False), False):
                yield key, None if value is ROTTEN else value
        except RottenRow as rotten:
            if begin <= rotten.key < end:
                raise

    def _describe(self) -> Description:
        if not self._files.exists(self.path / FORMAT_FILE):
            raise StoreRefused(f"data directory {self.path}: not made by Epoxy (it has no file `{FORMAT_FILE}`)")
        found = read_description(self.path / FORMAT_FILE, self._files)
        if found.format != FORMAT:
            raise StoreRefused(f"data directory {self.path}: format {found.format}; this version reads format {FORMAT}")
        check_store(self.path, self._files)
        return found

    def _take_locks(self) -> None:
        for each in (self.path, self.path / LOCK_FILE):
            if self._files.exists(each):
                lock = self._files.lock(each)
                if lock is None:
                    used = holder(self.path, self._files)
                    raise StoreRefused(f"data directory {self.path}: in use by {used}; stop it first")
                self._locks.append(lock)

    def close(self) -> None:
        self._tree.close()
        release(self._locks, self._files)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()
