"""The layout of a replica's rows: one subspace for each replica, tuple-encoded:

    (2, replica, KV, key, VALUE)                what is committed, with its lineage
    (2, replica, KV, key, BALLOT)               the promise
    (2, replica, KV, key, CACHE)                a value found elsewhere
    (2, replica, VOTES, key)                    the vote: apart, so that the few in flight are found among millions of
                                                decided keys
    (2, replica, EXPIRIES, key)                 that the committed value ends, and when: an index, made with the value
    (2, replica, CACHES)                        there is, or was, a CACHE row
    (2, replica, CHANGELOG, versionstamp)       what was committed, in the order of the commits
    (2, replica, TRUNCATED)                     the newest deleted row of the changelog
    (1, replica, KV, key, COMMITTED | VALUE)    values of the first layout, raw; read and perhaps moved here, written
                                                only by an import while the replica is not running

The configuration in force is the committed value of a key of its own; `member_rows` has rows of a change of members.

Absent rows stand for "nothing": no promise, no vote. A row begins with the format version of its record.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby, islice, takewhile
from operator import itemgetter, lt

from epoxy.codec import wire
from epoxy.codec.quoting import escape, pack_bytes
from epoxy.codec.tuple import STAMP_BYTES, pack, strinc
from epoxy.model.ballot import NO_BALLOT, Ballot
from epoxy.model.cluster import FIRST_SYSTEM_KEY
from epoxy.model.errors import RottenRow
from epoxy.model.marks import handed_over, is_owned
from epoxy.model.members import NO_STAMP
from epoxy.model.records import (
    FRESH,
    LEGACY_PROPOSAL_ID,
    ChangelogEntry,
    CommittedRecord,
    ExpiryEntry,
    KeyState,
    Proposal,
    Vote,
)
from epoxy.ports import KeyValue, Snapshot, Transaction
from epoxy.store.buffer import scan

# The codes are part of the format: never renumber. Zero takes one byte, so the most frequent ones have it.
LEGACY_LAYOUT, LAYOUT = 1, 2
KV, CHANGELOG, TRUNCATED, VOTES, CACHES, EXPIRIES = 0, 2, 6, 7, 8, 13
VALUE, BALLOT, CACHE = map(pack, ((0,), (1,), (3,)))
VALUE_OF_A_KEY = b"\x00" + VALUE
"""The end of a row with a value: the end of the key, and the field. No other field is as short."""
LEGACY_COMMITTED, LEGACY_VALUE = map(pack, ((0,), (1,)))
LEGACY_FIELDS = (b"\x00" + LEGACY_COMMITTED, b"\x00" + LEGACY_VALUE)

VERSIONSTAMP = b"\x33"
USER_VERSION = bytes(2)
"""The caller's part of a versionstamp: zero, since the store numbers the rows of one commit itself."""

SCAN_ROWS = 256
"""Rows fetched at a time while a page is filled: a key has at most three, and pages are a few hundred keys."""

STAMPS_BYTES = 8 << 20
"""Values that are read to find the entries of one key: some milliseconds."""

LIVING = tuple([header + b"\x01" for header in wire.STORED_HEADERS])
MAX_LENGTH_BYTES = 3
"""Of the length of a value, between this beginning of a record and the value."""
"""Beginnings of the record of a committed key that is not deleted: its format, and that there is a value."""

COUNTED_BYTES = 4 << 20
"""Values that a step of a count passes: a few milliseconds."""

Rows = dict[bytes, bytes | None]
Stamped = tuple[bytes, bytes, bytes]
"""Prefix, suffix and value of a row whose key the commit completes."""


class Keyspace:
    def __init__(self, replica_id: int, *, shared: bool = False) -> None:
        """`shared`: nodes of one datacenter write keys of their own, and any of them may have cached something. That
        something was ever cached is not recorded then: it is no row of a client's key."""
        self._keys = pack((LAYOUT, replica_id, KV))
        self._votes = pack((LAYOUT, replica_id, VOTES))
        self._changelog = pack((LAYOUT, replica_id, CHANGELOG)) + VERSIONSTAMP
        self._truncated = pack((LAYOUT, replica_id, TRUNCATED))
        self._legacy_keys = pack((LEGACY_LAYOUT, replica_id, KV))
        self._caches = pack((LAYOUT, replica_id, CACHES))
        self._expiries = pack((LAYOUT, replica_id, EXPIRIES))
        self._has_legacy: bool | None = None
        self._shared = shared
        self._has_cached: bool | None = True if shared else None

    def rows(self) -> tuple[bytes, bytes, bytes]:
        """The beginnings of the rows of keys, of votes, and of keys of the first layout."""
        return self._keys, self._votes, self._legacy_keys

    def value_row(self, key: bytes) -> bytes:
        """The row of the committed record."""
        return self._keys + pack_bytes(key) + VALUE

    def rows_of(self, key: bytes) -> tuple[bytes, ...]:
        """The rows that rules read or write of a key: a store that loads ahead also wants to know what is replaced."""
        packed = pack_bytes(key)
        row = self._keys + packed
        return row + VALUE, row + BALLOT, self._votes + packed, row + CACHE, self._expiries + packed

    def load(self, view: Snapshot, key: bytes) -> KeyState:
        """Everything the acceptor holds for a key. A legacy value counts as committed."""
        packed = pack_bytes(key)
        row = self._keys + packed
        value = view.get(row + VALUE)
        if value is None and (legacy := self._legacy(view, packed)) is not None:
            return KeyState(committed=legacy)
        ballot = view.get(row + BALLOT)
        vote = view.get(self._votes + packed)
        if value is None and ballot is None and vote is None:
            return FRESH
        record = wire.decode_committed_record(value) if value is not None else None
        return KeyState(
            committed=record.committed if record is not None else None,
            lineage=record.lineage if record is not None else (),
            promised=wire.decode_ballot(ballot) if ballot is not None else NO_BALLOT,
            vote=wire.decode_vote(vote) if vote is not None else None,
        )

    def save(self, tx: Transaction, key: bytes, before: KeyState, after: KeyState) -> None:
        """Write what differs."""
        rows, entry = self.changes(tx, key, before, after)
        for row, value in rows.items():
            write(tx, row, value)
        if entry is not None:
            tx.set_stamped(*entry)

    def changes(self, view: Snapshot, key: bytes, before: KeyState, after: KeyState) -> tuple[Rows, Stamped | None]:
        """The rows that differ, None where one is deleted. A new commit is added to the changelog, and deletes the
        cached value, which is older."""
        packed = pack_bytes(key)
        rows: Rows = {}
        entry: Stamped | None = None
        committed = after.committed
        if committed is not before.committed and committed != before.committed:
            assert committed is not None, "a decision is never forgotten"
            assert before.committed is None or before.version < committed.version, (before, after)
            row = self._keys + packed
            rows[row + VALUE], logged = wire.encode_decision(key, committed, after.lineage)
            entry = self.logged(logged)
            if self.any_cached(view):
                rows[row + CACHE] = None
            ended = before.committed is not None and before.committed.expiry is not None
            if committed.expiry is not None or ended or is_owned(committed):
                rows[self._expiries + packed] = index_value(committed)
        promised = after.promised
        if promised is not before.promised and promised != before.promised:
            rows[self._keys + packed + BALLOT] = wire.encode_ballot(promised) if promised != NO_BALLOT else None
        vote = after.vote
        if vote is not before.vote and vote != before.vote:
            rows[self._votes + packed] = wire.encode_vote(vote) if vote is not None else None
        return rows, entry

    def logged(self, entry: bytes) -> Stamped:
        """The row of the changelog with this record."""
        return self._changelog, USER_VERSION, entry

    def in_flight(self, view: Snapshot, key: bytes) -> tuple[Ballot, Vote | None]:
        """Promise and vote of a key whose committed row may be unreadable."""
        packed = pack_bytes(key)
        ballot, vote = view.get(self._keys + packed + BALLOT), view.get(self._votes + packed)
        return (
            wire.decode_ballot(ballot) if ballot is not None else NO_BALLOT,
            wire.decode_vote(vote) if vote is not None else None,
        )

    def restored(self, view: Snapshot, key: bytes, state: KeyState) -> tuple[Rows, Stamped]:
        """All rows of a key, with a row of the changelog: the lost version may have been an older one."""
        packed = pack_bytes(key)
        assert state.committed is not None, state
        value, logged = wire.encode_decision(key, state.committed, state.lineage)
        rows: Rows = {
            self._keys + packed + VALUE: value,
            self._keys + packed + BALLOT: wire.encode_ballot(state.promised) if state.promised != NO_BALLOT else None,
            self._votes + packed: wire.encode_vote(state.vote) if state.vote is not None else None,
            self._expiries + packed: index_value(state.committed),
        }
        if self.any_cached(view):
            rows[self._keys + packed + CACHE] = None
        if self.any_legacy(view):
            rows |= dict.fromkeys(
                (self._legacy_keys + packed + LEGACY_COMMITTED, self._legacy_keys + packed + LEGACY_VALUE)
            )
        return rows, self.logged(logged)

    def committed(self, view: Snapshot, key: bytes) -> Proposal | None:
        """The committed value. A legacy one has version 0."""
        packed = pack_bytes(key)
        value = view.get(self._keys + packed + VALUE)
        return wire.decode_committed_record(value).committed if value is not None else self._legacy(view, packed)

    def expiring(self, view: Snapshot, after: bytes | None, limit: int) -> list[tuple[bytes, ExpiryEntry]]:
        """The next keys beyond `after` whose committed value ends, in order, at most so many; fewer: these were the
        last. Where a row of the index is rotten the value says it. Where that is rotten, too, the key is left out: it
        is restored, and learned as a decision."""
        return index_page(view, self._expiries, after, limit, lambda key: self.expiry_row(view, key)[1])

    def expiry_row(self, view: Snapshot, key: bytes) -> tuple[bytes, bytes | None]:
        """The row of the index as it follows from the committed value; None: it has no place there."""
        committed = self.committed(view, key)
        return self.indexed(key, committed) if committed is not None else (self._expiries + pack_bytes(key), None)

    def indexed(self, key: bytes, committed: Proposal) -> tuple[bytes, bytes | None]:
        """The row of the index for this value."""
        return self._expiries + pack_bytes(key), index_value(committed)

    def cached(self, view: Snapshot, key: bytes) -> Proposal | None:
        value = view.get(self._keys + pack_bytes(key) + CACHE)
        return wire.decode_cached(value) if value is not None else None

    def cache(self, tx: Transaction, key: bytes, proposal: Proposal) -> None:
        """Keep a value found elsewhere, unless this replica has a commit or a later version."""
        if self.committed(tx, key) is not None:
            return
        known = self.cached(tx, key)
        if known is None or known.version < proposal.version:
            if not self._shared:
                self._has_cached = True
                tx.set(self._caches, b"")
            tx.set(self._keys + pack_bytes(key) + CACHE, wire.encode_cached(proposal))

    def any_cached(self, view: Snapshot) -> bool:
        """Whether anything was ever cached here. Most replicas cache nothing; then a commit need not delete it."""
        if self._has_cached is None:
            try:
                self._has_cached = view.get(self._caches) is not None
            except RottenRow:
                self._has_cached = True
        return self._has_cached

    def page(self, view: Snapshot, prefix: bytes, after: bytes | None, limit: int) -> list[tuple[bytes, Proposal]]:
        return list(islice(self.clients_keys(view, prefix, after), limit))

    def clients_keys(self, view: Snapshot, prefix: bytes, after: bytes | None) -> Iterator[tuple[bytes, Proposal]]:
        """The committed keys that start with `prefix`, in order, from the first one beyond `after`; without the
        cluster's own, which come last. Read lazily."""
        return takewhile(lambda row: row[0] < FIRST_SYSTEM_KEY, self.everything(view, prefix, after))

    def everything(
        self, view: Snapshot, prefix: bytes, after: bytes | None, until: bytes | None = None
    ) -> Iterator[tuple[bytes, Proposal]]:
        """The committed keys, legacy ones and the cluster's own among them; through `until`, if that is given."""
        current = self._current_page(view, prefix, after, until)
        if not self.any_legacy(view):
            return current
        return newest_layout(current, self._legacy_page(view, prefix, after, until))

    def held(self, view: Snapshot, keys: Sequence[bytes]) -> Mapping[bytes, KeyState]:
        """The states of these keys; fresh ones may be missing. If the keys are sorted, one range read shows which have
        rows at all."""
        known: Iterable[bytes] = keys
        if is_rising(keys) and not self.any_legacy(view):
            rows = self._named(view, self._keys, keys) + self._named(view, self._votes, keys)
            known = set(rows).intersection(keys) if len(rows) < len(keys) else keys
        return {key: self.load(view, key) for key in known}

    def _named(self, view: Snapshot, root: bytes, keys: Sequence[bytes]) -> list[bytes]:
        """The keys of the rows from the first of these keys to the last, at most as many."""
        begin, end = root + pack_bytes(keys[0]), root + pack_bytes(keys[-1]) + b"\xff"
        return [key_of(row, root) for row, _ in view.range(begin, end, limit=len(keys))]

    def count(self, view: Snapshot, after: bytes | None, rows: int) -> tuple[int, bytes | None]:
        """The number of keys among the next `rows` rows beyond a key, and the key to continue from; None: these were
        the last. Values of the first layout and the cluster's own keys are not counted."""
        found, last = self._rows_beyond(view, after, rows)
        return sum([row.endswith(VALUE_OF_A_KEY) for row, _ in found]), last

    def living(
        self, view: Snapshot, after: bytes | None, rows: int, mark: bytes, prefix: bytes = b""
    ) -> tuple[int, list[bytes], bytes | None]:
        """As `count`, of keys under a prefix that are not deleted, values of the first layout included. Keys with the
        value that begins with `mark` are listed instead of counted, and perhaps some others. Only the beginning of a
        record is compared, several times as fast as decoding it."""
        if self.any_legacy(view):
            some = self.page(view, prefix, after, rows)
            named = [key for key, committed in some if (committed.value or b"").startswith(mark)]
            keys = sum([not committed.is_tombstone for _, committed in some]) - len(named)
            return keys, named, some[-1][0] if len(some) == rows else None
        found, last = self._rows_beyond(view, after, rows, prefix)
        values = [(row, value) for row, value in found if row.endswith(VALUE_OF_A_KEY) and value.startswith(LIVING)]
        first = len(LIVING[0]) + 1
        end = first + MAX_LENGTH_BYTES - 1 + len(mark)
        named = [key_of(row, self._keys) for row, value in values if value.find(mark, first, end) >= 0]
        return len(values) - len(named), named, last

    def _rows_beyond(
        self, view: Snapshot, after: bytes | None, rows: int, prefix: bytes = b""
    ) -> tuple[list[KeyValue], bytes | None]:
        """The next `rows` rows of keys, fewer if they are long, and the key of the last; None: there are no more."""
        stem = self._keys + b"\x01" + escape(prefix)
        begin = stem if after is None else max(stem, self._keys + pack_bytes(after) + b"\xff")
        end = min(strinc(stem), self._keys + pack_bytes(FIRST_SYSTEM_KEY)[:-1])
        found: list[KeyValue] = []
        size = 0
        for row, value in scan(view, begin, end, rows, False):
            found.append((row, value))
            size += len(value)
            if len(found) == rows or size >= COUNTED_BYTES:
                return found, key_of(row, self._keys)
        return found, None

    def changelog(
        self,
        view: Snapshot,
        after: bytes | None,
        limit: int,
        *,
        newest_first: bool = False,
        before: bytes | None = None,
    ) -> list[tuple[bytes, ChangelogEntry]]:
        """Up to `limit` entries with their stamps, in the order of the commits, from the first one beyond `after`, or
        from the newest one back to it; without those of the cluster's own keys. Only those before the stamp
        `before`."""
        begin = self._changelog if after is None else self._changelog + after + USER_VERSION + b"\x00"
        end = strinc(self._changelog) if before is None else self._changelog + before
        rows = scan(view, begin, end, min(limit, SCAN_ROWS), newest_first)
        return list(islice(self._entries(rows), limit))

    def stamps_of(self, view: Snapshot, key: bytes, rows: int, limit: int) -> tuple[bytes, ...]:
        """The stamps of the newest `limit` entries of a key, among the newest `rows` of the changelog, or fewer rows
        where their values come to STAMPS_BYTES."""
        found: list[bytes] = []
        size = 0
        newest = scan(view, self._changelog, strinc(self._changelog), SCAN_ROWS, True)
        for stamp, entry in islice(self._entries(newest), rows):
            if entry.key == key:
                found.append(stamp)
            size += len(entry.committed.value or b"")
            if len(found) == limit or size >= STAMPS_BYTES:
                break
        return tuple(found)

    def truncated(self, view: Snapshot) -> bytes:
        """The stamp of the newest deleted row of the changelog."""
        return view.get(self._truncated) or NO_STAMP

    def _entries(self, rows: Iterator[KeyValue]) -> Iterator[tuple[bytes, ChangelogEntry]]:
        start = len(self._changelog)
        for row, value in rows:
            entry = wire.decode_changelog_entry(value)
            if entry.key < FIRST_SYSTEM_KEY:
                yield row[start : start + STAMP_BYTES], entry

    def any_legacy(self, view: Snapshot) -> bool:
        """Checked once: a running replica writes no rows of the first layout."""
        if self._has_legacy is None:
            try:
                self._has_legacy = bool(view.range(self._legacy_keys, strinc(self._legacy_keys), limit=1))
            except RottenRow:
                self._has_legacy = True
        return self._has_legacy

    def move_legacy(self, tx: Transaction, after: bytes, limit: int) -> tuple[int, bytes | None]:
        """Move up to `limit` rows of the first layout beyond this row to this layout, unless the key has a value there.
        Returns the number of keys moved, and the row to continue from; None: no more. Nothing changes for readers, so
        the changelog gets no entry."""
        root, moved = self._legacy_keys, 0
        rows = tx.snapshot.range(max(root, after + b"\x00"), strinc(root), limit=limit)
        for row, value in rows:
            if row.endswith(LEGACY_FIELDS):
                key = self._keys + pack_bytes(key_of(row, root)) + VALUE
                if tx.get(key) is None:
                    tx.set(key, wire.encode_committed_record(CommittedRecord(committed=legacy_proposal(value))))
                    moved += 1
            tx.clear(row)
        return moved, rows[-1][0] if len(rows) == limit else None

    def legacy_is_gone(self) -> None:
        self._has_legacy = False

    def _legacy(self, view: Snapshot, packed_key: bytes) -> Proposal | None:
        if not self.any_legacy(view):
            return None
        row = self._legacy_keys + packed_key
        value = view.get(row + LEGACY_COMMITTED)
        if value is None:
            value = view.get(row + LEGACY_VALUE)
        return legacy_proposal(value) if value is not None else None

    def _current_page(
        self, view: Snapshot, prefix: bytes, after: bytes | None, until: bytes | None
    ) -> Iterator[tuple[bytes, Proposal]]:
        root = self._keys
        for row, value in rows_of(view, root, prefix, after, until):
            if row.endswith(VALUE_OF_A_KEY):
                yield key_of(row, root), wire.decode_committed_record(value).committed

    def _legacy_page(
        self, view: Snapshot, prefix: bytes, after: bytes | None, until: bytes | None
    ) -> Iterator[tuple[bytes, Proposal]]:
        for row, value in rows_of(view, self._legacy_keys, prefix, after, until):
            if row.endswith(LEGACY_FIELDS):
                yield key_of(row, self._legacy_keys), legacy_proposal(value)


def is_rising(keys: Sequence[bytes]) -> bool:
    return bool(keys) and all(map(lt, keys, keys[1:]))


def legacy_proposal(value: bytes) -> Proposal:
    return Proposal(value=value, version=0, mutable=False, proposal_id=LEGACY_PROPOSAL_ID)


def write(tx: Transaction, row: bytes, value: bytes | None) -> None:
    if value is None:
        tx.clear(row)
    else:
        tx.set(row, value)


def newest_layout(
    current: Iterator[tuple[bytes, Proposal]], legacy: Iterator[tuple[bytes, Proposal]]
) -> Iterator[tuple[bytes, Proposal]]:
    """Of equal keys, the merge yields the current layout's first, which is the one `load` returns."""
    for _, group in groupby(heapq.merge(current, legacy, key=itemgetter(0)), key=itemgetter(0)):
        yield next(group)


def rows_of(view: Snapshot, root: bytes, prefix: bytes, after: bytes | None, until: bytes | None) -> Iterator[KeyValue]:
    """The rows below root whose key starts with `prefix`, lies beyond `after` and not beyond `until`."""
    stem = root + b"\x01" + escape(prefix)
    begin = stem if after is None else max(stem, root + pack_bytes(after) + b"\xff")
    end = strinc(stem) if until is None else min(strinc(stem), root + pack_bytes(until) + b"\xff")
    return scan(view, begin, end, SCAN_ROWS, False)


def index_value(committed: Proposal) -> bytes | None:
    """The mark of a key that was handed over to transactions names the expiry of what it holds. Such a row has no home:
    the key may have a row of transactions by now, which says more."""
    version, home, expiry = committed.version, committed.home, committed.expiry
    if is_owned(committed):
        held = handed_over(committed.value or b"")
        version, home, expiry = held.at, 0, held.expiry
    if expiry is None:
        return None
    return wire.encode_expiry_entry(ExpiryEntry(version=version, home=home, expiry=expiry))


def index_page(
    view: Snapshot, root: bytes, after: bytes | None, limit: int, index_value_of: Callable[[bytes], bytes | None]
) -> list[tuple[bytes, ExpiryEntry]]:
    """The next rows of an index of expiries. `index_value_of` says what a rotten one held."""
    found: list[tuple[bytes, ExpiryEntry]] = []
    begin = root if after is None else root + pack_bytes(after) + b"\xff"
    while True:
        rows, rotten = rows_before_rot(view, begin, strinc(root), limit - len(found))
        found += [(key_of(row, root), wire.decode_expiry_entry(value)) for row, value in rows]
        if rotten is None or len(found) == limit:
            return found
        key, begin = key_of(rotten, root), rotten + b"\x00"
        try:
            value = index_value_of(key)
        except RottenRow:
            continue
        if value is not None:
            found.append((key, wire.decode_expiry_entry(value)))
            if len(found) == limit:
                return found


def rows_before_rot(view: Snapshot, begin: bytes, end: bytes, limit: int) -> tuple[Sequence[KeyValue], bytes | None]:
    """The first rows, up to a rotten one if there is one among them, and that one's key."""
    try:
        return view.range(begin, end, limit=limit), None
    except RottenRow as rot:
        return rows_one_by_one(view, begin, min(rot.key, end), limit), rot.key if rot.key < end else None


def rows_one_by_one(view: Snapshot, begin: bytes, end: bytes, limit: int) -> list[KeyValue]:
    """Rows before a rotten one. A store checks the row that ends a range, too, so a page that reaches it is refused."""
    found: list[KeyValue] = []
    try:
        while len(found) < limit and (row := view.range(begin, end, limit=1)):
            found += row
            begin = row[0][0] + b"\x00"
    except RottenRow:
        pass
    return found


def key_of(row: bytes, root: bytes) -> bytes:
    """As `unpack`, faster: after the root come 01, the key, and 00 at its end; a zero byte within the key is escaped by
    ff."""
    end = row.find(b"\x00", len(root))
    while row[end + 1 : end + 2] == b"\xff":
        end = row.find(b"\x00", end + 1)
    return row[len(root) + 1 : end].replace(b"\x00\xff", b"\x00")
