"""Slices of a checkpoint: which rows are in one, and what is done with each."""

import pytest

from epoxy.store.embedded.checksums import seal
from epoxy.store.embedded.slices import SLICE_BYTES, SLICE_ROWS, Slice, deal, sort_out

LONG = 511


def slices_of(values: dict[bytes, bytes]) -> list[Slice]:
    keys = sorted(values)
    taken: list[Slice] = []
    while not taken or taken[-1].end < len(keys):
        taken.append(Slice(keys, taken[-1].end if taken else 0, values, LONG))
    return taken


@pytest.mark.parametrize("rows", [0, 1, SLICE_ROWS - 1, SLICE_ROWS, SLICE_ROWS + 1, 3 * SLICE_ROWS])
def test_a_slice_has_so_many_rows_at_most(rows: int) -> None:
    values = {b"%06d" % number: b"%d" % number for number in range(rows)}
    taken = slices_of(values)
    assert len(taken) == max(1, -(-rows // SLICE_ROWS))
    assert max(len(each.rows) for each in taken) <= SLICE_ROWS
    assert [row for each in taken for row in each.rows] == [(key, seal(key, value)) for key, value in values.items()]


def test_a_slice_ends_with_the_row_that_makes_it_large() -> None:
    sizes = {b"a": SLICE_BYTES - 1, b"b": SLICE_BYTES, b"c": 1, b"d" * LONG: SLICE_BYTES, b"e": 1}
    assert [each.end for each in slices_of({key: bytes(size) for key, size in sizes.items()})] == [2, 4, 5]


def test_long_keys_are_apart() -> None:
    keys = [b"k" * (LONG - 1), b"k" * LONG, b"k" * 1000]
    part = Slice(keys, 0, dict.fromkeys(keys, b"v"), LONG)
    assert [key for key, _ in part.rows] == keys[:1]
    assert part.long == keys[1:]


def test_rows_are_told_apart() -> None:
    written, cleared = [b"a"], [b"b"]
    sort_out([(b"c", None), (b"d", b""), (b"e", b"v")], written, cleared)
    assert (written, cleared) == ([b"a", b"d", b"e"], [b"b", b"c"])


def test_keys_are_dealt_into_the_ranges_between_the_bounds() -> None:
    ranges: list[list[bytes]] = [[b"0"], [], [], []]
    deal([b"a", b"b", b"c", b"f", b"g"], [b"b", b"d", b"e"], ranges)
    assert ranges == [[b"0", b"a"], [b"b", b"c"], [], [b"f", b"g"]]
