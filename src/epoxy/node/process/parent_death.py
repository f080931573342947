"""Processes that end with the one that started them, in whatever way that ends. On Linux the kernel kills them, also
those that stand still and can notice nothing; elsewhere they outlive a parent that was killed."""

import ctypes
import os
import signal
import sys
from collections.abc import Callable

PR_SET_PDEATHSIG = 1
"""From Linux's prctl.h."""


def die_with_parent(number: signal.Signals = signal.SIGKILL) -> None:
    """From now on. That the parent lives still is the caller's to know."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, number)


def before_exec(parent: int, number: signal.Signals = signal.SIGKILL) -> Callable[[], None] | None:
    """For programs of others, called between fork and exec. libc is loaded before the fork, because little is safe
    after it."""
    if not sys.platform.startswith("linux"):
        return None
    prctl = ctypes.CDLL(None, use_errno=True).prctl

    def prepare() -> None:
        prctl(PR_SET_PDEATHSIG, number)
        if os.getppid() != parent:
            os._exit(1)

    return prepare
