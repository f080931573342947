"""Pages of an index beside rotten rows, in a store that checks the row that ends a range, too."""

from collections.abc import Sequence

import pytest

from epoxy.model.errors import RottenRow
from epoxy.ports import KeyValue
from epoxy.store.keyspace import rows_before_rot


class CheckingView:
    """As the embedded store reads: rows in order, and the first one beyond the end is looked at before it is left."""

    def __init__(self, rows: Sequence[bytes], rotten: bytes) -> None:
        self._rows, self._rotten = sorted(rows), rotten

    def get(self, key: bytes) -> bytes | None:
        raise NotImplementedError

    def range(self, begin: bytes, end: bytes, *, limit: int, reverse: bool = False) -> Sequence[KeyValue]:
        assert not reverse
        found: list[KeyValue] = []
        for row in self._rows:
            if row < begin:
                continue
            if len(found) == limit:
                break
            if row == self._rotten:
                raise RottenRow(row)
            if row >= end:
                break
            found.append((row, b""))
        return found


@pytest.mark.parametrize(
    ("rotten", "rows", "found"),
    [
        (b"c", [b"a", b"b"], b"c"),
        (b"x", [b"a", b"b", b"c", b"d"], None),
        (b"a", [], b"a"),
        (b"zz", [b"a", b"b", b"c", b"d"], None),
    ],
)
def test_rows_before_a_rotten_one_within_the_range_or_behind_it(
    rotten: bytes, rows: list[bytes], found: bytes | None
) -> None:
    view = CheckingView([b"a", b"b", b"c", b"d", b"x", b"zz"], rotten)

    assert rows_before_rot(view, b"a", b"m", 10) == ([(row, b"") for row in rows], found)
