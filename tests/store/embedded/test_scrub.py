"""The scrub: every kind of damage that a read can miss, and pages that follow each other."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from epoxy.store.embedded import scrub
from epoxy.store.embedded.checksums import seal
from epoxy.store.embedded.log import LogPosition
from epoxy.store.embedded.scrub import PAGE_BYTES, ScrubPage, verify
from epoxy.store.embedded.tree import BRANCHES_ROW, LENGTH_ROW, POSITION_ROW, STEM_BYTES, Tree, TreeView, encoder
from tests.store.rot import rot, rot_separator

START = LogPosition(generation=6)
STEM = b"s" * STEM_BYTES
ROWS: dict[bytes, bytes | None] = {
    **{b"%04d" % number: b"value %04d" % number for number in range(500)},
    **{STEM + b"/%d" % number: b"long %d" % number for number in range(5)},
    STEM * 2 + b"/x": b"longer",
    b"t": b"the last",
}
STEMS = (STEM, STEM * 2)
NOTES = (POSITION_ROW, BRANCHES_ROW, LENGTH_ROW)


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[Tree]:
    tree = Tree(tmp_path)
    tree.apply(ROWS, START)
    yield tree
    tree.close()


def pages(view: TreeView, limit: int) -> list[ScrubPage]:
    found = [verify(view, b"", limit)]
    while (last := found[-1].last) is not None:
        found.append(verify(view, last, limit))
    return found


def rotten(tree: Tree) -> list[bytes]:
    return [key for page in pages(tree.view(), 100) for key in page.rotten]


@pytest.mark.parametrize("limit", [1, 7, 1000])
def test_all_rows_are_read_once(tree: Tree, limit: int) -> None:
    found = pages(tree.view(), limit)
    assert sum(page.rows for page in found) == len(ROWS) + len(STEMS) + len(NOTES)
    assert all(page.rows <= limit for page in found)
    assert all(page.rotten == () for page in found)


def test_a_page_of_long_values_ends_early(tree: Tree) -> None:
    tree.apply({b"u%d" % number: bytes(PAGE_BYTES // 2) for number in range(4)}, START)
    assert max(page.bytes for page in pages(tree.view(), 1000)) < 2 * PAGE_BYTES


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        (b"value 0123", b"0123"),
        (b"long 3", STEM + b"/3"),
        (b"longer", STEM * 2 + b"/x"),
        (seal(STEM, bytes(7) + b"\x01"), STEM),
        (seal(BRANCHES_ROW, bytes(7) + b"\x02"), BRANCHES_ROW),
        (encoder.encode(START), POSITION_ROW),
    ],
)
def test_a_damaged_value_is_found(tree: Tree, tmp_path: Path, place: bytes, expected: bytes) -> None:
    rot(tmp_path, place)
    assert rotten(tree) == [expected]


@pytest.mark.parametrize("bit", range(8))
def test_a_damaged_key_is_found_and_so_are_the_rows_behind_it(tree: Tree, tmp_path: Path, bit: int) -> None:
    """A lookup misses it; and with its first bit turned it stands among the tree's own rows."""
    rot(tmp_path, b"0123", bit)
    rot(tmp_path, b"value 0321")
    found = rotten(tree)
    assert b"0321" in found
    assert bytes((ord("0") ^ 1 << bit,)) + b"123" in found


def test_a_page_above_the_rows_that_leads_astray_is_found(tmp_path: Path) -> None:
    """A separator of a branch page has changed: rows are sound, and lookups go to the wrong leaf."""
    tree = Tree(tmp_path)
    tree.apply({b"row/%05d" % number: b"v" * 100 for number in range(2000)}, START)
    rot_separator(tmp_path, b"row/", 4, bit=2)
    lost = [b"row/%05d" % number for number in range(2000) if tree.view().get(b"row/%05d" % number) is None]
    assert lost
    assert rotten(tree) == lost
    tree.close()


def test_a_scrub_without_checksums_would_find_nothing(
    tree: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scrub, "unseal", lambda _, sealed: sealed[8:])
    rot(tmp_path, b"value 0123")
    assert rotten(tree) == []
