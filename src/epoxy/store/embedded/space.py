"""Tells a full disk from a broken one."""

import errno
import os
from pathlib import Path

LEAST_FREE_BYTES = 1 << 20
"""Less than the longest value. After a write that was cut short nothing at all is free."""

FULL = (errno.ENOSPC, errno.EDQUOT)


def cause_of(error: Exception, folder: Path) -> str:
    """LMDB reports a write that was cut short as an input/output error, so the free space is checked, too."""
    if (isinstance(error, OSError) and error.errno in FULL) or free_bytes(folder) < LEAST_FREE_BYTES:
        return f"the disk is full: make room, and start the node again ({error})"
    return str(error)


def free_bytes(folder: Path) -> int:
    """For this user. A disk that cannot tell is not full but broken."""
    try:
        stat = os.statvfs(folder)
    except OSError:
        return LEAST_FREE_BYTES
    return stat.f_bavail * stat.f_frsize
