"""A run of the tests ends, whatever its tests do: shown with one that hangs, and that has started a process."""

import os
import subprocess
import sys
import time
from pathlib import Path

from tests.leftovers import words_of

ROOT = Path(__file__).resolve().parents[2]

HANGS = """
import subprocess, sys, threading
from pathlib import Path

def test_that_hangs():
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
    Path("child").write_text(str(child.pid))
    threading.Event().wait()
"""


def test_a_test_that_hangs_is_named_and_what_it_started_is_ended(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("from tests.leftovers import pytest_configure, pytest_unconfigure\n")
    (tmp_path / "test_it.py").write_text(HANGS)
    (tmp_path / "pytest.ini").write_text("[pytest]\nfaulthandler_timeout = 2\nfaulthandler_exit_on_timeout = true\n")
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-n", "1"],
        cwd=tmp_path,
        env={**{k: v for k, v in os.environ.items() if not k.startswith("PYTEST")}, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    child = int((tmp_path / "child").read_text())
    assert run.returncode == 1, run.stderr
    assert "crashed while running 'test_it.py::test_that_hangs'" in run.stdout
    assert "Event" in run.stderr + run.stdout or "threading.py" in run.stderr + run.stdout, "no stacks were shown"
    assert f"left behind by a test, and ended: process {child}" in run.stderr
    deadline = time.monotonic() + 60
    while words_of(child):
        assert time.monotonic() < deadline, "it still runs"


def test_our_own_runs_are_bounded_like_that() -> None:
    settings = (ROOT / "pyproject.toml").read_text("utf-8")
    assert "\nfaulthandler_exit_on_timeout = true\n" in settings
    assert (
        "from tests.leftovers import pytest_configure, pytest_unconfigure\n" in (ROOT / "tests/conftest.py").read_text()
    )
