"""docs/architecture.md: what the walk of a write names exists in the code."""

import ast
import re
from functools import cache
from pathlib import Path

from tests.house.test_house import ROOT

SOURCES = ROOT / "src" / "epoxy"
FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)


@cache
def defined() -> frozenset[str]:
    """Classes, `Class.method` and `module.function` of the product."""
    names = set()
    for path in SOURCES.rglob("*.py"):
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.ClassDef):
                names |= {node.name} | {
                    f"{node.name}.{inner.name}" for inner in node.body if isinstance(inner, FUNCTION)
                }
            elif isinstance(node, FUNCTION):
                names.add(f"{path.stem}.{node.name}")
    return frozenset(names)


def walk_of(page: str) -> str:
    return page.partition("## A write walks\n")[2].partition("\n## ")[0]


def unknown_names(walk: str) -> set[str]:
    """`module.function`, `Class.method` and `Effect(Operation)` that are not defined anywhere."""
    dotted = re.findall(r"(?<![\w/])(\w+\.\w+)(?!\w|/)", walk)
    classes = [name for pair in re.findall(r"\b([A-Z]\w+)\((\w*)\)", walk) for name in pair if name]
    return {name for name in [*dotted, *classes] if not name.endswith((".py", ".md"))} - defined()


def missing_files(walk: str) -> list[str]:
    return [name for name in re.findall(r"(?<![\w/])[\w/]+/\w+\.py", walk) if not (SOURCES / name).is_file()]


def test_the_walk_of_a_write_is_true() -> None:
    walk = walk_of(Path(ROOT / "docs" / "architecture.md").read_text("utf-8"))
    assert "Driver.write" in walk
    assert unknown_names(walk) == set()
    assert missing_files(walk) == []


def test_a_name_that_is_gone_is_seen() -> None:
    walk = (
        "Driver.write node/keys/driver.py, Driver.wrote, local.select, home.select, Local(Select), Home(Select) a/b.py"
    )
    assert unknown_names(walk) == {"Driver.wrote", "home.select", "Home"}
    assert missing_files(walk) == ["a/b.py"]
