"""SIGBUS: a mapped file has become shorter, or its disk cannot read a page of it. The tree is the one file that a node
maps and changes, so the cause is named and the process ends as after any other failure of the disk.

A handler of Python's own `signal` module would run after the faulting instruction has been tried again, which is never.
One that is installed through ctypes runs in its place, in the thread that faulted: it takes the interpreter's lock if
that thread has released it, and keeps it otherwise. It does not return.
"""

import ctypes
import os
import signal
import sys
from collections.abc import Callable

from epoxy.node.process.exits import EXIT_STORE

Handler = ctypes.CFUNCTYPE(None, ctypes.c_int)

installed: list[object] = []
"""What the C library calls must not be collected."""


def cut_short(folder: object) -> str:
    return f"SIGBUS: the tree in {folder} was cut short, or its disk cannot read it"


def end_with_a_line(folders: object) -> None:
    """For commands that read the trees of nodes that do not run."""
    end_on_bus_error(lambda: print(f"epoxy: {cut_short(folders)}", file=sys.stderr, flush=True))


def end_on_bus_error(report: Callable[[], None]) -> None:
    """From here on SIGBUS calls `report` and ends the process."""

    def handle(_: int) -> None:
        try:
            report()
        finally:
            os._exit(EXIT_STORE)

    handler = Handler(handle)
    installed.append(handler)
    library = ctypes.CDLL(None)
    library.signal.argtypes = (ctypes.c_int, Handler)
    library.signal.restype = ctypes.c_void_p
    library.signal(signal.SIGBUS, handler)
