"""A run of the tests leaves no process behind, whatever became of the test that started it.

A test that hangs is ended with its whole worker (faulthandler_timeout in pyproject.toml), before it could stop its
nodes and servers. Every process of a run inherits a mark in its environment; the first one ends last, and ends whatever
still carries it. Where there is no /proc, such processes stay.
"""

import contextlib
import os
import secrets
import signal
import sys
from pathlib import Path

import pytest

MARK = "TEST_RUN_MARK"
TRACKER = "multiprocessing.resource_tracker"
"""Python's own: it ends by itself."""


def pytest_configure(config: pytest.Config) -> None:
    if first_process(config):
        os.environ[MARK] = secrets.token_hex(16)


def pytest_unconfigure(config: pytest.Config) -> None:
    if first_process(config):
        for pid, words in left_behind(os.environ[MARK]).items():
            print(f"left behind by a test, and ended: process {pid}, {words}", file=sys.stderr)
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def first_process(config: pytest.Config) -> bool:
    """Not a worker of pytest-xdist."""
    return not hasattr(config, "workerinput")


def left_behind(mark: str) -> dict[int, str]:
    """Processes with that mark which still run, by id, but for this one."""
    pids = [int(path.name) for path in Path("/proc").glob("[0-9]*") if path.name != str(os.getpid())]
    marked = {pid: words_of(pid) for pid in pids if f"{MARK}={mark}".encode() in read(pid, "environ").split(b"\0")}
    return {pid: words for pid, words in marked.items() if words and TRACKER not in words}


def words_of(pid: int) -> str:
    """Empty: it has ended."""
    return read(pid, "cmdline").replace(b"\0", b" ").decode("utf-8", "replace").strip()


def read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""
