"""Real processes whose power is cut. A process of its own forks them, under the shim."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.store.power_cuts import FIRST_CUTS, PLANTED

ROOT = Path(__file__).resolve().parents[2]


def torment(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.store.power_cuts", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def is_caught(outcome: subprocess.CompletedProcess[str]) -> bool:
    return outcome.returncode == 1 and any(word in outcome.stderr for word in ("acknowledged", "refused", "Refused"))


@pytest.mark.parametrize("lane", [[], ["--native"]], ids=["as it is", "native"])
def test_what_was_acknowledged_outlives_fifty_power_cuts(lane: list[str]) -> None:
    outcome = torment("--cuts", "50", *lane)
    assert outcome.stderr == ""
    assert outcome.stdout.startswith("held: 50 power cuts")
    assert outcome.returncode == 0


@pytest.mark.parametrize("fault", sorted(PLANTED))
def test_power_cuts_find_a_planted_fault(fault: str) -> None:
    """A tree is named once in the life of a data directory, so that fault needs many directories."""
    each = ["--each", str(FIRST_CUTS)] if fault == "tree-named-first" else []
    outcome = torment("--cuts", "1000", "--seed", "1", "--plant", fault, *each)
    assert is_caught(outcome)


def test_power_cuts_see_what_the_thread_in_c_writes() -> None:
    outcome = torment("--cuts", "1000", "--seed", "1", "--plant", "frames-not-synced", "--native")
    assert is_caught(outcome)
