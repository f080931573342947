"""A cut as the blocks of a backup: keys, values of transactions, rows of actors.

The blocks are made in the store's thread, one at a time. Rows are passed on as they are stored, not decoded.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import merge
from itertools import chain

from msgspec import Struct

from epoxy.backup.format import Kind, KindTotal, Record, blocks, check_block, is_carried
from epoxy.codec import wire
from epoxy.codec.tuple import pack, strinc
from epoxy.model.actors import RESERVATION_KEYS, label_of
from epoxy.model.cluster import FIRST_SYSTEM_KEY
from epoxy.model.records import CommittedRecord, Proposal, ProposalId
from epoxy.node.backup.gathering import ActorSpool
from epoxy.node.backup.source import ACTORS
from epoxy.node.txn.transactions import OWNED
from epoxy.ports import KeyValue, Snapshot, StoreCut
from epoxy.store.keyspace import KV, LAYOUT, LEGACY_LAYOUT, VALUE_OF_A_KEY, Keyspace, key_of
from epoxy.store.txn_rows import VALUES

ROWS = 256
"""Read at a time, with the interpreter's lock released between: some 0.2 ms, as in a checkpoint."""


class Here(Struct, frozen=True, kw_only=True):
    """The replica that makes the backup, and the datacenters of the members."""

    replica: int
    datacenters: Mapping[int, str]


class BackupStream:
    """`absent`: members whose rows of actors could not be had."""

    def __init__(self, here: Here, cut: StoreCut, spool: ActorSpool, absent: Sequence[int]) -> None:
        self._here = here
        self._cut = cut
        self._spool = spool
        self._absent = absent
        self._labels: set[int] = set()
        """Of the datacenters that own names."""
        self._blocks: Iterator[bytes] | None = None
        self.cpu_ms = 0.0
        """That the last block took in the store's thread."""
        self.totals = dict.fromkeys((Kind.KEYS, Kind.VALUES, Kind.ACTORS), KindTotal())

    @property
    def missing(self) -> tuple[str, ...]:
        """Known at the end: the absent datacenters that own names of actors. Of others no row is missing."""
        return tuple(sorted(self._here.datacenters[each] for each in self._absent if each in self._labels))

    def next(self, done: Callable[[bytes | None], None], failed: Callable[[Exception], None]) -> None:
        """The next block; None: there are no more."""
        self._cut.read(self._next, done, failed)

    def close(self) -> None:
        self._blocks = None
        self._cut.close()
        self._spool.close()

    def _next(self, view: Snapshot) -> bytes | None:
        begun_s = time.thread_time()
        if self._blocks is None:
            self._blocks = self._all(view)
        block = next(self._blocks, None)
        self.cpu_ms = (time.thread_time() - begun_s) * 1000
        if block is not None:
            kind, records = check_block(block)
            self.totals[kind] = self.totals[kind].plus(records, len(block))
        return block

    def _all(self, view: Snapshot) -> Iterator[bytes]:
        yield from blocks(Kind.KEYS, self._keys(view))
        yield from blocks(Kind.VALUES, values(view, self._here.replica))
        yield from blocks(Kind.ACTORS, self._actors(view))

    def _keys(self, view: Snapshot) -> Iterator[Record]:
        for record in with_marks(keys(view, self._here.replica), values(view, self._here.replica), self._here.replica):
            if record[0].startswith(RESERVATION_KEYS):
                self._note_owner(record[1])
            yield record

    def _note_owner(self, record: bytes) -> None:
        value = wire.decode_committed_record(record).committed.value
        if value is not None:
            self._labels.add(label_of(value))

    def _actors(self, view: Snapshot) -> Iterator[Record]:
        """In the order of datacenters. Should two members have one name, their rows are merged."""
        sources: dict[str, list[Iterator[KeyValue]]] = {}
        for replica, datacenter in self._here.datacenters.items():
            if replica == self._here.replica:
                sources.setdefault(datacenter, []).append(rows(view, ACTORS))
            elif replica in self._spool.sources:
                sources.setdefault(datacenter, []).append(self._collected(replica))
        for datacenter in sorted(sources, key=str.encode):
            for row, value in merge(*sources[datacenter]):
                yield datacenter.encode(), row, value

    def _collected(self, source: int) -> Iterator[KeyValue]:
        for number in range(self._spool.pages(source)):
            for each in self._spool.page(source, number):
                yield each.row, each.value


def keys(view: Snapshot, replica: int) -> Iterator[tuple[bytes, bytes]]:
    """Keys and committed records. Values of the first layout get a record."""
    legacy = pack((LEGACY_LAYOUT, replica, KV))
    if view.range(legacy, strinc(legacy), limit=1):
        for key, committed in Keyspace(replica).everything(view, b"", None):
            if is_carried(key):
                yield key, wire.encode_committed_record(CommittedRecord(committed=committed))
        return
    root = pack((LAYOUT, replica, KV))
    first, last = len(root) + 1, -len(VALUE_OF_A_KEY)
    for part in parts(view, root):
        found = [(plain(row[first:last]), value) for row, value in part if row.endswith(VALUE_OF_A_KEY)]
        if found and found[-1][0] >= FIRST_SYSTEM_KEY:
            found = [record for record in found if is_carried(record[0])]
        yield from found


def plain(escaped: bytes) -> bytes:
    """As `key_of`, of the part that is the key: a call less, for millions of them."""
    return escaped.replace(b"\x00\xff", b"\x00") if b"\x00" in escaped else escaped


def values(view: Snapshot, replica: int) -> Iterator[tuple[bytes, bytes]]:
    """Keys that belong to transactions, and their values."""
    root = pack((LEGACY_LAYOUT, replica, VALUES))
    return ((key_of(row, root), value) for row, value in rows(view, root))


def with_marks(
    records: Iterator[tuple[bytes, bytes]], owned: Iterator[tuple[bytes, bytes]], replica: int
) -> Iterator[tuple[bytes, bytes]]:
    """A transaction may be executed here before this replica learns that its key belongs to transactions. Such a key
    gets its mark: without it the key would belong to no engine in a restored cluster."""
    mark = Proposal(value=OWNED, version=1, mutable=False, proposal_id=ProposalId(replica, 0))
    marked = wire.encode_committed_record(CommittedRecord(committed=mark))
    waiting = next(owned, None)
    if waiting is None:
        yield from records
    for record in records:
        while waiting is not None and waiting[0] < record[0]:
            yield waiting[0], marked
            waiting = next(owned, None)
        if waiting is not None and waiting[0] == record[0]:
            waiting = next(owned, None)
        yield record
    while waiting is not None:
        yield waiting[0], marked
        waiting = next(owned, None)


def rows(view: Snapshot, root: bytes) -> Iterator[KeyValue]:
    return chain.from_iterable(parts(view, root))


def parts(view: Snapshot, root: bytes) -> Iterator[Sequence[KeyValue]]:
    begin, end = root, strinc(root)
    while found := view.range(begin, end, limit=ROWS):
        yield found
        begin = found[-1][0] + b"\x00"
        time.sleep(0)
