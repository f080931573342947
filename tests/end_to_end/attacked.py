"""A node that soon takes a silent worker for lost, and the worker processes of attacks on it."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from epoxy import EpoxyError
from epoxy.model.quorum import QuorumPolicy
from epoxy.testing import POLL_S, ClusterNode, lay_out
from tests.end_to_end.recorder import PATIENCE_S

T = TypeVar("T")

ROOT = Path(__file__).resolve().parents[2]

THRESHOLD_S = 2.0
SETTINGS = f"\n[placement]\neligible_threshold_ms = {THRESHOLD_S * 1000:.0f}\nsweep_every_s = 86400\n"
"""No sweep comes to the rescue: what is noticed has a deadline of its own."""


@contextmanager
def lone_node(folder: Path) -> Iterator[ClusterNode]:
    (alone,) = lay_out(folder, 1, QuorumPolicy.OPTIMAL)
    with alone.config.open("a") as config:
        config.write(SETTINGS)
    alone.start()
    try:
        yield alone
    finally:
        alone.kill()


CLOCK = """
import time
real, real_ns = time.time, time.time_ns
time.time = lambda: real() - {behind_s}
time.time_ns = lambda: real_ns() - {behind_s} * 1_000_000_000
"""
"""Loaded by every Python process that finds it, before anything else: their wall clocks are behind."""


@contextmanager
def clock_set_back(folder: Path, behind_s: int) -> Iterator[None]:
    """For the processes that are started meanwhile."""
    (folder / "sitecustomize.py").write_text(CLOCK.format(behind_s=behind_s))
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(folder), *([before] if before else [])])
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before


@contextmanager
def workers(
    node: ClusterNode, journal: Path, *keys: str, pool: str, namespace: str = "default", flags: Sequence[str] = ()
) -> Iterator[list[subprocess.Popen[str]]]:
    """All connected. Their logs are beside the journal, as KEY.log."""
    options = [str(journal), "--pool", pool, "--namespace", namespace, *flags]
    module = [sys.executable, "-m", "tests.end_to_end.attacked_worker", node.url]
    started = []
    try:
        for key in keys:
            with log_of(journal, key).open("ab") as log:
                started.append(subprocess.Popen([*module, key, *options], stderr=log, text=True, cwd=ROOT))
        with node.client(timeout=PATIENCE_S) as client:
            until(
                lambda: {each.key for each in client.actors.envoys(namespace=namespace, pool=pool)} >= set(keys),
                f"{keys} connected",
            )
        yield started
    finally:
        for process in started:
            process.kill()
            process.wait()


def log_of(journal: Path, key: str) -> Path:
    return journal.with_name(f"{key}.log")


def until(condition: Callable[[], bool], words: str) -> None:
    """An error of Epoxy's is taken for no."""

    def ask() -> None:
        if not condition():
            raise NotYet

    persistent(ask, words)


class NotYet(Exception):
    pass


def persistent(ask: Callable[[], T], words: str = "answered") -> T:
    """Asks again until there is an answer."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return ask()
        except (EpoxyError, NotYet) as error:
            last = error
        assert time.monotonic() < deadline, f"not {words} in {PATIENCE_S:.0f} s: {last}"
        time.sleep(POLL_S)
