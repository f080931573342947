"""Data directories of format 4, as the version before wrote them: rows without checksums, frames without marks."""

import struct
import zlib
from collections.abc import Sequence
from pathlib import Path

import lmdb

from epoxy.store.conflicts import Values
from epoxy.store.embedded.checksums import CHECKSUM_BYTES
from epoxy.store.embedded.log import LogPosition, encoder
from epoxy.store.embedded.tree import Tree

SALT = 77
ALLOCATED = 4096


def make_format4(path: Path, *, replica: int, rows: Values, frames: Sequence[Values], reached: LogPosition) -> None:
    """`rows` are in the tree, which is at `reached`; `frames` in a log that goes on from there."""
    for folder in (path, path / "log", path / "tree"):
        folder.mkdir(mode=0o700, exist_ok=True)
    make_tree(path / "tree", rows, reached)
    make_segment(path / "log", frames, reached)
    (path / "format").write_bytes(b'{"format":4,"replica":%d}' % replica)


def make_tree(folder: Path, rows: Values, reached: LogPosition) -> None:
    tree = Tree(folder)
    tree.apply(rows, reached)
    tree.close()
    with lmdb.open(str(folder)) as environment, environment.begin(write=True) as transaction:
        for row, sealed in list(transaction.cursor()):
            transaction.put(row, sealed[CHECKSUM_BYTES:])


def make_segment(folder: Path, frames: Sequence[Values], reached: LogPosition) -> Path:
    fields = struct.pack("<8sIIQQ", b"EPOXYLOG", 1, SALT, reached.generation + 1, reached.frame + 1)
    data = fields + struct.pack("<I", zlib.crc32(fields))
    for number, effects in enumerate(frames, start=reached.frame + 1):
        payload = encoder.encode((reached.sequence + number, effects))
        fields = struct.pack("<4sIQI", b"EPXF", len(payload), number, zlib.crc32(payload, SALT))
        data += fields + struct.pack("<I", zlib.crc32(fields, SALT)) + b"\xa5" + payload + b"\xa5"
    path = folder / f"{reached.generation + 1:016d}.log"
    path.write_bytes(data.ljust(ALLOCATED, b"\x00"))
    return path
