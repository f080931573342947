"""What two replicas hold, compared for a backup: digests of rows as they are stored, in stretches, and pages of those
that differ.

Anti-entropy (`member_rows.py`) decodes every row for its digests. Here a row is not decoded unless its stretch differs,
which is several times as fast. Rows also hold the lineage, which may differ between replicas with the same decisions;
such a stretch is sent for nothing.
"""

from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b

from epoxy.codec import wire
from epoxy.codec.tuple import pack
from epoxy.model.members import DIGEST_BYTES, MAX_PAGE_BYTES, MAX_PAGE_ROWS, HeldPage, Stretch
from epoxy.model.records import ChangelogEntry
from epoxy.ports import KeyValue, Snapshot
from epoxy.store.keyspace import KV, LAYOUT, VALUE_OF_A_KEY, key_of, rows_of
from epoxy.store.member_rows import entry_bytes, fitting

HELD_ROWS = 256
"""In a stretch. To find its beginning costs as much as a hundred rows, and few stretches differ."""

STRETCH_BYTES = MAX_PAGE_BYTES // 2
"""At most, unless one value alone takes more. A longer stretch than a page has room for would be sent whether it
differs or not, and the keys behind it summarised again after each page of it."""


class HeldSpace:
    def __init__(self, replica_id: int) -> None:
        self._root = pack((LAYOUT, replica_id, KV))
        self.stretch_rows = HELD_ROWS
        self.page_rows = MAX_PAGE_ROWS

    def stretches(self, view: Snapshot, after: bytes | None, count: int) -> tuple[Stretch, ...]:
        """The keys beyond this one as stretches, at most `count`; the last is open-ended if no keys follow."""
        told: list[Stretch] = []
        part: list[KeyValue] = []
        size = 0
        for row in self._rows(view, after, None):
            if part and (len(part) == self.stretch_rows or size + row_bytes(row) > STRETCH_BYTES):
                told.append(self._stretch(part, open_ended=False))
                if len(told) == count:
                    return tuple(told)
                part, size = [], 0
            part.append(row)
            size += row_bytes(row)
        return (*told, self._stretch(part, open_ended=True))

    def page(
        self, view: Snapshot, after: bytes | None, held: Sequence[Stretch], begun: Sequence[ChangelogEntry] = ()
    ) -> HeldPage:
        """What is in stretches that differ from the reader's, within the limits of a page, which may have been `begun`;
        at least one entry, if there is any."""
        entries = list(begun)
        size = MAX_PAGE_BYTES - sum(map(entry_bytes, entries))
        for stretch in held:
            rows, more = fitting(self._rows(view, after, stretch.until), self.page_rows - len(entries), size, row_bytes)
            if entries and (more or len(entries) + len(rows) > self.page_rows):
                return HeldPage(entries=tuple(entries), through=after)
            if more or stretch.count != len(rows) or stretch.digest != self._digest(rows):
                entries += [self._entry(row, value) for row, value in rows]
                size -= sum(map(row_bytes, rows))
            if more:
                return HeldPage(entries=tuple(entries), through=entries[-1].key)
            after = stretch.until
        return HeldPage(entries=tuple(entries), through=after)

    def _rows(self, view: Snapshot, after: bytes | None, until: bytes | None) -> Iterator[KeyValue]:
        found = rows_of(view, self._root, b"", after, until)
        return ((row, value) for row, value in found if row.endswith(VALUE_OF_A_KEY))

    def _stretch(self, rows: Sequence[KeyValue], *, open_ended: bool) -> Stretch:
        until = None if open_ended else key_of(rows[-1][0], self._root)
        return Stretch(until=until, count=len(rows), digest=self._digest(rows))

    def _digest(self, rows: Iterable[KeyValue]) -> bytes:
        """Of rows without their root, which names the replica; earlier formats as written now."""
        root = len(self._root)
        same = [(row[root:], wire.renewed(value)) for row, value in rows]
        told = [b"%d %d %b%b" % (len(row), len(value), row, value) for row, value in same]
        return blake2b(b"".join(told), digest_size=DIGEST_BYTES).digest()

    def _entry(self, row: bytes, value: bytes) -> ChangelogEntry:
        return ChangelogEntry(key=key_of(row, self._root), committed=wire.decode_committed_record(value).committed)


def row_bytes(row: KeyValue) -> int:
    return len(row[0]) + len(row[1])
