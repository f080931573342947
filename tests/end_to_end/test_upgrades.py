"""Workers that are replaced under load: by a higher version, and by `epoxy worker run --reload`. No request fails, and
no counted one is lost."""

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from epoxy import Client, EpoxyError, Which
from epoxy.testing import POLL_S, Cluster, cluster
from tests.end_to_end.recorder import PATIENCE_S

APP = """
from epoxy.envoy import Actor, Worker
worker = Worker("http://127.0.0.1:9", pool="POOL")
CODE = 1

@worker.actor("counter")
class Counter(Actor):
    async def on_request(self, request):
        self.state["count"] = self.state.get("count", 0) + 1
        return f"{CODE} {self.state['count']}"
"""

ACTORS = 12

PAUSE_S = 0.005
"""Between two requests of one client."""


@pytest.fixture(scope="module")
def place() -> Iterator[Cluster]:
    with cluster(1, settings='[placement.pools.moved]\nupgrade = "move"') as made:
        yield made


@contextmanager
def running(folder: Path, url: str, *words: str) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-m", "epoxy", "worker", "run", "app", "--app-dir", str(folder), "--url", url, *words]
    # A source that changes within a second and keeps its size would be taken from the cache of compiled ones.
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def wait_for(process: "subprocess.Popen[str]", words: str) -> None:
    """A line of its stderr with these words."""
    assert process.stderr is not None
    told: list[str] = []
    while words not in (line := process.stderr.readline()):
        assert line, f"it ended:\n{''.join(told)}"
        told.append(line)


class Counting:
    """Clients that count, each at an actor of its own, one request at a time; until the block ends."""

    def __init__(self, url: str, pool: str) -> None:
        self.failed: list[str] = []
        self.last = [(0, 0)] * ACTORS
        self._url = url
        self._pool = pool
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._count, args=(number,)) for number in range(ACTORS)]

    def __enter__(self) -> "Counting":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _count(self, number: int) -> None:
        which = Which(name="counter", key=f"{self._pool}-{number}")
        with Client(self._url, timeout=PATIENCE_S) as client:
            expected = 0
            while not self._over.wait(PAUSE_S):
                expected += 1
                try:
                    code, count = client.actors.request(which, b"", pool=self._pool).split()
                except EpoxyError as error:
                    self.failed.append(repr(error))
                    return
                self.last[number] = (int(code), int(count))
                if int(count) != expected:
                    self.failed.append(f"{which.key} counted {count.decode()}, not {expected}")
                    return

    def until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not condition() and not self.failed:
            assert time.monotonic() < deadline, self.last
            time.sleep(POLL_S)
        assert self.failed == []

    def all_on(self, code: int) -> bool:
        return all(at == code for at, _ in self.last)


@pytest.fixture
def app(tmp_path: Path) -> Path:
    (tmp_path / "app.py").write_text(APP)
    return tmp_path


def changed(folder: Path, code: int) -> None:
    (folder / "app.py").write_text(APP.replace("CODE = 1", f"CODE = {code}"))


def test_a_rolling_upgrade_fails_no_request(place: Cluster, app: Path) -> None:
    url, pool = place[0].url, ["--pool", "drained"]
    with running(app, url, *pool, "--code-version", "1") as old:
        wait_for(old, "is connected")
        with Counting(url, "drained") as counting:
            counting.until(lambda: counting.all_on(1))
            changed(app, 2)
            with running(app, url, *pool, "--code-version", "2") as new:
                wait_for(new, "is connected")
                counting.until(lambda: all(count > 20 for _, count in counting.last))
                assert counting.all_on(1), "they stay until theirs drains"
                old.send_signal(signal.SIGTERM)
                assert old.wait(PATIENCE_S) == 0
                counting.until(lambda: counting.all_on(2))


def test_actors_move_to_the_higher_version_by_themselves(place: Cluster, app: Path) -> None:
    url, pool = place[0].url, ["--pool", "moved"]
    with running(app, url, *pool, "--code-version", "1") as old:
        wait_for(old, "is connected")
        with Counting(url, "moved") as counting:
            counting.until(lambda: counting.all_on(1))
            changed(app, 2)
            with running(app, url, *pool, "--code-version", "2") as new:
                wait_for(new, "is connected")
                counting.until(lambda: counting.all_on(2))
                assert old.poll() is None


def test_reload_moves_actors_into_the_changed_code_with_their_state(place: Cluster, app: Path) -> None:
    url = place[0].url
    with running(app, url, "--pool", "reloaded", "--reload") as supervisor:
        wait_for(supervisor, "is connected")
        with Counting(url, "reloaded") as counting:
            counting.until(lambda: counting.all_on(1))
            (app / "app.py").write_text("def broken(:")
            wait_for(supervisor, "the code before it goes on")
            changed(app, 3)
            counting.until(lambda: counting.all_on(3))
        supervisor.send_signal(signal.SIGTERM)
        assert supervisor.wait(PATIENCE_S) == 0
