"""Reading the tree to find rot: every row is checked, a page at a time, in the checkpoint's thread.

A row is sound if its checksum is right, it comes after the row before it, and a lookup from the root of the tree finds
it: so a damaged key, and a damaged page above the rows, are noticed here, while a lookup takes the row for absent. Rows
of long keys are found below their branches, stems and the tree's own notes among all others. A rotten stem stands for
all rows below it, which cannot be reached.
"""

from collections.abc import Iterator

from msgspec import Struct

from epoxy.store.embedded.checksums import ROTTEN, unseal
from epoxy.store.embedded.files import TreeTransaction
from epoxy.store.embedded.slices import SLICE_BYTES, SLICE_ROWS
from epoxy.store.embedded.tree import BRANCH, BRANCH_BYTES, STEM_BYTES, TreeView, give_way

PAGE_BYTES = 4 << 20
"""A page ends after so much, too: a checkpoint waits for it, some milliseconds beside a cold cache."""


class ScrubPage(Struct, frozen=True, kw_only=True):
    """`rotten`: whole keys. `last`: where the next page goes on, None: the end of the tree."""

    rotten: tuple[bytes, ...]
    last: bytes | None
    rows: int
    bytes: int


def verify(view: TreeView, after: bytes, limit: int) -> ScrubPage:
    """The rows after this one, at most so many; it ends with a sound row, since nothing is found from a damaged key.
    The interpreter's lock is released after each slice."""
    rows = size = sliced_rows = sliced_bytes = 0
    rotten: list[bytes] = []
    for row, length, is_sound in judged(view.transaction, after):
        rows, size = rows + 1, size + length
        if not is_sound:
            rotten.append(whole_key(view.transaction, row))
        elif rows >= limit or size >= PAGE_BYTES:
            return ScrubPage(rows=rows, bytes=size, rotten=tuple(rotten), last=row)
        if rows - sliced_rows >= SLICE_ROWS or size - sliced_bytes >= SLICE_BYTES:
            sliced_rows, sliced_bytes = rows, size
            give_way()
    return ScrubPage(rows=rows, bytes=size, rotten=tuple(rotten), last=None)


def judged(transaction: TreeTransaction, after: bytes) -> Iterator[tuple[bytes, int, bool]]:
    """LMDB's rows, their sizes, and whether they are sound."""
    cursor = transaction.cursor()
    if not cursor.set_range(after + b"\x00" if len(after) < STEM_BYTES else after):
        return
    before = after
    for row, sealed in cursor.iternext():
        is_right = unseal(row, sealed) is not ROTTEN
        if is_right and row <= after:
            # Where the page begins; or a damaged page led the cursor back.
            continue
        yield row, len(row) + len(sealed), is_right and row > before and transaction.get(row) == sealed
        if is_right:
            before = row


def whole_key(transaction: TreeTransaction, row: bytes) -> bytes:
    """The key of a row below a branch; the row itself if no stem leads there. Reads all rows to find the stem."""
    if not row.startswith(BRANCH):
        return row
    branch, rest = row[len(BRANCH) :][:BRANCH_BYTES], row[len(BRANCH) + BRANCH_BYTES :]
    cursor = transaction.cursor()
    if cursor.set_range(b"\x00"):
        for number, (stem, sealed) in enumerate(cursor.iternext()):
            if len(stem) == STEM_BYTES and unseal(stem, sealed) == branch:
                return whole_key(transaction, stem) + rest
            if number % SLICE_ROWS == 0:
                give_way()
    return row
