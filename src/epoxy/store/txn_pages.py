"""What the ordered engine holds of keys, in pages, for new members: compared by digest, sent, and replaced."""

from collections.abc import Iterator, Sequence

from epoxy.codec.tuple import pack
from epoxy.model.members import (
    MAX_PAGE_BYTES,
    MAX_PAGE_ROWS,
    MAX_VALUE_ROWS,
    STRETCH_ROWS,
    Pair,
    Stretch,
    ValuesPage,
    ValuesRead,
)
from epoxy.ports import Snapshot, Transaction
from epoxy.protocol.members.digest import pairs_digest, pairs_stretch
from epoxy.protocol.members.effects import Span
from epoxy.protocol.txn.execution import Values
from epoxy.store.keyspace import LEGACY_LAYOUT, key_of, rows_of
from epoxy.store.member_rows import fitting
from epoxy.store.txn_rows import VALUES, OrderedSpace, record_of


class ValueSpace:
    def __init__(self, replica_id: int) -> None:
        self._root = pack((LEGACY_LAYOUT, replica_id, VALUES))
        self._ordered = OrderedSpace(replica_id)
        self.stretch_rows = STRETCH_ROWS
        self.page_rows, self.most_rows = MAX_PAGE_ROWS, MAX_VALUE_ROWS
        """Of a page in normal operation, and in a joint epoch."""

    def held(self, view: Snapshot, after: bytes | None, through: bytes | None) -> Iterator[Pair]:
        for row, value in rows_of(view, self._root, b"", after, through):
            yield Pair(key_of(row, self._root), record_of(row, value))

    def stretches(self, view: Snapshot, after: bytes | None, count: int) -> tuple[Stretch, ...]:
        """The values beyond a key as stretches, as many as fit a page; the last is open-ended if no values follow."""
        pairs, more = fitting(self.held(view, after, None), count * self.stretch_rows, MAX_PAGE_BYTES, pair_bytes)
        found = [pairs[i : i + self.stretch_rows] for i in range(0, len(pairs), self.stretch_rows)] or [()]
        told = [pairs_stretch(each, each[-1].key) for each in found[:-1]]
        return (*told, pairs_stretch(found[-1], pairs[-1].key if more else None))

    def page(self, view: Snapshot, request: ValuesRead) -> ValuesPage:
        """The pairs of stretches that differ from the reader's, within the limits; at least one, if there is any."""
        room, size = (self.most_rows if request.epoch else self.page_rows), MAX_PAGE_BYTES
        differing: list[int] = []
        pairs: list[Pair] = []
        after = request.after
        for place, until in enumerate([stretch.until for stretch in request.held] or [None]):
            found, more = fitting(self.held(view, after, until), room - len(pairs), size, pair_bytes)
            if pairs and (more or len(pairs) + len(found) > room):
                return ValuesPage(differing=tuple(differing), pairs=tuple(pairs), through=after)
            if more or not is_same(request.held, place, found):
                differing.append(place)
                pairs += found
                size -= sum(map(pair_bytes, found))
            if more:
                return ValuesPage(differing=tuple(differing), pairs=tuple(pairs), through=pairs[-1].key)
            after = until
        return ValuesPage(differing=tuple(differing), pairs=tuple(pairs), through=after)

    def replace(self, tx: Transaction, spans: Sequence[Span], pairs: Sequence[Pair]) -> Values:
        """Make these pairs the only ones in these spans, with their rows of the index; returns what is held of keys
        that were changed or deleted."""
        wanted = {pair.key: pair.value for pair in pairs}
        held = {pair.key: pair.value for span in spans for pair in self.held(tx, span.after, span.through)}
        news = [key for key in {**held, **wanted} if held.get(key) != wanted.get(key)]
        return {key: self._ordered.set_record(tx, key, wanted.get(key)) for key in news}


def is_same(held: Sequence[Stretch], place: int, found: Sequence[Pair]) -> bool:
    return place < len(held) and held[place].count == len(found) and held[place].digest == pairs_digest(found)


def pair_bytes(pair: Pair) -> int:
    return len(pair.key) + len(pair.value)
