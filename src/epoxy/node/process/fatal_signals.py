"""Signals by which a damaged tree ends a process: told in one line, with the exit code of a failed disk.

SIGBUS: a mapped file has become shorter, or its disk cannot read a page of it; the tree is the one file that is mapped.
SIGABRT: a check inside LMDB failed, for instance because a page that should hold rows is zero. It prints the check and
calls `abort`.

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

CAUSES = {
    signal.SIGBUS: "SIGBUS: the tree in {} was cut short, or its disk cannot read it",
    signal.SIGABRT: "SIGABRT: the check in the line before this one failed; if that is in mdb.c, the tree in {} is "
    "damaged, and its node must be replaced",
}

Handler = ctypes.CFUNCTYPE(None, ctypes.c_int)

installed: list[object] = []
"""What the C library calls must not be collected."""


def end_with_a_line(folders: object) -> None:
    """For commands that read the trees of nodes that do not run."""
    end_on_fatal_signals(folders, lambda words: print(f"epoxy: {words}", file=sys.stderr, flush=True))


def end_on_fatal_signals(folders: object, report: Callable[[str], None]) -> None:
    """From here on these signals call `report` with the cause, and end the process. `folders`: the data directories
    whose trees are read."""

    def handle(number: int) -> None:
        try:
            report(CAUSES[signal.Signals(number)].format(folders))
        finally:
            os._exit(EXIT_STORE)

    handler = Handler(handle)
    installed.append(handler)
    library = ctypes.CDLL(None)
    library.signal.argtypes = (ctypes.c_int, Handler)
    library.signal.restype = ctypes.c_void_p
    for number in CAUSES:
        library.signal(number, handler)
