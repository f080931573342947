"""Whether a disk that failed is only full."""

import errno
import os
from pathlib import Path

LEAST_FREE_BYTES = 1 << 20
"""Less than the longest value. A write that a full disk cuts short leaves nothing at all."""

FULL = (errno.ENOSPC, errno.EDQUOT)


def cause_of(error: Exception, folder: Path) -> str:
    """LMDB tells a write that was cut short as an input/output error, so the space that is left is looked at, too."""
    if (isinstance(error, OSError) and error.errno in FULL) or free_bytes(folder) < LEAST_FREE_BYTES:
        return f"the disk is full: make room, and start the node again ({error})"
    return str(error)


def free_bytes(folder: Path) -> int:
    """For this user. A disk that cannot say so is not full but broken."""
    try:
        told = os.statvfs(folder)
    except OSError:
        return LEAST_FREE_BYTES
    return told.f_bavail * told.f_frsize
