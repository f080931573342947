"""The import contracts hold for the real tree under `make lint`; here they prove that they can break.

Each test builds a small package named `epoxy` in a temporary folder, with every room of the contracts in it, plants one
import and lets import-linter judge it by the contracts of our own pyproject.toml.
"""

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
LAYERS, PURITY, TERMINAL, LUA, CLIENT, PROTOCOLS, PRODUCT, SIMULATIONS, SIMULATOR = NAMES = [
    contract["name"] for contract in CONTRACTS
]
FORBIDDEN = CONTRACTS[1]["forbidden_modules"]
PURE = ("epoxy.model", "epoxy.codec", "epoxy.protocol")
ROOMS = {name for contract in CONTRACTS for name in contract.get("source_modules", ())}
PROTOCOL = ("keys", "txn", "members", "placement", "elect")
PARTS = [f"{package}.{name}" for package in ("epoxy.protocol", "epoxy_sim") for name in PROTOCOL]


def judge(folder: Path, planted: dict[str, str]) -> tuple[int, str]:
    """Exit status and report of import-linter for a tree whose rooms hold only what is planted."""
    for room in {"epoxy", "epoxy.cli", *ROOMS, *PARTS, *planted}:
        place = folder / room.replace(".", "/")
        place.mkdir(parents=True, exist_ok=True)
        (place / "__init__.py").write_text(planted.get(room, ""))
    linter = Path(sys.executable).with_name("lint-imports")
    command = [str(linter), "--config", str(ROOT / "pyproject.toml"), "--no-cache", "--no-logo"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def broken(report: str) -> set[str]:
    return {name for name in NAMES if f"{name} BROKEN" in report}


def test_a_tree_that_keeps_the_rules_is_accepted(tmp_path: Path) -> None:
    planted = {
        "epoxy.cli": "import click, time\nimport epoxy_sim",
        "epoxy_sim": "import random\nimport epoxy.node",
        "epoxy.node": "import epoxy.store, epoxy.codec, epoxy.protocol",
        "epoxy.protocol": "import epoxy.ports",
        "epoxy.ports": "import epoxy.model",
    }
    status, report = judge(tmp_path, planted)
    assert (status, broken(report)) == (0, set()), report


@pytest.mark.parametrize(
    ("planted", "contract"),
    [
        ({"epoxy.protocol": "import epoxy.node"}, LAYERS),
        ({"epoxy.model": "from epoxy.ports import __name__"}, LAYERS),
        ({"epoxy.agent": "import epoxy.server"}, LAYERS),
        ({"epoxy.attic": ""}, LAYERS),
        ({"epoxy.store": "import rich"}, TERMINAL),
        ({"epoxy.server": "import lupa"}, LUA),
        ({"epoxy.client": "import epoxy_sim"}, CLIENT),
        ({"epoxy.protocol.keys": "import epoxy.protocol.members"}, PROTOCOLS),
        ({"epoxy.server": "import epoxy_sim"}, PRODUCT),
        ({"epoxy_sim": "import epoxy.api"}, SIMULATOR),
        ({"epoxy_sim.keys": "import epoxy_sim.members"}, SIMULATIONS),
        ({"epoxy_sim.campaign": "import epoxy_sim.keys"}, SIMULATIONS),
        ({"epoxy_sim.elect": "import epoxy_sim.keys"}, SIMULATIONS),
    ],
    ids=[
        "upwards",
        "the lowest room looks up",
        "siblings",
        "a room without a place",
        "terminal",
        "lua",
        "client",
        "protocols",
        "product",
        "simulator",
        "keys know of members",
        "what is shared knows of a protocol",
        "elections know of keys",
    ],
)
def test_a_planted_import_breaks_its_contract(tmp_path: Path, planted: dict[str, str], contract: str) -> None:
    status, report = judge(tmp_path, planted)
    assert status == 1
    assert contract in broken(report), report


def test_every_impure_module_is_caught_in_every_pure_room(tmp_path: Path) -> None:
    status, report = judge(tmp_path, dict.fromkeys(PURE, "".join(f"import {name}\n" for name in FORBIDDEN)))
    assert (status, broken(report)) == (1, {PURITY}), report
    missed = [
        (room, name) for room in PURE for name in FORBIDDEN if f"{room} is not allowed to import {name}" not in report
    ]
    assert not missed, report


def imports_simulator(source: str) -> bool:
    nodes = list(ast.walk(ast.parse(source)))
    named = {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    named |= {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    return any(name.split(".")[0] == "epoxy_sim" for name in named)


def test_of_the_command_line_only_its_simulation_commands_import_the_simulator() -> None:
    modules = [path for path in (ROOT / "src" / "epoxy").rglob("*.py") if imports_simulator(path.read_text("utf-8"))]
    assert modules
    assert {path.parent.relative_to(ROOT / "src") for path in modules} == {Path("epoxy/cli/sim")}
    assert imports_simulator("from epoxy_sim.world import World\n")
    assert not imports_simulator("import epoxy_similar\n")
