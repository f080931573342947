"""Runs the tests that should notice a change, in a copy of the tree, and reports which did."""

import difflib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from tools.mutate.changes import Change
from tools.mutate.rooms import Room, own_tests

LEFT_OUT = shutil.ignore_patterns(
    ".git", ".venv*", "build", "dist", "__pycache__", ".*_cache", ".hypothesis", "*.egg-info", "node_modules"
)


class Found(Struct, frozen=True, kw_only=True):
    """`by`: the step that noticed, or that hung. None: the change was not noticed. `was` and `became` are the first
    line that differs, without the spaces around it."""

    room: str
    change: Change
    by: str | None
    seconds: float
    was: str
    became: str
    diff: str


def lines(right: str, wrong: str) -> tuple[str, str]:
    pairs = zip(right.splitlines(), wrong.splitlines(), strict=False)
    was, became = next(pair for pair in pairs if pair[0] != pair[1])
    return was.strip(), became.strip()


def diff(path: str, right: str, wrong: str) -> str:
    return "\n".join(difflib.unified_diff(right.splitlines(), wrong.splitlines(), path, path, lineterm="", n=2))


class Step(Struct, frozen=True, kw_only=True):
    name: str
    command: tuple[str, ...]


def steps(root: Path, room: Room, source: Path | None) -> Iterator[Step]:
    """The fastest to notice comes first. Without a source: the steps of the whole room."""
    pytest = (sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "--tb=no", "-p", "no:cacheprovider")
    own = own_tests(root, room, source) if source is not None else []
    if own:
        yield Step(name="its own tests", command=(*pytest, *own))
    yield Step(name="the room's tests", command=(*pytest, *room.tests))
    for words in room.sims:
        yield Step(name=f"sim {words[0]}", command=(sys.executable, "-m", "epoxy", "sim", *words, "--jobs", "1"))
    if room.more:
        yield Step(name="tests of whole processes", command=(*pytest, *room.more))


class Tree:
    """A copy, in which sources may be broken."""

    def __init__(self, origin: Path, root: Path) -> None:
        self.root = root
        shutil.copytree(origin, root, ignore=LEFT_OUT, symlinks=True)

    def environment(self) -> dict[str, str]:
        """CI: the same examples every time. The copy's sources come before those that are installed."""
        return {**os.environ, "PYTHONPATH": str(self.root / "src"), "CI": "true", "PYTHONDONTWRITEBYTECODE": "1"}

    def passes(self, step: Step, limit_s: float) -> bool | None:
        """None: it did not end in time. It is ended then, with all it has started."""
        process = subprocess.Popen(
            step.command,
            cwd=self.root,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            return process.wait(limit_s) == 0
        except subprocess.TimeoutExpired:
            return None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def judge(self, room: Room, change: Change, limits: dict[str, float]) -> Found:
        path = self.root / change.path
        right, began = path.read_text("utf-8"), time.monotonic()
        wrong = change.made(right)
        path.write_text(wrong, "utf-8")
        try:
            by = next(self._noticing(steps(self.root, room, Path(change.path)), limits), None)
        finally:
            path.write_text(right, "utf-8")
        was, became = lines(right, wrong)
        return Found(
            room=room.name,
            change=change,
            by=by,
            seconds=time.monotonic() - began,
            was=was,
            became=became,
            diff=diff(change.path, right, wrong),
        )

    def _noticing(self, each: Iterator[Step], limits: dict[str, float]) -> Iterator[str]:
        for step in each:
            passed = self.passes(step, limits[step.name])
            if not passed:
                yield step.name if passed is False else f"{step.name}: hung"

    def times(self, room: Room, limit_s: float) -> dict[str, float]:
        """How long each step takes when nothing is broken. RuntimeError: one fails, so that it could notice nothing."""
        took: dict[str, float] = {}
        for step in steps(self.root, room, None):
            began = time.monotonic()
            if not self.passes(step, limit_s):
                raise RuntimeError(f"{room.name}: {step.name} does not pass unchanged: {' '.join(step.command)}")
            took[step.name] = time.monotonic() - began
        return took


def limits(times: dict[str, float], patience: float, least_s: float = 60.0) -> dict[str, float]:
    """What takes `patience` times as long as it should hangs."""
    found = {name: max(least_s, patience * seconds) for name, seconds in times.items()}
    found["its own tests"] = found["the room's tests"]
    return found
