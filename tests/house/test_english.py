"""Texts name a mechanism, not a person: `whoever` and `nobody` stand for a subject that the sentence should name."""

import re
from collections.abc import Mapping

from tests.house.test_house import ROOT

PERSONS = re.compile(r"whoever|nobody(?!_left\b|-waits\b)", re.IGNORECASE)
"""Identifiers and strings included. `nobody_left` is an error code that clients compare, `nobody-waits` a mutant's name
that is typed on a command line: names of an interface stay."""


def read_texts() -> dict[str, str]:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    paths = [*pages, *(ROOT / "src").rglob("*.py")]
    return {str(path.relative_to(ROOT)): path.read_text("utf-8") for path in paths}


def persons(texts: Mapping[str, str]) -> dict[str, int]:
    """How often each text has one of the words."""
    counts = {name: len(PERSONS.findall(text)) for name, text in texts.items()}
    return {name: count for name, count in counts.items() if count}


def test_sentences_have_the_mechanism_as_their_subject() -> None:
    texts = read_texts()
    assert {"README.md", "src/epoxy/ports.py", "docs/protocol/per-key.md"} <= texts.keys()
    assert persons(texts) == {}


def test_a_person_where_a_mechanism_should_be_is_seen() -> None:
    texts = {"src/a.py": "# Nobody asks.\nwhoever_asks = 1\n", "src/b.py": "'nobody_left'", "docs/c.md": "anybody"}
    assert persons(texts) == {"src/a.py": 2}
