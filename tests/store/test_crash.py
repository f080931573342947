"""Real processes, really killed. A process of its own forks them: one with threads must not."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def torment(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.store.crash", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("lane", [[], ["--native"]], ids=["as it is", "native"])
def test_what_was_acknowledged_outlives_fifty_kills(lane: list[str]) -> None:
    outcome = torment("--kills", "50", *lane)
    assert outcome.stderr == ""
    assert outcome.stdout.startswith("held: 50 kills")
    assert outcome.returncode == 0


def test_kills_find_an_acknowledgement_before_its_sync() -> None:
    outcome = torment("--kills", "1000", "--plant")
    assert outcome.returncode == 1
    assert "was acknowledged" in outcome.stderr
