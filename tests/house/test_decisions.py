"""Decision records: those that were overtaken say so on top, and the newer record names the older one."""

import re
from collections.abc import Mapping

from tests.house.test_house import ROOT

FOLDER = ROOT / "docs" / "decisions"
LINK = r"\[(\d{4})\]\((\d{4}-[\w-]+\.md)\)"


def records() -> dict[str, str]:
    """The text of each record, by its file name."""
    return {path.name: path.read_text("utf-8") for path in sorted(FOLDER.glob("[0-9]*.md"))}


def top(text: str) -> str:
    """What stands before the context."""
    return text.partition("## Context")[0]


def changed_by(text: str) -> list[str]:
    """The records that the top of this one names as its changes: `Changed by [A](...): x; and by [B](...): y`."""
    return [file for _, file in re.findall(rf"\b(?:[Cc]hanged|[Rr]eplaced|and) by {LINK}", top(text))]


def changes(text: str) -> list[str]:
    """The older records that the top of this one names after `Changes` or `Replaces`, up to the end of the sentence."""
    sentences = re.findall(r"\b(?:Changes|Replaces) (.*?)(?:\. |\.\n|$)", top(text), re.DOTALL)
    return [file for sentence in sentences for _, file in re.findall(LINK, sentence)]


def one_sided(texts: Mapping[str, str]) -> list[str]:
    """Marks that lead nowhere, to an older record, or to one that does not know of it."""
    unanswered = [
        f"{name} is changed by {newer}"
        for name, text in texts.items()
        for newer in changed_by(text)
        if newer <= name or f"]({name})" not in texts.get(newer, "")
    ]
    unmarked = [
        f"{name} changes {older}"
        for name, text in texts.items()
        for older in changes(text)
        if older >= name or f"]({name})" not in top(texts.get(older, ""))
    ]
    return unanswered + unmarked


def test_overtaken_records_and_what_overtook_them_point_at_each_other() -> None:
    texts = records()
    assert sum(bool(changed_by(text)) for text in texts.values()) > 5
    assert one_sided(texts) == []


def test_a_mark_on_one_side_alone_is_seen() -> None:
    texts = {
        "0001-a.md": "Status: accepted. Changed by [0002](0002-b.md): x; and by [0003](0003-c.md): y.\n## Context\n",
        "0002-b.md": "Status: accepted. Changes [0001](0001-a.md).\n## Context\n",
        "0003-c.md": "Status: accepted.\n## Context\n",
        "0004-d.md": "Changes x of [0003](0003-c.md), and [0001](0001-a.md). See [0002](0002-b.md).\n",
    }
    assert one_sided(texts) == [
        "0001-a.md is changed by 0003-c.md",
        "0004-d.md changes 0003-c.md",
        "0004-d.md changes 0001-a.md",
    ]


def missing_packages(table: str, asked: str) -> set[str]:
    """Packages that are asked for and have no row that says why."""
    names = {re.split(r"[^\w-]", line)[0] for line in asked.splitlines() if line[:1].isalpha()}
    rows = {name for cell in re.findall(r"^\| ([^|]+) \|", table, re.MULTILINE) for name in re.findall(r"[\w-]+", cell)}
    return names - rows


def test_every_package_of_the_product_earns_its_place() -> None:
    table = (FOLDER / "0002-dependencies-and-pinning.md").read_text("utf-8")
    for pins in ("run", "dev"):
        lines = (ROOT / "requirements" / f"{pins}.in").read_text("utf-8")
        assert missing_packages(table, lines) == set()
    assert missing_packages("| click, rich | why |\n", "click\nlmdb>=1 ; x\n# why\n") == {"lmdb"}
