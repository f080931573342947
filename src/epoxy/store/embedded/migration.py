"""A data directory of format 4 becomes one of format 5: the rows of its tree get checksums, its log is replayed.

    migrating   the new log and tree while they are made, and a copy of the old file `format`. With format 4 in `format`
                it is a draft that may be thrown away; with format 5 it is the store, and is moved into place.
    previous    the old log, tree and `format`, as they were. `epoxy store back` brings them back. They are deleted
                before the first frame of the new log is written: from then on the old ones lack a write.
    discarded   the new log and tree, while `epoxy store back` takes them away

The switch is one rename, that of `format`. What comes after it is done again by the next start, if it was interrupted.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import lmdb
from msgspec import DecodeError, Struct

from epoxy.model.errors import StoreRefused
from epoxy.model.versions import OLDEST_DIRECTORY
from epoxy.store.embedded.checksums import seal
from epoxy.store.embedded.files import (
    FORMAT_FILE,
    LOG_FOLDER,
    TREE_FILE,
    TREE_FOLDER,
    Files,
    TreeTransaction,
    write_whole,
)
from epoxy.store.embedded.log import LogPosition, WriteAheadLog, segments
from epoxy.store.embedded.recovery import UNMARKED_FORMAT, recover
from epoxy.store.embedded.tree import POSITION_ROW, Tree, position_decoder

FROM_FORMAT = OLDEST_DIRECTORY
DRAFT, PREVIOUS, DISCARDED = "migrating", "previous", "discarded"
PARTS = (LOG_FOLDER, TREE_FOLDER)

BATCH_ROWS, BATCH_BYTES = 20_000, 16 << 20
"""Of one transaction of LMDB, which keeps its pages in memory."""

FIRST_LOG_BYTES = 1 << 12
"""Of the new segment: it gets no frames, for the next start begins another."""

ROWS_A_SECOND = 100_000
"""Rows of 120 bytes: 90,000 on two cores at a load of 16. A tree that is not in memory is read from the disk first."""

SPARE_BYTES = 64 << 20
"""Beside the new tree: what a start needs."""

Tell = Callable[[int, int], None]
"""Rows that are written, and rows in all."""


class MigrationPlan(Struct, frozen=True, kw_only=True):
    """Of a directory of format 4. `needed_bytes`: that must be free; `seconds`: about how long it takes."""

    rows: int
    tree_bytes: int
    log_bytes: int
    needed_bytes: int
    free_bytes: int
    seconds: float


def plan(path: Path, files: Files) -> MigrationPlan:
    tree_bytes = files.size(path / TREE_FOLDER / TREE_FILE)
    log_bytes = sum(files.size(segment) for _, segment in segments(path / LOG_FOLDER, files))
    rows = 0
    with OldTree(path / TREE_FOLDER, files) as old:
        for batch in old.batches():
            rows += len(batch)
    return MigrationPlan(
        rows=rows,
        tree_bytes=tree_bytes,
        log_bytes=log_bytes,
        # A checksum has 8 bytes, and pages are not always full.
        needed_bytes=tree_bytes + 16 * rows + log_bytes + SPARE_BYTES,
        free_bytes=files.free_bytes(path),
        seconds=1 + rows / ROWS_A_SECOND,
    )


def build(path: Path, files: Files, tell: Tell) -> None:
    """The new log and tree, durably, as a draft. The old ones are only read."""
    for leftover in (DRAFT, DISCARDED, PREVIOUS):
        discard(path / leftover, files)
    planned = plan(path, files)
    if planned.free_bytes < planned.needed_bytes:
        raise StoreRefused(
            f"data directory {path}: to migrate it from format {FROM_FORMAT}, {planned.needed_bytes >> 20:,} MiB must "
            f"be free, and {planned.free_bytes >> 20:,} MiB are; it was left as it is"
        )
    draft = path / DRAFT
    for folder in (draft, *(draft / part for part in PARTS)):
        files.make_folder(folder)
    files.sync_folder(path)
    with OldTree(path / TREE_FOLDER, files) as old:
        effects, reached = recover(path / LOG_FOLDER, old.position(), files, UNMARKED_FORMAT)
        written = copy_rows(old, draft / TREE_FOLDER, files, lambda done: tell(done, planned.rows))
    if written != planned.rows:
        raise StoreRefused(f"data directory {path}: {planned.rows:,} rows were counted and {written:,} copied")
    tree = Tree(draft / TREE_FOLDER, files)
    try:
        tree.apply(effects, reached)
    finally:
        tree.close()
    WriteAheadLog(draft / LOG_FOLDER, reached, FIRST_LOG_BYTES, files).close()
    write_whole(files, draft / FORMAT_FILE, files.read(path / FORMAT_FILE))
    for folder in (draft / TREE_FOLDER, draft, path):
        files.sync_folder(folder)


def settle(path: Path, files: Files) -> None:
    """After the switch: the draft comes into place, and the old store out of the way."""
    if files.exists(path / DISCARDED):
        raise StoreRefused(f"data directory {path}: `epoxy store back` was interrupted here; run it again")
    if not files.exists(path / DRAFT):
        return
    swap(path, files, to=path / PREVIOUS, source=path / DRAFT)
    if files.exists(path / DRAFT / FORMAT_FILE):
        files.rename(path / DRAFT / FORMAT_FILE, path / PREVIOUS / FORMAT_FILE)
        files.sync_folder(path / PREVIOUS)
    discard(path / DRAFT, files)


def can_go_back(path: Path, files: Files) -> bool:
    return files.exists(path / PREVIOUS / FORMAT_FILE)


def go_back(path: Path, files: Files) -> None:
    """The old store comes back, and its file `format` last."""
    swap(path, files, to=path / DISCARDED, source=path / PREVIOUS)
    files.rename(path / PREVIOUS / FORMAT_FILE, path / FORMAT_FILE)
    files.sync_folder(path)
    for leftover in (PREVIOUS, DISCARDED):
        discard(path / leftover, files)


def forget_previous(path: Path, files: Files) -> None:
    """Before the first write of the new store. First the way back is closed, durably."""
    if can_go_back(path, files):
        files.remove(path / PREVIOUS / FORMAT_FILE)
        files.sync_folder(path / PREVIOUS)
    discard(path / PREVIOUS, files)


def swap(path: Path, files: Files, *, to: Path, source: Path) -> None:
    """Log and tree go from `path` to `to`, then those of `source` to `path`. Each step is skipped if it was done."""
    files.make_folder(to)
    files.sync_folder(path)
    for part in PARTS:
        if not files.exists(source / part):
            continue
        if files.exists(path / part):
            files.rename(path / part, to / part)
            files.sync_folder(to)
            files.sync_folder(path)
        files.rename(source / part, path / part)
        files.sync_folder(path)
        files.sync_folder(source)


def discard(folder: Path, files: Files) -> None:
    if not files.exists(folder):
        return
    for part in PARTS:
        if files.exists(folder / part):
            files.remove_folder(folder / part)
    files.remove_folder(folder)
    files.sync_folder(folder.parent)


class OldTree:
    """A tree of format 4: as today's, but without checksums."""

    def __init__(self, folder: Path, files: Files) -> None:
        self._folder = folder
        try:
            self._environment = files.open_environment(folder)
            self._transaction: TreeTransaction | None = self._environment.begin()
        except lmdb.Error as error:
            raise StoreRefused(f"{folder}: {error}") from error

    def position(self) -> LogPosition | None:
        try:
            row = self._reader().get(POSITION_ROW)
            return position_decoder.decode(row) if row is not None else None
        except (lmdb.Error, DecodeError) as error:
            raise StoreRefused(f"{self._folder}: the tree's position cannot be read: {error}") from error

    def batches(self) -> Iterator[list[tuple[bytes, bytes]]]:
        """All rows but the position, in order, stems and branches as they are."""
        try:
            cursor = self._reader().cursor()
            if not cursor.set_range(b"\x00"):
                return
            batch: list[tuple[bytes, bytes]] = []
            size = 0
            for row, value in cursor.iternext():
                if row == POSITION_ROW:
                    continue
                batch.append((row, value))
                size += len(row) + len(value)
                if len(batch) >= BATCH_ROWS or size >= BATCH_BYTES:
                    yield batch
                    batch, size = [], 0
            yield batch
        except lmdb.Error as error:
            raise StoreRefused(f"{self._folder}: the tree is damaged: {error}") from error

    def _reader(self) -> TreeTransaction:
        assert self._transaction is not None, "it is open"
        return self._transaction

    def __enter__(self) -> "OldTree":
        return self

    def __exit__(self, *_: object) -> None:
        self._transaction = None
        self._environment.close()


def copy_rows(old: OldTree, folder: Path, files: Files, tell: Callable[[int], None]) -> int:
    environment = files.open_environment(folder)
    written = 0
    try:
        for batch in old.batches():
            with environment.begin(write=True) as transaction:
                transaction.cursor().putmulti([(row, seal(row, value)) for row, value in batch])
            written += len(batch)
            tell(written)
    except lmdb.Error as error:
        raise StoreRefused(f"{folder}: cannot be written: {error}") from error
    finally:
        environment.close()
    return written
