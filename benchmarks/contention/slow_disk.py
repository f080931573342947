"""A node whose disk is slow while a file is there: `python -m benchmarks.contention.slow_disk FLAG serve ...`.

The log is written with O_DSYNC, so its writes are its syncs; both kinds of calls wait 300 ms before they are made. The
wait is in the thread that makes the call, without the interpreter's lock, as that of a real disk.
"""

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec, TypeVar

from epoxy.cli.main import main

P = ParamSpec("P")
R = TypeVar("R")

SYNC_S = 0.3


def slowed(call: Callable[P, R], flag: Path, sleep: Callable[[float], None] = time.sleep) -> Callable[P, R]:
    def waiting(*arguments: P.args, **named: P.kwargs) -> R:
        if flag.exists():
            sleep(SYNC_S)
        return call(*arguments, **named)

    return waiting


if __name__ == "__main__":
    where = Path(sys.argv.pop(1))
    for name in ("pwrite", "fsync", "fdatasync"):
        setattr(os, name, slowed(getattr(os, name), where))
    main()
