"""A node whose machine, or whose code, has faults that a test cannot cause for real: `python -m
tests.monitoring.faulty_node slow-disk,full-disk serve --config FILE`. All else is a node as it is."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO

import epoxy
from epoxy.testing import ClusterNode
from epoxy.testing.process_cluster import clean_environment
from tests.house.test_house import ROOT

SYNC_S = 0.2
FREE_BYTES = 200 << 20
AHEAD_S = 8.0
"""Peers accept signatures of up to half a minute ahead."""

OTHER_VERSION = "99.0.0"
EVERY_S = 0.05


def slow_disk() -> None:
    from epoxy.store.embedded.files import SystemFiles

    write = SystemFiles.write

    def slowly(self: SystemFiles, file: int, data: bytes, offset: int) -> int:
        time.sleep(SYNC_S)
        return write(self, file, data, offset)

    SystemFiles.write = slowly  # type: ignore[method-assign]
    SystemFiles.frame_writer = lambda _: None  # type: ignore[assignment, method-assign]  # All by `write`.


def full_disk() -> None:
    from epoxy.store.embedded.files import SystemFiles

    SystemFiles.free_bytes = lambda self, folder: FREE_BYTES  # type: ignore[method-assign] # noqa: ARG005


def wrong_clock() -> None:
    now_s = time.time
    time.time = lambda: now_s() + AHEAD_S


def other_version() -> None:
    epoxy.__version__ = OTHER_VERSION


def bugs() -> None:
    """An invariant is broken, and flows fail, again and again."""
    from epoxy.server.listeners import HandedOn
    from epoxy.server.process import Process

    start = Process.start

    async def start_with_bugs(self: Process, handed_on: HandedOn | None = None) -> None:
        await start(self, handed_on)
        self.node._alarm("two values for one name, which a test has planted")
        fail_again(self)

    def fail_again(process: Process) -> None:
        process.node.failures.ended("write", RuntimeError("a bug that a test has planted"), lambda: None)
        asyncio.get_running_loop().call_later(EVERY_S, fail_again, process)

    Process.start = start_with_bugs  # type: ignore[method-assign]


FAULTS: dict[str, Callable[[], None]] = {
    "slow-disk": slow_disk,
    "full-disk": full_disk,
    "wrong-clock": wrong_clock,
    "other-version": other_version,
    "bugs": bugs,
}


class FaultyNode(ClusterNode):
    """With all of them."""

    @classmethod
    def of(cls, node: ClusterNode, folder: Path) -> "FaultyNode":
        http = int(node.url.rpartition(":")[2])
        return cls(node_id=node.id, datacenter=node.datacenter, folder=folder, http=http, resp=node.resp_port)

    def _spawn(self, command: list[str], log: IO[bytes]) -> subprocess.Popen[bytes]:
        """Of the sources: methods of compiled classes cannot be replaced."""
        environment = clean_environment(os.environ) | {"EPOXY_PURE": "1"}
        words = [sys.executable, "-m", "tests.monitoring.faulty_node", ",".join(FAULTS), *command[3:]]
        return subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, cwd=ROOT)


if __name__ == "__main__":
    for fault in sys.argv.pop(1).split(","):
        FAULTS[fault]()
    from epoxy.cli.main import main

    main()
