"""Texts name a mechanism, not a person: `whoever` and `nobody` stand for a subject that the sentence should name."""

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from tests.house.test_house import ROOT

PERSONS = re.compile(r"whoever|nobody", re.IGNORECASE)
"""Identifiers and strings included."""

LIMITS = {
    "docs/decisions/0005-store-port.md": 2,
    "docs/decisions/0011-transport.md": 2,
    "docs/decisions/0013-embedded-store.md": 6,
    "docs/decisions/0014-ready-answers.md": 2,
    "docs/decisions/0020-frames-between-peers.md": 2,
    "docs/operating-elect.md": 4,
    "docs/protocol/http.md": 1,
    "docs/testing.md": 1,
    "src/epoxy/api/http": 1,
    "src/epoxy/protocol/members": 1,
    "src/epoxy_sim/placement": 1,
}
"""What is left, by room. Numbers fall, none rises."""


def read_texts() -> dict[str, str]:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    paths = [*pages, *(ROOT / "src").rglob("*.py")]
    return {str(path.relative_to(ROOT)): path.read_text("utf-8") for path in paths}


def room_of(name: str) -> str:
    """The package of a module; a page counts by itself."""
    return str(Path(name).parent) if name.startswith("src/") else name


def persons(texts: Mapping[str, str]) -> Counter[str]:
    counts = Counter[str]()
    for name, text in texts.items():
        counts[room_of(name)] += len(PERSONS.findall(text))
    return +counts


def over_limit(counts: Mapping[str, int], limits: Mapping[str, int]) -> dict[str, int]:
    return {room: count for room, count in counts.items() if count > limits.get(room, 0)}


def test_sentences_have_the_mechanism_as_their_subject() -> None:
    texts = read_texts()
    assert {"README.md", "src/epoxy/ports.py", "docs/protocol/per-key.md"} <= texts.keys()
    assert over_limit(persons(texts), LIMITS) == {}


def test_a_person_where_a_mechanism_should_be_is_seen() -> None:
    texts = {"src/a/b.py": "# Nobody asks.\nwhoever_asks = 1\n", "src/a/c.py": "'nobody'", "docs/d.md": "anybody"}
    assert persons(texts) == {"src/a": 3}
    assert over_limit(persons(texts), {"src/a": 2}) == {"src/a": 3}
    assert over_limit(persons(texts), {"src/a": 3}) == {}
