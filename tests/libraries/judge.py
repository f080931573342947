"""What the libraries talk to: three real nodes, or, with EPOXY_JUDGE=redis, a Redis.

The second is the judge of the tests themselves: what passes there is what Redis does, so what fails at a node is the
node's. A Redis is one server, so its three doors are the same one.
"""

import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import redis

from epoxy.testing import POLL_S, free_ports
from tests.end_to_end.recorder import PROCESS_S
from tests.end_to_end.world import regions
from tools.programs import redis_server

JUDGED_BY_REDIS = os.environ.get("EPOXY_JUDGE") == "redis"

HOST = "127.0.0.1"


@dataclass(frozen=True, kw_only=True)
class Doors:
    """The RESP ports of one store."""

    ports: tuple[int, int, int]

    @property
    def port(self) -> int:
        return self.ports[0]

    @property
    def url(self) -> str:
        return f"redis://{HOST}:{self.port}/0"


@contextmanager
def nodes(folder: Path) -> Iterator[Doors]:
    with regions(folder) as cluster:
        first, second, third = (node.resp_port for node in cluster.nodes)
        yield Doors(ports=(first, second, third))


@contextmanager
def a_redis(folder: Path) -> Iterator[Doors]:
    (port,) = free_ports(1)
    words = ["--port", str(port), "--bind", HOST, "--dir", str(folder), "--save", ""]
    process = subprocess.Popen([str(redis_server()), *words], stdout=subprocess.DEVNULL)
    try:
        until(lambda: answers(port), "the server answers")
        yield Doors(ports=(port, port, port))
    finally:
        process.kill()
        process.wait()


def answers(port: int) -> bool:
    try:
        with redis.Redis(port=port) as client:
            return bool(client.ping())
    except redis.ConnectionError:
        return False


def until(condition: Callable[[], object], words: str) -> None:
    deadline = time.monotonic() + PROCESS_S
    while not condition():
        assert time.monotonic() < deadline, f"not in {PROCESS_S:.0f} s: {words}"
        time.sleep(POLL_S)


class Overlap:
    """Counts how many are inside of a critical section at once, and how often one was entered."""

    def __init__(self) -> None:
        self.most = 0
        self.entered = 0
        self._inside = 0
        self._guard = threading.Lock()

    def __enter__(self) -> None:
        with self._guard:
            self._inside += 1
            self.entered += 1
            self.most = max(self.most, self._inside)

    def __exit__(self, *_: object) -> None:
        with self._guard:
            self._inside -= 1


def crowd(makers: list[Callable[[], AbstractContextManager[object]]], rounds: int = 3) -> Overlap:
    """A thread for each maker takes its lock `rounds` times. The holder stays long enough for others to come in."""
    overlap = Overlap()

    def take(make: Callable[[], AbstractContextManager[object]]) -> None:
        for _ in range(rounds):
            with make(), overlap:
                time.sleep(POLL_S / 4)

    with ThreadPoolExecutor(len(makers)) as pool:
        for each in [pool.submit(take, make) for make in makers]:
            each.result()
    return overlap
