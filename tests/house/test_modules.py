"""Modules fit a reader's head, and each that decides something has a test file of its own."""

import ast
from pathlib import Path

from tests.house.test_house import ROOT

SRC = ROOT / "src"
MOST_LINES = 500
GENERATED = {"epoxy/codec/epoxy_v4.py"}

DECISIONS = (ast.If, ast.IfExp, ast.For, ast.AsyncFor, ast.While, ast.Match, ast.Try, ast.comprehension, ast.BoolOp)


def long_files(sizes: dict[str, int]) -> list[str]:
    return [name for name, lines in sizes.items() if lines > MOST_LINES and name not in GENERATED]


def test_no_module_is_longer_than_a_reader_can_hold() -> None:
    paths = sorted(SRC.rglob("*.py"))
    sizes = {str(path.relative_to(SRC)): len(path.read_text("utf-8").splitlines()) for path in paths}
    assert sizes.keys() >= GENERATED
    assert long_files(sizes) == []


def test_a_long_module_is_seen() -> None:
    sizes = {"a.py": MOST_LINES, "b.py": MOST_LINES + 1, "epoxy/codec/epoxy_v4.py": 3000}
    assert long_files(sizes) == ["b.py"]


def holds_rule(source: str) -> bool:
    """Whether some function of it decides or repeats something. Records, protocols and plain figures do not."""
    functions = [
        node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    return any(isinstance(node, DECISIONS) for function in functions for node in ast.walk(function))


def own_tests(module: str, root: Path = ROOT) -> list[Path]:
    """Test files named after a module (a path below src/epoxy/) in the mirrored folder. `test_x_more.py` counts too."""
    folder, stem = root / "tests" / Path(module).parent, Path(module).stem
    return [*folder.glob(f"test_{stem}.py"), *folder.glob(f"test_{stem}_*.py")]


def listed(name: str) -> dict[str, str]:
    """The lines of a list beside this file: a module, and what is said of it."""
    lines = (Path(__file__).parent / name).read_text("utf-8").splitlines()
    pairs = (line.partition(" ") for line in lines if line and not line.startswith("#"))
    return {module: said.strip() for module, _, said in pairs}


def modules_without_tests() -> set[str]:
    """Of the product. The simulator is test machinery itself: what checks it are the faults planted in it."""
    product = SRC / "epoxy"
    names = (str(path.relative_to(product)) for path in product.rglob("*.py") if path.name != "__init__.py")
    return {name for name in names if holds_rule((product / name).read_text("utf-8")) and not own_tests(name)}


def test_every_module_that_holds_a_rule_has_a_test_file_of_its_own() -> None:
    without = modules_without_tests() - listed("tested_elsewhere.txt").keys()
    assert without == set(), "write one, or add a line with the place and the reason to tested_elsewhere.txt"


def test_exempt_modules_exist_and_say_where_they_are_tested() -> None:
    for module, said in listed("tested_elsewhere.txt").items():
        assert (SRC / "epoxy" / module).is_file(), module
        place, _, reason = said.partition(" ")
        assert (ROOT / place).exists(), f"{module}: {place}"
        assert reason, module
        assert own_tests(module) == [], f"{module} has a test file of its own"


def test_a_rule_without_a_test_is_seen(tmp_path: Path) -> None:
    assert holds_rule("def f(x):\n    return 1 if x else 2\n")
    assert not holds_rule("class A:\n    x: int\n    def double(self):\n        return 2 * self.x\n")
    folder = tmp_path / "tests" / "node"
    folder.mkdir(parents=True)
    (folder / "test_driver_queue.py").touch()
    assert own_tests("node/driver.py", tmp_path)
    assert own_tests("node/drive.py", tmp_path) == []
