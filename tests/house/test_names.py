"""One name for one thing: class names are defined once, and module names use the field's words or the glossary's.

Every judge below is shown a planted fault as well.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.house.test_house import ROOT

PACKAGES = ("epoxy", "epoxy_sim")

OUTCOMES = {"ConsensusFailed", "ImmutableKey", "NotAnInteger", "VersionMismatch"}
"""One thing in two forms: `model/writes.py` has the outcome of a write as a value, `model/errors.py` the exception that
carries the same name and the same meaning to a caller of the client library."""

OUTCOME_FILES = {"epoxy/model/errors.py", "epoxy/model/writes.py"}

TWO_FORMS = {"Response": {"epoxy/client/hosted/requests.py", "epoxy/model/envoy_messages.py"}}
"""An actor's answer as its code gives it, and as a message."""


def package_sources(package: str) -> dict[str, str]:
    """The text of every module of a package, by its path below src/."""
    src = ROOT / "src"
    return {str(path.relative_to(src)): path.read_text("utf-8") for path in sorted((src / package).rglob("*.py"))}


def doubles(modules: Mapping[str, str]) -> dict[str, list[str]]:
    """Public class names that more than one class statement defines, with the modules that do."""
    found = defaultdict(list)
    for name, text in modules.items():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(name)
    return {
        name: places
        for name, places in found.items()
        if len(places) > 1 and set(places) != (OUTCOME_FILES if name in OUTCOMES else TWO_FORMS.get(name))
    }


@pytest.mark.parametrize("package", PACKAGES)
def test_a_public_class_name_is_defined_once_in_its_package(package: str) -> None:
    modules = package_sources(package)
    assert len(modules) > 50
    assert doubles(modules) == {}


def test_a_class_name_that_is_defined_twice_is_seen() -> None:
    modules = {"a.py": "class Step: ...\nclass _Own: ...\n", "b.py": "class Step: ...\nclass _Own: ...\n"}
    assert doubles(modules) == {"Step": ["a.py", "b.py"]}
    assert doubles(dict.fromkeys(OUTCOME_FILES, "class ConsensusFailed: ...\n")) == {}
    assert doubles(dict.fromkeys(("epoxy/model/errors.py", "x.py"), "class ConsensusFailed: ...\n")) != {}


def words_of_path(path: str) -> set[str]:
    """The words in the names of a module and of the packages around it: `a/key_count.py` has a, key, count."""
    return set(re.findall(r"[a-z0-9]+", path.removesuffix(".py").replace("_", " ")))


def glossary_words(text: str) -> set[str]:
    """Every word in the first column of the glossary's tables."""
    return {word for cell in re.findall(r"^\| ([^|]+) \|", text, re.MULTILINE) for word in _words(cell)}


def field_words(text: str) -> set[str]:
    return {word for line in text.splitlines() if not line.startswith("#") for word in line.split()}


def _words(cell: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", cell.lower())


def known(word: str, vocabulary: set[str]) -> bool:
    """A plural counts as its singular."""
    return word in vocabulary or (word.endswith("s") and word[:-1] in vocabulary)


def unknown_words(paths: list[str], vocabulary: set[str]) -> dict[str, set[str]]:
    unknown = {path: {word for word in words_of_path(path) if not known(word, vocabulary)} for path in paths}
    return {path: words for path, words in unknown.items() if words}


def test_module_names_use_words_of_the_field_or_of_the_glossary() -> None:
    plain = field_words((Path(__file__).parent / "field_words.txt").read_text("utf-8"))
    house = glossary_words((ROOT / "docs" / "glossary.md").read_text("utf-8"))
    paths = [path for package in PACKAGES for path in package_sources(package)]
    assert unknown_words(paths, plain | house) == {}, (
        "rename it, explain the word in docs/glossary.md, or field_words.txt"
    )


def test_a_module_name_that_is_a_riddle_is_seen() -> None:
    vocabulary = field_words("# words\nkey count\n") | glossary_words("| word | meaning |\n|---|---|\n| ballot | x |\n")
    assert unknown_words(["keys/ballot_count.py", "keys/steward.py"], vocabulary) == {"keys/steward.py": {"steward"}}
