"""Backup files, written and read a block at a time. The format: `format.py`."""

import fcntl
import hashlib
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from epoxy.backup.format import (
    CHECKSUM_BYTES,
    FRAME,
    MAGIC,
    MAX_BLOCK_BYTES,
    PREAMBLE,
    VERSION,
    BackupEnd,
    BackupHeader,
    Block,
    BlockOrder,
    Kind,
    decode_block,
    decode_one,
    encode_one,
    frame_checksum,
)
from epoxy.model.errors import BackupError

PARTIAL = ".partial"
"""The ending of a file that is being written."""


class BackupWriter:
    """Writes FILE.partial, and renames it when it is complete and synced. Anything that fails before that leaves no
    FILE. A block is checked before it is written: it may have come over a network."""

    def __init__(self, path: Path, header: BackupHeader, *, replace: bool = False) -> None:
        """`replace`: a file that is there already, when this one is complete."""
        if path.exists() and not replace:
            raise BackupError(f"{path} exists; a backup is never overwritten")
        self.path = path
        self._replace = replace
        self._partial = path.with_name(path.name + PARTIAL)
        try:
            self._file = open_partial(self._partial)
        except OSError as error:
            raise BackupError(f"{self._partial}: {error.strerror}") from error
        self._nonce = secrets.randbits(64)
        self._digest = hashlib.blake2b(digest_size=32)
        self._order = BlockOrder()
        self._frames = 0
        self._done = False
        self._append(PREAMBLE.pack(MAGIC, VERSION, self._nonce))
        self._frame(encode_one(Kind.HEADER, header))

    def write(self, block: bytes) -> Block:
        """A block of records, as `encode_block` made it; returns what is in it."""
        found = decode_block(block)
        self._order.take(found)
        self._frame(block)
        return found

    def finish(self, missing: tuple[str, ...] = ()) -> BackupEnd:
        """From here on there is FILE, durably. `missing`: datacenters whose actors' rows could not be had."""
        end = self._order.end(missing, self._digest.hexdigest())
        self._frame(encode_one(Kind.END, end))
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
            if self.path.exists() and not self._replace:
                raise BackupError(f"{self.path} exists; a backup is never overwritten")
            os.rename(self._partial, self.path)
            folder = os.open(self.path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as error:
            raise BackupError(f"{self.path}: {error.strerror}") from error
        self._done = True
        self._file.close()
        return end

    def close(self) -> None:
        """Without `finish` nothing is left."""
        if not self._done:
            self._done = True
            self._partial.unlink(missing_ok=True)
            # What is still buffered fits on a full disk no better than what failed before it.
            with suppress(OSError):
                self._file.close()

    def _frame(self, block: bytes) -> None:
        prefix = FRAME.pack(len(block), self._frames)
        self._append(prefix, block, frame_checksum(prefix, block, self._nonce))
        self._frames += 1

    def _append(self, *parts: bytes) -> None:
        try:
            for part in parts:
                self._digest.update(part)
                self._file.write(part)
        except OSError as error:
            raise BackupError(f"{self._partial}: {error.strerror}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()


def open_partial(path: Path) -> BinaryIO:
    """What an interrupted run left there is overwritten, what another process writes is not."""
    file = path.open("ab", buffering=1 << 20)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        file.truncate(0)
    except BlockingIOError:
        file.close()
        raise BackupError(f"{path} is being written by another process") from None
    except BaseException:
        file.close()
        raise
    os.fchmod(file.fileno(), 0o600)
    return file


class BackupReader:
    """Reads a file a block at a time. What `blocks` yields is checked by itself, but the file is known to be whole only
    when all of it was read: then `end` is set. A caller that must not act on a part of a file reads it twice."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.end: BackupEnd | None = None
        self.read_bytes = 0
        self._frames = 0
        self._digest = hashlib.blake2b(digest_size=32)
        try:
            self._file = path.open("rb")
            self.size = os.fstat(self._file.fileno()).st_size
        except OSError as error:
            raise BackupError(f"{path}: {error.strerror}") from error
        try:
            self._nonce = self._preamble()
            with self._located():
                self.header = decode_one(self._next(), Kind.HEADER, BackupHeader)
        except BaseException:
            self._file.close()
            raise

    def blocks(self) -> Iterator[Block]:
        """All blocks of records. Raises BackupError where the file is damaged, and at its end if it is incomplete."""
        order = BlockOrder()
        while self.end is None:
            with self._located():
                before = self._digest.copy()
                block = self._next()
                if block.kind is Kind.END:
                    self.end = self._ended(block, order, before.hexdigest())
                    return
                order.take(block)
            yield block

    def verify(self, progress: Callable[[int, int], None] = lambda _read, _size: None) -> BackupEnd:
        """Reads all of it. `progress` is told the bytes read, and those of the file."""
        for _ in self.blocks():
            progress(self.read_bytes, self.size)
        assert self.end is not None
        return self.end

    def close(self) -> None:
        self._file.close()

    def _ended(self, block: Block, order: BlockOrder, digest: str) -> BackupEnd:
        found = decode_one(block, Kind.END, BackupEnd)
        if found != order.end(found.missing, digest):
            raise BackupError("the blocks are not those that its end counts")
        if self._file.read(1):
            raise BackupError("something follows the end")
        return found

    def _preamble(self) -> int:
        found = self._take(PREAMBLE.size)
        if found[: len(MAGIC)] != MAGIC[: len(found)] or not found:
            raise BackupError(f"{self.path}: not a backup of Epoxy")
        if len(found) < PREAMBLE.size:
            raise BackupError(f"{self.path}: incomplete: it ends at byte {self.read_bytes:,}, in its first line")
        _, version, nonce = PREAMBLE.unpack(found)
        if version != VERSION:
            raise BackupError(f"{self.path}: a backup in format {version}; this version of Epoxy reads {VERSION}")
        assert isinstance(nonce, int)
        return nonce

    def _next(self) -> Block:
        prefix = self._take(FRAME.size)
        if not prefix:
            raise BackupError("incomplete: the file ends before its last block")
        if len(prefix) < FRAME.size:
            raise BackupError("incomplete: the file ends within this block")
        length, number = FRAME.unpack(prefix)
        if length > MAX_BLOCK_BYTES:
            raise BackupError("damaged: its length is impossible")
        block = self._take(length)
        checksum = self._take(CHECKSUM_BYTES)
        if len(checksum) < CHECKSUM_BYTES:
            raise BackupError("incomplete: the file ends within this block")
        if checksum != frame_checksum(prefix, block, self._nonce):
            raise BackupError("damaged, or not a block of this file: its checksum is wrong")
        if number != self._frames:
            raise BackupError(f"block {number:,} is in its place")
        self._frames += 1
        return decode_block(block)

    def _take(self, size: int) -> bytes:
        try:
            found = self._file.read(size)
        except OSError as error:
            raise BackupError(f"cannot be read: {error.strerror}") from error
        self.read_bytes += len(found)
        self._digest.update(found)
        return found

    @contextmanager
    def _located(self) -> Iterator[None]:
        """An error says where in the file."""
        begin, number = self.read_bytes, self._frames
        try:
            yield
        except BackupError as error:
            raise BackupError(f"{self.path}: block {number:,}, at byte {begin:,}: {error}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()
