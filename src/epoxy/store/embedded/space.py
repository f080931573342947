"""Tells a full disk from a broken one, and what a data directory takes."""

import errno
from contextlib import suppress
from pathlib import Path

from epoxy.model.api import DiskUsage
from epoxy.store.embedded.files import SYSTEM_FILES, Files

LEAST_FREE_BYTES = 1 << 20
"""Less than the longest value. After a write that was cut short nothing at all is free."""

FULL = (errno.ENOSPC, errno.EDQUOT)


def cause_of(error: Exception, folder: Path, files: Files = SYSTEM_FILES) -> str:
    if is_full(error, folder, files):
        return f"the disk is full: make room, and start the node again ({error})"
    return str(error)


def is_full(error: Exception, folder: Path, files: Files) -> bool:
    """LMDB reports a write that was cut short as an input/output error, so the free space is checked, too."""
    return (isinstance(error, OSError) and error.errno in FULL) or free_bytes(folder, files) < LEAST_FREE_BYTES


def free_bytes(folder: Path, files: Files = SYSTEM_FILES) -> int:
    """A disk that cannot tell is not full but broken."""
    try:
        return files.free_bytes(folder)
    except OSError:
        return LEAST_FREE_BYTES


def usage_of(folder: Path, log: Path, tree: Path, files: Files = SYSTEM_FILES) -> DiskUsage:
    return DiskUsage(
        log_bytes=size_of(log, files), tree_bytes=size_of(tree, files), free_bytes=free_bytes(folder, files)
    )


def size_of(folder: Path, files: Files) -> int:
    """Of the files in it. Segments of the log come and go meanwhile."""
    sizes = []
    for name in files.names(folder):
        with suppress(FileNotFoundError):
            sizes.append(files.size(folder / name))
    return sum(sizes)
