"""Compiled or interpreted: which of the two runs, who says so, and that it makes no difference."""

import json
import os
import re
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from shutil import copytree

import pytest

import epoxy
from epoxy.cli.main import run
from epoxy.cli.sim import parameters

TESTS = Path(__file__).resolve().parents[1]
WHICH = """import epoxy; from importlib.util import find_spec
print(epoxy.__compiled__, find_spec('epoxy.node.keys.driver').origin)"""


def python(*words: str, **environment: str) -> str:
    ran = subprocess.run(
        [sys.executable, *words], env={**os.environ, **environment}, capture_output=True, text=True, check=True
    )
    return ran.stdout.strip()


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """The package with something compiled in it: a file that is never loaded, only looked for."""
    copytree(Path(epoxy.__file__).parent, tmp_path / "epoxy")
    driver = tmp_path / "epoxy" / "node" / "keys" / f"driver{EXTENSION_SUFFIXES[0]}"
    driver.touch()
    return tmp_path


def test_a_compiled_module_goes_before_its_source(installed: Path) -> None:
    compiled, origin = python("-c", WHICH, PYTHONPATH=str(installed), EPOXY_PURE="").split()
    assert compiled == "True"
    assert origin.endswith(EXTENSION_SUFFIXES[0])


def test_the_source_may_be_asked_for(installed: Path) -> None:
    told = python("-c", WHICH, PYTHONPATH=str(installed), EPOXY_PURE="1")
    assert told == f"False {installed / 'epoxy' / 'node' / 'keys' / 'driver.py'}"


def test_other_packages_keep_what_they_have_compiled() -> None:
    assert python("-c", "import epoxy, msgspec._core as core; print(core.__file__)", EPOXY_PURE="1").endswith(".so")


def test_a_test_that_leaves_the_compiled_package_out_says_why() -> None:
    marks = [
        mark for file in TESTS.rglob("*.py") for mark in re.findall(r"mark\.pure\b(.{0,9})", file.read_text("utf-8"))
    ]
    assert len(marks) > 20
    assert [mark for mark in marks if not re.match(r'\("\w', mark)] == []


COMMANDS = (
    "sim as-described",
    "sim per-key --mutant cache-miss",
    "sim exhaustive --mutant no-behind",
    "sim mutants --check",
)


@pytest.mark.parametrize("words", COMMANDS)
def test_faults_are_not_planted_where_they_would_do_nothing(
    words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(parameters, "__compiled__", True)
    assert run(words.split()) == 1
    told = capsys.readouterr().err
    assert told == "epoxy: no fault can be planted in compiled code: set EPOXY_PURE=1 to run the sources\n"


@pytest.mark.parametrize("workload", ["per-key", "mutable"])
def test_whichever_runs_a_seed_tells_the_same_story(workload: str) -> None:
    """Against a compiled package this compares the two. A digest covers all that clients were told."""
    words = ("-m", "epoxy", "sim", workload, "--seeds", "0..48", "--jobs", "1", "--json")
    chosen, interpreted = json.loads(python(*words)), json.loads(python(*words, EPOXY_PURE="1"))
    assert chosen["digest"] is not None
    assert chosen["digest"] == interpreted["digest"]
