"""The checkpointed rows: an ordered tree on disk (LMDB), changed a generation at a time.

LMDB's keys have at most 511 bytes, ours more. A key shorter than that is stored as it is. A longer one is cut after the
511th byte: the first part, the stem, is stored with the number of a branch as its value, and the rest under that
branch, cut again if need be. Only stems have 511 bytes, so the length of a row's key tells its kind; and a shorter key
compares with a stem as with every key that begins with it, so the order of the tree is that of whole keys.

    key                     value          shorter than 511 bytes
    stem                    branch         exactly 511 bytes
    ff "b" branch rest      value          the rest of a key below its stem; or a stem again
    ff "/position"          the position in the log up to which the tree has its rows
    ff "/branches"          the last branch that was numbered
    ff "/length"            how long the file was when the last checkpoint began: it never becomes shorter

Every value, the tree's own too, has its checksum in front of it (`checksums.py`), written with the checkpoint and
checked by every read. A row whose checksum is wrong is never returned.
"""

import os
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from threading import Thread

import lmdb
from msgspec import DecodeError
from msgspec.msgpack import Decoder, Encoder

from epoxy.codec.tuple import strinc
from epoxy.model.errors import RottenRow, StoreFailed, StoreRefused
from epoxy.ports import KeyValue
from epoxy.store.conflicts import Values
from epoxy.store.embedded.checksums import ROTTEN, seal, unseal
from epoxy.store.embedded.files import (
    READ_AHEAD_BYTES,
    SYSTEM_FILES,
    TREE_FILE,
    Files,
    TreeCursor,
    TreeEnvironment,
    TreeTransaction,
)
from epoxy.store.embedded.log import LogPosition
from epoxy.store.embedded.slices import Slice, deal, sort_out
from epoxy.store.limits import FIRST_RESERVED_KEY

STEM_BYTES = 511
"""LMDB's longest key, as it is compiled by default."""

SORTED_ROWS = 1024
"""Sorted at a time, while no other thread gets the interpreter's lock: about 0.4 ms."""

SAMPLED = 64
"""One key in so many is a sample for the bounds of ranges: sixteen for every range."""

BRANCH, BRANCH_BYTES = FIRST_RESERVED_KEY + b"b", 8
POSITION_ROW = FIRST_RESERVED_KEY + b"/position"
BRANCHES_ROW = FIRST_RESERVED_KEY + b"/branches"
LENGTH_ROW = FIRST_RESERVED_KEY + b"/length"

encoder = Encoder()
position_decoder = Decoder(LogPosition)

Row = tuple[bytes, bytes | None]

DAMAGE = (lmdb.CorruptedError, lmdb.PageNotFoundError, lmdb.InvalidError)
"""Pages that LMDB itself knows to be wrong."""


def ignore(_: object) -> None: ...


class TreeView:
    """The tree at one moment. LMDB keeps its pages until the view is dropped."""

    __slots__ = ("_reports", "find", "transaction")

    def __init__(self, transaction: TreeTransaction, reports: "DamageReports") -> None:
        self.transaction = transaction
        self.find = transaction.get
        """For keys below STEM_BYTES; with the checksum."""
        self._reports = reports

    def get(self, key: bytes) -> bytes | None:
        try:
            row = key if len(key) < STEM_BYTES else locate(self.transaction, key)
            sealed = self.find(row) if row else None
        except lmdb.Error as error:
            raise self.failed(error) from error
        except RottenRow as stem:
            raise self.rotten(key) from stem
        if row is None or sealed is None:
            return None
        value = unseal(row, sealed)
        if value is ROTTEN:
            raise self.rotten(key)
        return value

    def rows(self, begin: bytes, end: bytes, reverse: bool) -> Iterator[KeyValue]:
        """The rows with begin <= key < end, read lazily. A rotten one has ROTTEN for its value: a newer row may hide
        it. The row that ends the range is checked, too: if its key is damaged, the range may go on behind it."""
        end = min(end, FIRST_RESERVED_KEY)
        if begin >= end:
            return
        try:
            yield from (self._descending if reverse else self._ascending)(b"", b"", begin, end)
        except lmdb.Error as error:
            raise self.failed(error) from error

    def rotten(self, key: bytes) -> RottenRow:
        """What to raise, after it has been reported."""
        self._reports.on_rot(key)
        return RottenRow(key)

    def failed(self, error: lmdb.Error) -> StoreFailed:
        failure = failure_of(error, "read")
        if isinstance(error, DAMAGE):
            self._reports.on_damage(failure)
        return failure

    def _ascending(self, prefix: bytes, stem: bytes, begin: bytes, end: bytes) -> Iterator[KeyValue]:
        """The rows of a branch: all keys begin with `stem`, in whose place the rows have `prefix`."""
        first = prefix + begin[len(stem) :] if begin.startswith(stem) else prefix
        cursor = self.transaction.cursor()
        if not self._seek(cursor, first[:STEM_BYTES]):
            return
        for row, sealed in cursor.iternext():
            key, value = stem + row[len(prefix) :], unseal(row, sealed)
            is_inside = row.startswith(prefix) and key < end
            if value is ROTTEN and (not is_inside or len(row) == STEM_BYTES):
                raise self.rotten(key)
            if not is_inside:
                return
            if len(row) == STEM_BYTES:
                yield from self._ascending(BRANCH + value, key, begin, end)
            else:
                yield key, value

    def _seek(self, cursor: TreeCursor, row: bytes) -> bool:
        """Go to the first row that is not before this one. A search that compared with a damaged key ends beside it, so
        the rows on both sides are checked."""
        if found := cursor.set_range(row):
            self._check(cursor)
        if cursor.prev() if found else cursor.last():
            self._check(cursor)
            return cursor.next()
        return cursor.set_range(row)

    def _check(self, cursor: TreeCursor) -> None:
        row = cursor.key()
        if unseal(row, cursor.value()) is ROTTEN:
            raise self.rotten(row)

    def _descending(self, prefix: bytes, stem: bytes, begin: bytes, end: bytes) -> Iterator[KeyValue]:
        beyond = prefix + end[len(stem) :] if end.startswith(stem) else strinc(prefix)
        cursor = self.transaction.cursor()
        found = self._seek(cursor, beyond[:STEM_BYTES])
        # The last row before this key; for a long key that is its stem, if it exists.
        is_stem = found and len(beyond) > STEM_BYTES and cursor.key() == beyond[:STEM_BYTES]
        if not (is_stem or (cursor.prev() if found else cursor.last())):
            return
        for row, sealed in cursor.iterprev():
            key, value = stem + row[len(prefix) :], unseal(row, sealed)
            is_inside = row.startswith(prefix) and (key >= begin or begin.startswith(key))
            if value is ROTTEN and (not is_inside or len(row) == STEM_BYTES):
                raise self.rotten(key)
            if not is_inside:
                return
            if len(row) == STEM_BYTES:
                yield from self._descending(BRANCH + value, key, begin, end)
            elif key >= begin:
                yield key, value


class DamageReports:
    """Where damage of the tree is reported, in the thread that reads it."""

    def __init__(
        self, on_rot: Callable[[bytes], object] = ignore, on_damage: Callable[[StoreFailed], object] = ignore
    ) -> None:
        self.on_rot = on_rot
        self.on_damage = on_damage


class Tree:
    def __init__(self, folder: Path, files: Files = SYSTEM_FILES, reports: DamageReports | None = None) -> None:
        self._reports = reports or DamageReports()
        try:
            self._environment: TreeEnvironment = files.open_environment(folder)
        except lmdb.Error as error:
            raise StoreRefused(f"{folder}: {error}") from error
        self._files = files
        self._file = file = folder / TREE_FILE
        # A row that is not in the page cache blocks the event loop until the disk has read it, and after a start of
        # the machine no row is.
        if READ_AHEAD_BYTES < files.size(file) <= memory_of_the_machine() // 2:
            Thread(target=files.read_ahead, args=(file,), name="epoxy-warm", daemon=True).start()

    def position(self) -> LogPosition | None:
        """The position in the log up to which the tree has its rows; None in a tree that was never written. A file that
        was cut short has failed: LMDB would map pages that do not exist."""
        try:
            with self._environment.begin() as transaction:
                length = int.from_bytes(checked(transaction, LENGTH_ROW) or b"", "big")
                if self._files.size(self._file) < length:
                    raise StoreFailed(
                        f"{self._file}: {self._files.size(self._file):,} bytes, but it had {length:,}: the file was "
                        "cut short. Put it back as it was, or replace this node with an empty disk "
                        "(`epoxy members add NEW-ID URL --replace ID`)"
                    )
                row = checked(transaction, POSITION_ROW)
            return position_decoder.decode(row) if row is not None else None
        except DAMAGE as error:
            raise failure_of(error, "read") from error
        except (lmdb.Error, DecodeError, RottenRow) as error:
            raise StoreRefused(f"{self._environment.path()}: the tree's position cannot be read: {error}") from error

    def view(self) -> TreeView:
        try:
            return TreeView(self._environment.begin(), self._reports)
        except lmdb.Error as error:
            raise failure_of(error, "read") from error

    def apply(self, effects: Values, reached: LogPosition) -> None:
        """A checkpoint: effects and position in one synced transaction. Runs in a thread."""
        length = self._files.size(self._file)
        try:
            with self._environment.begin(write=True) as transaction:
                written, cleared = sorted_out(effects)
                for keys in in_order(written):
                    write(transaction, keys, effects)
                for keys in in_order(cleared):
                    clear(transaction, keys)
                    give_way()
                put(transaction, POSITION_ROW, encoder.encode(reached))
                put(transaction, LENGTH_ROW, length.to_bytes(8, "big"))
        except (lmdb.Error, RottenRow) as error:
            raise failure_of(error, "written") from error

    def close(self) -> None:
        self._environment.close()


def failure_of(error: Exception, use: str) -> StoreFailed:
    """`use`: what the tree cannot be."""
    if isinstance(error, (*DAMAGE, RottenRow)):
        return StoreFailed(f"the tree is damaged, and this node must be replaced: {error}")
    return StoreFailed(f"the tree cannot be {use}: {error}")


def memory_of_the_machine() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def give_way() -> None:
    """Release the interpreter's lock: a waiting event loop gets it for up to a switch interval. With a longer pause
    checkpoints could not keep up with 20,000 commits a second."""
    time.sleep(0)


def sorted_out(effects: Values) -> tuple[list[bytes], list[bytes]]:
    """The keys that are written, and those that are cleared."""
    written: list[bytes] = []
    cleared: list[bytes] = []
    rows = iter(effects.items())
    while some := list(islice(rows, SORTED_ROWS)):
        sort_out(some, written, cleared)
        give_way()
    return written, cleared


def in_order(keys: list[bytes]) -> Iterator[list[bytes]]:
    """Sorted, so that LMDB finds and copies each page once. One sort of all would hold the interpreter's lock for a
    tenth of a second: pieces are sorted, cut at the same bounds, and put together between them."""
    pieces: list[list[bytes]] = []
    for begin in range(0, len(keys), SORTED_ROWS):
        pieces.append(sorted(keys[begin : begin + SORTED_ROWS]))
        give_way()
    samples = sorted(key for piece in pieces for key in piece[::SAMPLED])
    bounds = samples[:: SORTED_ROWS // SAMPLED][1:]
    give_way()
    ranges: list[list[bytes]] = [[] for _ in range(len(bounds) + 1)]
    for piece in pieces:
        deal(piece, bounds, ranges)
        give_way()
    for taken in ranges:
        taken.sort()
        yield taken


def write(transaction: TreeTransaction, keys: list[bytes], values: Values) -> None:
    """A slice at a time."""
    cursor = transaction.cursor()
    begin = 0
    while begin < len(keys):
        part = Slice(keys, begin, values, STEM_BYTES)
        cursor.putmulti(part.rows)
        for key in part.long:
            put(transaction, grow(transaction, key), values[key] or b"")
        begin = part.end
        give_way()


def clear(transaction: TreeTransaction, keys: list[bytes]) -> None:
    """Delete these rows, of sorted keys. Most are not in the tree, because a vote is cleared soon after it was cast:
    where one is missing, so are all before the next row."""
    at = 0
    while at < len(keys):
        key = keys[at]
        at += 1
        if len(key) >= STEM_BYTES:
            delete(transaction, key)
        elif not transaction.delete(key):
            at = bisect_left(keys, row_behind(transaction, key), at)


def row_behind(transaction: TreeTransaction, key: bytes) -> bytes:
    """The first row behind a key that has none. The key itself, where a row beside it is rotten: a search that compared
    with a damaged key ends there, and says nothing about others."""
    cursor = transaction.cursor()
    if not cursor.set_range(key):
        return key
    row, sealed = cursor.key(), cursor.value()
    if unseal(row, sealed) is ROTTEN or (cursor.prev() and unseal(cursor.key(), cursor.value()) is ROTTEN):
        return key
    return row


def put(transaction: TreeTransaction, row: bytes, value: bytes) -> None:
    transaction.put(row, seal(row, value))


def checked(transaction: TreeTransaction, row: bytes) -> bytes | None:
    sealed = transaction.get(row)
    if sealed is None:
        return None
    value = unseal(row, sealed)
    if value is ROTTEN:
        raise RottenRow(row)
    return value


def locate(transaction: TreeTransaction, key: bytes) -> bytes | None:
    """The row of a key, if all its stems exist."""
    return descend(transaction, key, lambda _: None)


def grow(transaction: TreeTransaction, key: bytes) -> bytes:
    """The row of a key, with missing stems added."""

    def branch_off(stem: bytes) -> bytes:
        branch = (int.from_bytes(checked(transaction, BRANCHES_ROW) or b"", "big") + 1).to_bytes(BRANCH_BYTES, "big")
        put(transaction, BRANCHES_ROW, branch)
        put(transaction, stem, branch)
        return branch

    row = descend(transaction, key, branch_off)
    assert row is not None
    return row


def descend(transaction: TreeTransaction, key: bytes, missing: Callable[[bytes], bytes | None]) -> bytes | None:
    row = key
    while len(row) >= STEM_BYTES:
        stem, rest = row[:STEM_BYTES], row[STEM_BYTES:]
        branch = checked(transaction, stem)
        if branch is None and (branch := missing(stem)) is None:
            return None
        row = BRANCH + branch + rest
    return row


def delete(transaction: TreeTransaction, key: bytes) -> None:
    """The row, and every stem that is left without rows."""
    stems: list[bytes] = []
    row = key
    while len(row) >= STEM_BYTES:
        stems.append(row[:STEM_BYTES])
        branch = checked(transaction, stems[-1])
        if branch is None:
            return
        row = BRANCH + branch + row[STEM_BYTES:]
    transaction.delete(row)
    while stems and is_bare(transaction, stems[-1]):
        transaction.delete(stems.pop())


def is_bare(transaction: TreeTransaction, stem: bytes) -> bool:
    prefix = BRANCH + (checked(transaction, stem) or b"")
    cursor = transaction.cursor()
    return not (cursor.set_range(prefix) and cursor.key().startswith(prefix))
