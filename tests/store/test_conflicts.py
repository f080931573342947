"""Which commits conflict with what a transaction has read."""

import pytest

from epoxy.store.conflicts import overlaps


@pytest.mark.parametrize(
    ("keys", "ranges", "changed", "conflict"),
    [
        ({b"a"}, [], {b"a": None}, True),
        ({b"a"}, [], {b"b": None}, False),
        (set(), [(b"a", b"c")], {b"b": None}, True),
        (set(), [(b"a", b"c")], {b"a": None}, True),
        (set(), [(b"a", b"c")], {b"c": None}, False),
        (set(), [], {b"a": None}, False),
        ({b"a"}, [(b"a", b"z")], {}, False),
    ],
)
def test_reads_conflict_with_later_commits(
    keys: set[bytes], ranges: list[tuple[bytes, bytes]], changed: dict[bytes, None], conflict: bool
) -> None:
    assert overlaps(keys, ranges, changed) is conflict
