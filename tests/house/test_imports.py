"""The import contracts hold for the real tree under `make lint`; here they prove that they can break.

Each test builds a small package named `epoxy` in a temporary folder, with every room of the contracts in it, plants one
import and lets import-linter judge it by the contracts of our own pyproject.toml.
"""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
LAYERS, PURITY, TERMINAL, CLIENT = (contract["name"] for contract in CONTRACTS)
FORBIDDEN = CONTRACTS[1]["forbidden_modules"]
PURE = ("model", "codec", "consensus", "membership", "ordered", "elect", "placement")
ROOMS = ("cli", "sim", "server", "node", "transport", "store", "client", "ports", *PURE)


def judge(folder: Path, planted: dict[str, str]) -> tuple[int, str]:
    """Exit status and report of import-linter for a tree whose rooms hold only what is planted."""
    for room in {*ROOMS, *planted}:
        (folder / "epoxy" / room).mkdir(parents=True)
        (folder / "epoxy" / room / "__init__.py").write_text(planted.get(room, ""))
    (folder / "epoxy" / "__init__.py").touch()
    linter = Path(sys.executable).with_name("lint-imports")
    command = [str(linter), "--config", str(ROOT / "pyproject.toml"), "--no-cache", "--no-logo"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def broken(report: str) -> set[str]:
    return {name for name in (LAYERS, PURITY, TERMINAL, CLIENT) if f"{name} BROKEN" in report}


def test_a_tree_that_keeps_the_rules_is_accepted(tmp_path: Path) -> None:
    planted = {
        "cli": "import click, time\nimport epoxy_sim",
        "sim": "import random\nimport epoxy.node",
        "node": "import epoxy.store, epoxy.codec, epoxy.protocol.keys",
        "consensus": "import epoxy.ports",
        "ports": "import epoxy.model",
    }
    status, report = judge(tmp_path, planted)
    assert (status, broken(report)) == (0, set()), report


@pytest.mark.parametrize(
    ("planted", "contract"),
    [
        ({"consensus": "import epoxy.node"}, LAYERS),
        ({"model": "from epoxy.ports import __name__"}, LAYERS),
        ({"sim": "import epoxy.server"}, LAYERS),
        ({"attic": ""}, LAYERS),
        ({"store": "import rich"}, TERMINAL),
        ({"client": "import epoxy.protocol.keys"}, CLIENT),
    ],
    ids=["upwards", "the lowest room looks up", "siblings", "a room without a place", "terminal", "client"],
)
def test_a_planted_import_breaks_its_contract(tmp_path: Path, planted: dict[str, str], contract: str) -> None:
    status, report = judge(tmp_path, planted)
    assert (status, broken(report)) == (1, {contract}), report


def test_every_impure_module_is_caught_in_every_pure_room(tmp_path: Path) -> None:
    status, report = judge(tmp_path, dict.fromkeys(PURE, "".join(f"import {name}\n" for name in FORBIDDEN)))
    assert (status, broken(report)) == (1, {PURITY}), report
    missed = [
        (room, name)
        for room in PURE
        for name in FORBIDDEN
        if f"epoxy.{room} is not allowed to import {name}" not in report
    ]
    assert not missed, report
