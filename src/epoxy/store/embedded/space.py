"""Tells a full disk from a broken one, and what a data directory takes."""

import errno
from contextlib import suppress
from pathlib import Path

from epoxy.model.api import DiskUsage, SyncReport
from epoxy.model.errors import StoreFailed, StoreRefused
from epoxy.store.embedded.files import SYSTEM_FILES, Files

LEAST_FREE_BYTES = 1 << 20
"""Less than the longest value. After a write that was cut short nothing at all is free."""

FULL = (errno.ENOSPC, errno.EDQUOT)


def cause_of(error: Exception, folder: Path, files: Files = SYSTEM_FILES) -> str:
    if is_full(error, folder, files):
        return f"the disk is full: make room, and start the node again ({error})"
    return str(error)


def not_opened(error: OSError, name: str, folder: Path, files: Files = SYSTEM_FILES) -> StoreFailed | StoreRefused:
    """What the opening of a data directory ends with. A disk that is full or fails is the disk's fault, as it is while
    a node runs, and supervisors tell it so by the exit status; anything else is a path or a right that a setting
    names."""
    if is_full(error, folder, files) or error.errno == errno.EIO:
        return StoreFailed(f"{name}: {cause_of(error, folder, files)}")
    where = f" ({error.filename})" if error.filename else ""
    return StoreRefused(f"{name}: {error.strerror}{where}")


def is_full(error: Exception, folder: Path, files: Files) -> bool:
    """LMDB reports a write that was cut short as an input/output error, so the free space is checked, too."""
    return (isinstance(error, OSError) and error.errno in FULL) or free_bytes(folder, files) < LEAST_FREE_BYTES


def free_bytes(folder: Path, files: Files = SYSTEM_FILES) -> int:
    """A disk that cannot tell is not full but broken."""
    try:
        return files.free_bytes(folder)
    except OSError:
        return LEAST_FREE_BYTES


def usage_of(
    folder: Path, log: Path, tree: Path, files: Files = SYSTEM_FILES, syncs: SyncReport | None = None
) -> DiskUsage:
    return DiskUsage(
        log_bytes=size_of(log, files),
        tree_bytes=size_of(tree, files),
        free_bytes=free_bytes(folder, files),
        syncs=syncs,
    )


def size_of(folder: Path, files: Files) -> int:
    """Of the files in it. Segments of the log come and go meanwhile."""
    sizes = []
    for name in files.names(folder):
        with suppress(FileNotFoundError):
            sizes.append(files.size(folder / name))
    return sum(sizes)
