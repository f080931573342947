"""A run of the tests leaves no process behind, whatever became of the test that started it.

A test that hangs is ended with its whole worker (faulthandler_timeout in pyproject.toml), before it could stop its
nodes and servers. The first process of the run asks Linux to become the parent of such orphans, and ends them last.
On other systems they stay.
"""

import contextlib
import ctypes
import os
import signal
import sys
from pathlib import Path

import pytest

PR_SET_CHILD_SUBREAPER = 36
TRACKER = "multiprocessing.resource_tracker"
"""Python's own: it ends by itself."""


def pytest_configure(config: pytest.Config) -> None:
    if first_process(config) and sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def pytest_unconfigure(config: pytest.Config) -> None:
    if first_process(config):
        for pid, words in children().items():
            print(f"left behind by a test, and ended: process {pid}, {words}", file=sys.stderr)
            end(pid)


def first_process(config: pytest.Config) -> bool:
    """Not a worker of pytest-xdist."""
    return not hasattr(config, "workerinput")


def children() -> dict[int, str]:
    """Those of this process that still run, by id."""
    try:
        listed = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
    except OSError:
        return {}
    found = {int(pid): words_of(int(pid)) for pid in listed}
    return {pid: words for pid, words in found.items() if words and TRACKER not in words}


def words_of(pid: int) -> str:
    """Empty: it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace").strip()
    except OSError:
        return ""


def end(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, ChildProcessError):
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
