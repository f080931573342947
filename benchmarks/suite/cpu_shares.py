"""A share of a core for each process, kept by the kernel: small machines of their own, on a machine of two cores.

Where all of a cluster runs on two cores, a second node takes from the first what it adds. With a share of a core each,
and the database and the load generator outside of it, a second node brings its own CPU time, as a machine would.
"""

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

GROUPS = Path("/sys/fs/cgroup/cpu")
"""Control groups of version 1."""

PERIOD_US = 5000
"""Short, so that a process which has used up its share is away for less than the time of a few syncs."""


@contextlib.contextmanager
def shares(pids: Iterable[int], cores: float) -> Iterator[None]:
    """Each of these processes, with all its threads, has so much of a core. OSError: the kernel does not do it."""
    groups = []
    try:
        for pid in pids:
            group = GROUPS / f"epoxy-bench-{os.getpid()}-{pid}"
            group.mkdir()
            groups.append(group)
            (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (group / "cpu.cfs_quota_us").write_text(str(round(PERIOD_US * cores)))
            (group / "cgroup.procs").write_text(str(pid))
        yield
    finally:
        for group in groups:
            for inside in (group / "cgroup.procs").read_text().split():
                with contextlib.suppress(OSError):  # it has ended in the meantime
                    (GROUPS / "cgroup.procs").write_text(inside)
            group.rmdir()
