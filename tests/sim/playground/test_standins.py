"""The playground runs with nothing installed: in a process that has the archive and the standard library."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from epoxy.api.console import sources
from epoxy_sim.playground.chase import run_seed, shortest
from epoxy_sim.playground.commands import plain
from epoxy_sim.playground.standins import AbsentModule

PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
from epoxy_sim.playground import standins
standins.install()
from epoxy_sim.playground.commands import Playground
playground = Playground()
for line in sys.stdin:
    print(playground.answer(line))
files = [str(getattr(module, "__file__", "")) for module in sys.modules.values()]
outside = [file for file in files if "site-packages" in file]
assert outside == [], outside
"""


def test_the_archive_alone_gives_the_same_answers(tmp_path: Path) -> None:
    archive = tmp_path / "epoxy.zip"
    archive.write_bytes(sources.archive())
    asked = [
        {"do": "run", "seed": 0},
        {"do": "run", "seed": 4},
        {"do": "run", "seed": 2, "workload": "hot"},
        {"do": "run", "seed": 0, "mutant": "two-fast-votes"},
        {"do": "shrink", "seed": 84, "mutant": "own-vote-missing"},
    ]
    lines = "".join(json.dumps(request) + "\n" for request in asked)
    command = [sys.executable, "-I", "-S", "-c", PROGRAM, str(archive)]
    ended = subprocess.run(command, input=lines, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    answers = [json.loads(line)["ok"] for line in ended.stdout.splitlines()]
    here = [
        run_seed(0),
        run_seed(4),
        run_seed(2, workload="hot"),
        run_seed(0, mutant="two-fast-votes"),
        shortest(84, mutant="own-vote-missing"),
    ]
    assert answers == json.loads(json.dumps([plain(each) for each in here]))


def test_an_absent_module_has_names_and_does_nothing() -> None:
    absent = AbsentModule("lmdb")
    assert issubclass(absent.Error, Exception)
    with pytest.raises(NotImplementedError, match=r"lmdb\.open is not part of the playground"):
        absent.open("x")
    with pytest.raises(AttributeError):
        absent.__path__  # noqa: B018
