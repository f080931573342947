"""A cut as the blocks of a backup: keys, values of transactions, rows of actors.

The blocks are made in the store's thread, one at a time. Rows are passed on as they are stored, not decoded.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import merge
from itertools import chain

from msgspec import Struct

from epoxy.actors.homes import home_in
from epoxy.backup.format import Kind, KindTotal, Record, blocks, check_block, is_carried
from epoxy.codec import wire
from epoxy.codec.tuple import pack, strinc
from epoxy.model.actors import RESERVATION_KEYS
from epoxy.model.cluster import FIRST_SYSTEM_KEY
from epoxy.model.homes import HOME_KEYS
from epoxy.model.marks import OWNED
from epoxy.model.records import CommittedRecord, Proposal, ProposalId
from epoxy.node.backup.gathering import ActorSpool
from epoxy.node.backup.source import ACTORS
from epoxy.ports import KeyValue, Snapshot, StoreCut
from epoxy.store.keyspace import KV, LAYOUT, LEGACY_LAYOUT, VALUE_OF_A_KEY, Keyspace, key_of
from epoxy.store.txn_rows import VALUES, record_of

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
        self._names: Counter[int] = Counter()
        """How many each label owns."""
        self._blocks: Iterator[bytes] | None = None
        self.cpu_ms = 0.0
        """That the last block took in the store's thread."""
        self.totals = dict.fromkeys((Kind.KEYS, Kind.VALUES, Kind.ACTORS), KindTotal())

    @property
    def missing(self) -> tuple[str, ...]:
        """Known at the end: the absent datacenters that own names of actors. Of others no row is missing."""
        return tuple(sorted(self._here.datacenters[each] for each in self._absent if self._names[each] > 0))

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
            if record[0].startswith((RESERVATION_KEYS, HOME_KEYS)):
                self._note_owner(view, *record)
            yield record

    def _note_owner(self, view: Snapshot, key: bytes, record: bytes) -> None:
        """Of a name that has moved, the home counts instead of the reservation."""
        home = home_in(wire.decode_committed_record(record).committed, first=True)
        if home is not None:
            self._names[home.record.label] += 1
        if key.startswith(HOME_KEYS):
            reserved = Keyspace(self._here.replica).committed(view, RESERVATION_KEYS + key[len(HOME_KEYS) :])
            before = home_in(reserved, first=True)
            if before is not None:
                self._names[before.record.label] -= 1

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
    """Keys that belong to transactions, and the records of what they hold."""
    root = pack((LEGACY_LAYOUT, replica, VALUES))
    return ((key_of(row, root), record_of(row, value)) for row, value in rows(view, root))


def with_marks(
    records: Iterator[tuple[bytes, bytes]], owned: Iterator[tuple[bytes, bytes]], replica: int
) -> Iterator[tuple[bytes, bytes]]:
    """A transaction may be executed here before this replica learns that its key belongs to transactions, or that it is
    reserved. Such a key gets its mark, or its name: without it the key would belong to no engine in a restored cluster,
    or still to itself."""
    waiting = next(owned, None)
    if waiting is None:
        yield from records
    for record in records:
        while waiting is not None and waiting[0] < record[0]:
            yield waiting[0], final_record(waiting[1], replica)
            waiting = next(owned, None)
        if waiting is not None and waiting[0] == record[0]:
            is_final = not wire.decode_committed_record(record[1]).committed.mutable
            yield record if is_final else (waiting[0], final_record(waiting[1], replica))
            waiting = next(owned, None)
        else:
            yield record
    while waiting is not None:
        yield waiting[0], final_record(waiting[1], replica)
        waiting = next(owned, None)


def final_record(held: bytes, replica: int) -> bytes:
    """What the per-key engine has decided of a key that transactions hold, as far as that matters."""
    known = wire.decode_ordered_value(held)
    value, version = (known.value, known.version) if known.immutable else (OWNED, 1)
    final = Proposal(value=value, version=version, mutable=False, proposal_id=ProposalId(replica, 0))
    return wire.encode_committed_record(CommittedRecord(committed=final))


def rows(view: Snapshot, root: bytes) -> Iterator[KeyValue]:
    return chain.from_iterable(parts(view, root))


def parts(view: Snapshot, root: bytes) -> Iterator[Sequence[KeyValue]]:
    begin, end = root, strinc(root)
    while found := view.range(begin, end, limit=ROWS):
        yield found
        begin = found[-1][0] + b"\x00"
        time.sleep(0)
