"""How the C library gives memory back to the system."""

import ctypes
from contextlib import suppress

M_MMAP_THRESHOLD = -3
"""Of glibc's malloc.h."""

MAPPED_BYTES = 256 << 10
"""Blocks this long are mapped one by one and unmapped when they are freed. By itself glibc stops that after the first
long value, and then a process keeps what a flood of long values made it allocate. Mapping costs 0.1 ms for a MiB."""


def map_long_blocks() -> bool:
    """Whether this C library can. Others than glibc have other rules."""
    with suppress(AttributeError, OSError, TypeError):
        return bool(ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, MAPPED_BYTES))
    return False
