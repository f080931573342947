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
from epoxy.store.embedded.checksums import ROTTEN, seal
from epoxy.store.embedded.datadir import (
    FORMAT,
    LOCK_FILE,
    Description,
    check_format,
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
    TreeTransaction,
)
from epoxy.store.embedded.log import FORMAT as LOG_FORMAT
from epoxy.store.embedded.memtable import EMPTY, Memtable, MemtableStack, newest_of_each
from epoxy.store.embedded.migration import DRAFT, FROM_FORMAT
from epoxy.store.embedded.recovery import UNMARKED_FORMAT, recover
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


class PlainCursor:
    """A cursor in a tree of format 4, whose rows have no checksums: they get them as they are read, so that everything
    above reads one format."""

    def __init__(self, cursor: TreeCursor) -> None:
        self.set_range = cursor.set_range
        self.last = cursor.last
        self.prev = cursor.prev
        self.next = cursor.next
        self.key = cursor.key
        self.putmulti = cursor.putmulti
        self._cursor = cursor

    def value(self) -> bytes:
        return seal(self._cursor.key(), self._cursor.value())

    def iternext(self) -> Iterator[tuple[bytes, bytes]]:
        return ((row, seal(row, value)) for row, value in self._cursor.iternext())

    def iterprev(self) -> Iterator[tuple[bytes, bytes]]:
        return ((row, seal(row, value)) for row, value in self._cursor.iterprev())


class PlainTransaction:
    def __init__(self, transaction: TreeTransaction) -> None:
        self._transaction = transaction
        self.put = transaction.put
        self.delete = transaction.delete

    def __enter__(self) -> Self:
        self._transaction.__enter__()
        return self

    def __exit__(self, *reason: object) -> None:
        self._transaction.__exit__(*reason)

    def get(self, key: bytes, /) -> bytes | None:
        value = self._transaction.get(key)
        return seal(key, value) if value is not None else None

    def cursor(self) -> TreeCursor:
        return PlainCursor(self._transaction.cursor())


class PlainEnvironment:
    def __init__(self, environment: TreeEnvironment) -> None:
        self._environment = environment
        self.path = environment.path
        self.close = environment.close

    def begin(self, *, write: bool = False) -> TreeTransaction:
        return PlainTransaction(self._environment.begin(write=write))


class PlainFiles(ReadingFiles):
    def open_environment(self, folder: Path) -> TreeEnvironment:
        return PlainEnvironment(super().open_environment(folder))


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
            is_plain = self.description.format == FROM_FORMAT
            self._tree = Tree(path / TREE_FOLDER, PlainFiles() if is_plain else self._files)
        except OSError as error:
            release(self._locks, self._files)
            raise StoreRefused(f"data directory {path}: {error.strerror}") from error
        except BaseException:
            release(self._locks, self._files)
            raise
        try:
            log_format = UNMARKED_FORMAT if is_plain else LOG_FORMAT
            replayed, reached = recover(path / LOG_FOLDER, self._tree.position(), self._files, log_format)
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
        check_format(self.path, found.format)
        if found.format >= FORMAT and self._files.exists(self.path / DRAFT):
            raise StoreRefused(
                f"data directory {self.path}: its migration to format {FORMAT} was interrupted; start its node once"
            )
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
