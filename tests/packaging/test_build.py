"""Wheels carry compiled modules, unless they are declined; a working copy never does."""

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from zipfile import ZipFile

import pytest

from epoxy.api.console import sources
from epoxy.api.console.assets import STATIC

ROOT = Path(__file__).resolve().parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
COMPILED: list[str] = PYPROJECT["tool"]["epoxy"]["compiled"]
NEEDED = ("setup.py", "pyproject.toml", "README.md", "LICENSE")
EAGER = {
    "Counter",
    "all",
    "any",
    "dict",
    "frozenset",
    "join",
    "list",
    "max",
    "min",
    "next",
    "set",
    "sorted",
    "sum",
    "tuple",
}
STATIC_FILES = {path.relative_to(STATIC).as_posix() for path in STATIC.rglob("*") if path.is_file()}
NO_COMPILER = "cc-that-is-nowhere"


def source(module: str) -> Path:
    return ROOT / "src" / Path(*module.split(".")).with_suffix(".py")


def records(text: str) -> list[str]:
    """Classes that hand words to their metaclass, as msgspec's records do. Compiled, they would lose them."""
    classes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ClassDef)]
    return [each.name for each in classes if each.keywords or "Struct" in map(ast.unparse, each.bases)]


def lazy_generators(text: str) -> list[int]:
    """Lines with a generator expression that is not used up on the spot. Compiled, it would be a list: made at once
    and whole, though the first rows of a million may be all that is wanted. A function that yields stays lazy."""
    tree = ast.parse(text)
    eager = {
        id(node.args[0])
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and node.args and name_of(node.func) in EAGER
    }
    found = [node for node in ast.walk(tree) if isinstance(node, ast.GeneratorExp)]
    return [node.lineno for node in found if id(node) not in eager]


def looked_at_again(text: str) -> list[int]:
    """Lines that look at an attribute which the same function has set to None, with a call in between. mypyc takes it
    for None still, whatever that call has made of it, and what then comes of a look is a TypeError."""
    functions = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)]
    return [line for function in functions for line in looks_again(function)]


def looks_again(function: ast.FunctionDef) -> list[int]:
    """In the order of the lines, branches not told apart."""
    emptied: dict[str, int] = {}
    called, found = 0, list[int]()
    for node in sorted((each for each in ast.walk(function) if hasattr(each, "lineno")), key=lambda each: each.lineno):
        match node:
            case ast.Assign(targets=targets, value=value):
                for name in map(ast.unparse, targets):
                    emptied.pop(name, None)
                    if isinstance(value, ast.Constant) and value.value is None:
                        emptied[name] = node.lineno
            case ast.Call():
                called = node.lineno
            case ast.Attribute(ctx=ast.Load()) if (name := ast.unparse(node)) in emptied:
                if emptied[name] < called < node.lineno:
                    found.append(node.lineno)
            case _:
                pass
    return found


def name_of(function: ast.expr) -> str:
    return ast.unparse(function).rpartition(".")[2]


@pytest.mark.parametrize("module", COMPILED)
def test_what_is_compiled_does_what_its_source_does(module: str) -> None:
    text = source(module).read_text("utf-8")
    assert records(text) == []
    assert lazy_generators(text) == []
    assert looked_at_again(text) == []
    assert "weakref" not in text, "what is compiled does not survive being held weakly"


@pytest.mark.parametrize(
    "planted", ["class A(Struct): ...", "class A(B, frozen=True): ...", "class A(metaclass=B): ..."]
)
def test_a_planted_record_is_seen(planted: str) -> None:
    assert records(f"class Plain(Base): ...\n{planted}") == ["A"]


@pytest.mark.parametrize("planted", ["rows = (row for row in found)", "islice((row for row in found), 3)"])
def test_a_planted_generator_is_seen(planted: str) -> None:
    assert lazy_generators(f"any(row for row in found)\n{planted}") == [2]


@pytest.mark.parametrize(
    ("planted", "lines"),
    [
        ("self.timer = None\n    self.run()\n    if self.timer is None: ...", [4]),
        ("self.timer = None\n    self.run()\n    self.timer = later()\n    self.timer.cancel()", []),
        ("self.run()\n    self.timer = None\n    return self.timer", []),
    ],
)
def test_a_planted_second_look_is_seen(planted: str, lines: list[int]) -> None:
    assert looked_at_again(f"def look(self):\n    {planted}") == lines


def foreign_imports(text: str) -> set[str]:
    """Packages of others that a module imports."""
    nodes = list(ast.walk(ast.parse(text)))
    named = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    named += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    return {name.partition(".")[0] for name in named} - sys.stdlib_module_names - {"epoxy"}


def test_what_compiled_modules_import_is_there_in_an_isolated_build() -> None:
    """Their types are read; without them the compiler refuses the module."""
    wanted = {re.split("[=>]", each)[0].removesuffix("-stubs") for each in PYPROJECT["build-system"]["requires"]}
    imported = set().union(*(foreign_imports(source(module).read_text("utf-8")) for module in COMPILED))
    assert {"msgspec", "httptools"} <= imported <= wanted
    assert foreign_imports("import os, lmdb.x\nfrom xxhash import a\nfrom epoxy.codec import bare") == {
        "lmdb",
        "xxhash",
    }


def test_the_list_is_in_order_within_each_room() -> None:
    rooms = dict.fromkeys(module.rpartition(".")[0] for module in COMPILED)
    for room in rooms:
        own = [module for module in COMPILED if module.rpartition(".")[0] == room]
        assert own == sorted(set(own))


def test_no_compiled_module_lies_among_the_sources() -> None:
    """It would be loaded instead of what one edits, and no fault could be planted in it."""
    assert [*(ROOT / "src").rglob("*.so"), *(ROOT / "src").rglob("*.pyd")] == []


def test_isolated_builds_use_the_compiler_that_was_tested() -> None:
    pinned = dict(re.findall(r"^([a-z0-9-]+)==(\S+)", (ROOT / "requirements/dev.txt").read_text("utf-8"), re.MULTILINE))
    wanted = PYPROJECT["build-system"]["requires"]
    assert f"mypy=={pinned['mypy']}" in wanted
    assert {re.split("[=>]", each)[0] for each in wanted} <= pinned.keys()


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A build writes beside its sources, so it gets sources of its own."""
    for name in NEEDED:
        shutil.copy(ROOT / name, tmp_path)
    for name in ("src", "requirements"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("*.egg-info", "__pycache__"))
    return tmp_path


def build(folder: Path, hook: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """As pip does it: the backend is asked from the project's folder, and it is the one that is pinned, whatever else
    stands in front of it for other tests."""
    code = f"from setuptools.build_meta import {hook}; {hook}('made')"
    (folder / "made").mkdir(exist_ok=True)
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": "", "EPOXY_PURE": "", **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_declined_compilation_makes_a_wheel_for_every_machine(copy: Path) -> None:
    made = build(copy, "build_wheel", EPOXY_PURE="1", CC=NO_COMPILER)
    assert made.returncode == 0, made.stderr
    (wheel,) = (copy / "made").iterdir()
    assert wheel.name.endswith("-py3-none-any.whl")
    names = ZipFile(wheel).namelist()
    assert {str(source(module).relative_to(ROOT / "src")) for module in COMPILED} <= set(names)
    assert {name for name, _ in sources.files() if name.startswith("epoxy")} <= set(names), "for the playground"
    assert {f"epoxy/api/console/static/{name}" for name in STATIC_FILES} <= set(names)
    assert [name for name in names if name.endswith((".so", ".pyd"))] == []


def test_an_editable_install_is_never_compiled(copy: Path) -> None:
    made = build(copy, "build_editable", CC=NO_COMPILER)
    assert made.returncode == 0, made.stderr
    (wheel,) = (copy / "made").iterdir()
    assert wheel.name.endswith(".editable-py3-none-any.whl")
    assert list(copy.rglob("*.so")) == []


def test_without_a_compiler_a_build_says_so_and_what_else_there_is(copy: Path) -> None:
    made = build(copy, "build_wheel", CC=NO_COMPILER)
    assert made.returncode == 1
    assert f"epoxy: no C compiler ({NO_COMPILER}): install one, or set EPOXY_PURE=1" in made.stderr
    assert list((copy / "made").iterdir()) == []


def test_without_mypy_a_build_says_so_and_what_else_there_is(copy: Path) -> None:
    (copy / "mypyc.py").write_text("")
    made = build(copy, "build_wheel", CC=sys.executable, PYTHONPATH=str(copy))
    assert made.returncode == 1
    assert "epoxy: no mypyc to compile with" in made.stderr
    assert "set EPOXY_PURE=1" in made.stderr
