"""Two replicas that hold different things must not look the same."""

import pytest
from msgspec.structs import replace

from epoxy.model.members import DIGEST_BYTES
from epoxy.model.records import ChangelogEntry, Proposal, ProposalId
from epoxy.protocol.members.digest import NOTHING, digest, stretch

COMMITTED = Proposal(value=b"v", version=3, mutable=True, proposal_id=ProposalId(2, 99))


def entry(key: bytes, **changes: object) -> ChangelogEntry:
    return ChangelogEntry(key=key, committed=replace(COMMITTED, **changes))


@pytest.mark.parametrize(
    "other",
    [
        [entry(b"a", value=b"w"), entry(b"b")],
        [entry(b"a", value=b""), entry(b"b")],
        [entry(b"a", value=None), entry(b"b")],
        [entry(b"a", version=4), entry(b"b")],
        [entry(b"a", mutable=False), entry(b"b")],
        [entry(b"a", proposal_id=ProposalId(3, 99)), entry(b"b")],
        [entry(b"a", proposal_id=ProposalId(2, 98)), entry(b"b")],
        [entry(b"a")],
        [entry(b"b"), entry(b"a")],
        [entry(b"a"), entry(b"bb")],
        [entry(b"ab"), entry(b"")],
        [],
    ],
)
def test_whatever_differs_shows(other: list[ChangelogEntry]) -> None:
    assert digest(other) != digest([entry(b"a"), entry(b"b")])


def test_bytes_do_not_slide_from_one_entry_into_the_next() -> None:
    """A value that looks like the entry behind it."""
    first, second = entry(b"a", value=b""), entry(b"b")
    joined = entry(b"a", value=b"1 1 3 1 2 99 bv")
    assert digest([first, second]) != digest([joined])


def test_the_same_looks_the_same() -> None:
    held = stretch([entry(b"a"), entry(b"b")], b"b")
    assert held == stretch([entry(b"a"), entry(b"b")], b"b")
    assert (held.until, held.count, len(held.digest)) == (b"b", 2, DIGEST_BYTES)
    assert stretch([], None) == NOTHING
