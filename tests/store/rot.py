"""Bytes of a tree that change on the disk, under a process that has it open or not."""

import os
from pathlib import Path

from epoxy.store.embedded.files import TREE_FILE


def rot(folder: Path, place: bytes, bit: int = 0) -> None:
    """Turn one bit of the first byte of these, wherever they stand in the tree of this folder."""
    path = folder / TREE_FILE
    data = path.read_bytes()
    file = os.open(path, os.O_WRONLY)
    try:
        at, found = data.find(place), 0
        while at >= 0:
            os.pwrite(file, bytes((data[at] ^ 1 << bit,)), at)
            at, found = data.find(place, at + 1), found + 1
        assert found, f"{place!r} is not in the tree"
    finally:
        os.close(file)


PAGE_BYTES, FLAGS_AT, IS_BRANCH = 4096, 10, 1
"""LMDB's pages, where the kind of a page stands in it, and the bit of a page above the leaves."""


def rot_separator(folder: Path, begins: bytes, at: int, bit: int) -> None:
    """Turn a bit in the first key with this beginning in a page above the leaves."""
    path = folder / TREE_FILE
    data = bytearray(path.read_bytes())
    for page in range(0, len(data), PAGE_BYTES):
        place = data.find(begins, page, page + PAGE_BYTES)
        if data[page + FLAGS_AT] & IS_BRANCH and place >= 0:
            file = os.open(path, os.O_WRONLY)
            os.pwrite(file, bytes((data[place + at] ^ 1 << bit,)), place + at)
            os.close(file)
            return
    raise AssertionError("the tree has no page above its leaves")
