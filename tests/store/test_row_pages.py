"""Stretches of rows and the pages that differ: a reader that follows them ends with all that the source holds."""

from random import Random

import pytest

from epoxy.model.members import MAX_PAGE_BYTES, HeldPage
from epoxy.model.records import ChangelogEntry, KeyState, Proposal, ProposalId
from epoxy.store.keyspace import Keyspace
from epoxy.store.memory import MemoryStore
from epoxy.store.row_pages import HeldSpace

A, B = 1, 300
"""Their ids take one byte and two: the rows' keys have other lengths."""


class Place:
    def __init__(self, me: int) -> None:
        self.store = MemoryStore()
        self.keyspace = Keyspace(me)
        self.held = HeldSpace(me)
        self.held.stretch_rows, self.held.page_rows = 3, 8

    def commit(self, key: bytes, version: int = 1, *, value: bytes = b"v") -> None:
        committed = Proposal(value=value, version=version, mutable=True, proposal_id=ProposalId(1, version))

        def body(tx: object) -> None:
            before = self.keyspace.load(tx, key)  # type: ignore[arg-type]
            if before.version < version:
                self.keyspace.save(tx, key, before, KeyState(committed=committed))  # type: ignore[arg-type]

        self.store.transact(body)

    def versions(self) -> dict[bytes, int]:
        view = self.store.newest()
        return {key: committed.version for key, committed in self.keyspace.everything(view, b"", None)}


def bring(reader: Place, source: Place, stretches: int = 4) -> list[HeldPage]:
    """As a backup does."""
    pages: list[HeldPage] = []
    after: bytes | None = None
    while not pages or pages[-1].through is not None:
        held = reader.held.stretches(reader.store.newest(), after, stretches)
        pages.append(source.held.page(source.store.newest(), after, held))
        for entry in pages[-1].entries:
            reader.commit(entry.key, entry.committed.version)
        after = pages[-1].through
        assert len(pages) < 100, "it moves on"
    return pages


@pytest.mark.parametrize("seed", range(40))
def test_a_reader_ends_with_all_that_the_source_holds(seed: int) -> None:
    dice = Random(seed)
    reader, source = Place(A), Place(B)
    for _ in range(dice.randrange(60)):
        key = b"%d" % dice.randrange(30) + b"\x00" * dice.randrange(2)
        dice.choice((reader, source)).commit(key, dice.randrange(1, 4))
    mine, theirs = reader.versions(), source.versions()
    pages = bring(reader, source, dice.randrange(1, 5))
    expected = {key: max(mine.get(key, 0), theirs.get(key, 0)) for key in mine.keys() | theirs.keys()}
    assert reader.versions() == expected
    assert all(len(page.entries) <= source.held.page_rows for page in pages)


def test_equal_rows_are_not_sent_and_one_that_differs_brings_its_stretch_alone() -> None:
    reader, source = Place(A), Place(B)
    for number in range(20):
        reader.commit(b"%02d" % number)
        source.commit(b"%02d" % number)
    assert [page.entries for page in bring(reader, source)] == [(), ()]
    source.commit(b"07", 2)
    sent: list[ChangelogEntry] = [entry for page in bring(reader, source) for entry in page.entries]
    assert [entry.key for entry in sent] == [b"06", b"07", b"08"]


def test_equal_long_values_are_not_sent() -> None:
    """Three of them are more than a page."""
    reader, source = Place(A), Place(B)
    for number in range(12):
        for place in (reader, source):
            place.commit(b"%02d" % number, value=bytes(MAX_PAGE_BYTES // 2 - 1000))
    assert [page.entries for page in bring(reader, source)] == [()] * 3


def test_a_page_ends_when_its_values_are_long() -> None:
    reader, source = Place(A), Place(B)
    for number in range(3):
        source.commit(b"%d" % number, value=bytes(1 << 20))
    assert [len(page.entries) for page in bring(reader, source)] == [1, 1, 1]
