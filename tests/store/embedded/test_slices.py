"""Slices of a checkpoint: which rows are in one, and what is done with each."""

import pytest

from epoxy.store.embedded.checksums import seal
from epoxy.store.embedded.slices import SLICE_BYTES, SLICE_ROWS, Slice, deal

LONG = 511


def slices_of(values: dict[bytes, bytes | None]) -> list[Slice]:
    keys = sorted(values)
    taken: list[Slice] = []
    while not taken or taken[-1].end < len(keys):
        taken.append(Slice(keys, taken[-1].end if taken else 0, values, LONG))
    return taken


@pytest.mark.parametrize("rows", [0, 1, SLICE_ROWS - 1, SLICE_ROWS, SLICE_ROWS + 1, 3 * SLICE_ROWS])
def test_a_slice_has_so_many_rows_at_most(rows: int) -> None:
    values: dict[bytes, bytes | None] = {b"%06d" % number: b"v" if number % 3 else None for number in range(rows)}
    taken = slices_of(values)
    assert len(taken) == max(1, -(-rows // SLICE_ROWS))
    assert max(len(each.sealed) + len(each.cleared) for each in taken) <= SLICE_ROWS
    assert [row for each in taken for row in each.sealed] == [(key, seal(key, b"v")) for key in values if values[key]]
    assert [key for each in taken for key in each.cleared] == [key for key in values if not values[key]]


def test_a_slice_ends_with_the_row_that_makes_it_long() -> None:
    values: dict[bytes, bytes | None] = {
        b"a": bytes(SLICE_BYTES - 1),
        b"b": bytes(SLICE_BYTES),
        b"c": b"v",
        b"d" * LONG: bytes(SLICE_BYTES),
        b"e": b"v",
    }
    assert [each.end for each in slices_of(values)] == [2, 4, 5]


def test_long_keys_are_apart_written_or_cleared() -> None:
    short, written, cleared = b"k" * (LONG - 1), b"k" * LONG, b"k" * 1000
    part = Slice([short, written, cleared], 0, {short: b"v", written: b"v", cleared: None}, LONG)
    assert [key for key, _ in part.sealed] == [short]
    assert part.cleared == []
    assert part.long == [written, cleared]


def test_keys_are_dealt_into_the_ranges_between_the_bounds() -> None:
    ranges: list[list[bytes]] = [[b"0"], [], [], []]
    deal([b"a", b"b", b"c", b"f", b"g"], [b"b", b"d", b"e"], ranges)
    assert ranges == [[b"0", b"a"], [b"b", b"c"], [], [b"f", b"g"]]
