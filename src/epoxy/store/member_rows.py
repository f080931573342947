"""The rows of a change of members, and the pages a learner reads. Beside those of `keyspace`:

(2, replica, PROGRESS, source)     how far this replica has copied a source
(2, replica, IDENTITY)             this store's own identity, drawn when it was made
(2, replica, NOTED, replica)       the identity of another replica's store at the first contact
(2, replica, MEASURED)             the bytes of the changelog up to a stamp
(2, replica, START)                the number and the nonce of this store's last start
(2, replica, SIGHTINGS, replica)   the last start of another replica's store, and the highest position it reported
(2, replica, REFUSED)              why this store takes no part any more: others know a later state of it
"""

import struct
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import TypeVar

from msgspec import Struct

from epoxy.codec import wire
from epoxy.codec.tuple import STAMP_BYTES, pack, pack_bytes, strinc, unpack
from epoxy.model.ballot import Ballot, fast_ballot
from epoxy.model.cluster import FIRST_SYSTEM_KEY, ClusterConfig
from epoxy.model.errors import RottenRow
from epoxy.model.incarnation import Sighting
from epoxy.model.members import (
    MAX_PAGE_BYTES,
    MAX_PAGE_ROWS,
    ChangelogPage,
    ChangelogRead,
    CursorTruncated,
    Progress,
    SnapshotPage,
    SnapshotRead,
    Stretch,
    Unsettled,
    UnsettledPage,
)
from epoxy.model.records import ChangelogEntry, Proposal
from epoxy.ports import Snapshot, Transaction
from epoxy.protocol.keys.recovery import still_counts
from epoxy.protocol.members.digest import digest, stretch
from epoxy.protocol.members.retention import INDEX_BITS, last_of
from epoxy.store.buffer import scan
from epoxy.store.keyspace import (
    CHANGELOG,
    LAYOUT,
    SCAN_ROWS,
    TRUNCATED,
    USER_VERSION,
    VERSIONSTAMP,
    VOTES,
    Keyspace,
)

# Beside those of `keyspace`, and as unchangeable.
PROGRESS, IDENTITY, NOTED, START, SIGHTINGS, REFUSED = 3, 4, 5, 9, 10, 11
MEASURED = 20

IDENTITY_BYTES = 8
START_ROW = struct.Struct(">QQ")
SIGHTING_ROW = struct.Struct(">QQQQ")

SIZE_BYTES = 8

T = TypeVar("T")


class ChangelogSize(Struct, frozen=True, kw_only=True):
    """What the rows up to this stamp take, keys and values: of those that are not removed."""

    through: bytes
    size: int

    def without(self, removed: "ChangelogSize") -> "ChangelogSize":
        """After the removal of all rows up to a stamp. Where they reach further than this, nothing is left to count."""
        if removed.through >= self.through:
            return ChangelogSize(through=removed.through, size=0)
        return ChangelogSize(through=self.through, size=max(0, self.size - removed.size))


class MemberSpace:
    def __init__(self, keyspace: Keyspace, replica_id: int) -> None:
        self._keyspace = keyspace
        self.page_rows = MAX_PAGE_ROWS
        self._votes = pack((LAYOUT, replica_id, VOTES))
        self._changelog = pack((LAYOUT, replica_id, CHANGELOG)) + VERSIONSTAMP
        self._progress = pack((LAYOUT, replica_id, PROGRESS))
        self._identity = pack((LAYOUT, replica_id, IDENTITY))
        self._noted = pack((LAYOUT, replica_id, NOTED))
        self._start = pack((LAYOUT, replica_id, START))
        self._sightings = pack((LAYOUT, replica_id, SIGHTINGS))
        self._refused = pack((LAYOUT, replica_id, REFUSED))
        self._truncated = pack((LAYOUT, replica_id, TRUNCATED))
        self._measured = pack((LAYOUT, replica_id, MEASURED))
        self.scans_changelog = False
        """Whether its rows are read by ranges: from a database, each look-up is a round trip of its own."""

    # Rows

    def progress(self, view: Snapshot, source: int) -> Progress | None:
        value = view.get(self._progress + pack((source,)))
        return wire.decode_progress(value) if value is not None else None

    def set_progress(self, tx: Transaction, source: int, progress: Progress | None) -> None:
        """Equal progress is not written again: a node that follows idle sources would sync it for ever."""
        row = self._progress + pack((source,))
        if progress is None:
            tx.clear(row)
        elif (encoded := wire.encode_progress(progress)) != tx.get(row):
            tx.set(row, encoded)

    def sources(self, view: Snapshot) -> tuple[int, ...]:
        """The sources whose snapshot is copied."""
        rows = scan(view, self._progress, strinc(self._progress), SCAN_ROWS, False)
        return tuple([number(key, self._progress) for key, value in rows if wire.decode_progress(value).copied])

    def identity(self, tx: Transaction, draw: int) -> int:
        """This store's own; `draw` if it has none yet."""
        value = tx.get(self._identity)
        if value is not None:
            return int.from_bytes(value, "big")
        tx.set(self._identity, draw.to_bytes(IDENTITY_BYTES, "big"))
        return draw

    def own_identity(self, view: Snapshot) -> int:
        """0: it has none yet."""
        return int.from_bytes(view.get(self._identity) or b"", "big")

    def logged(self, view: Snapshot, key: bytes, rows: int, size: int) -> list[Proposal]:
        """What was committed for a key, newest first, among the last `rows` rows of the changelog, or fewer if they
        take more than `size` bytes. A rotten row ends the search: it is repaired, and this is for people."""
        found: list[Proposal] = []
        seen = 0
        try:
            for _, value in islice(scan(view, self._changelog, strinc(self._changelog), SCAN_ROWS, True), rows):
                if key in value and (entry := wire.decode_changelog_entry(value)).key == key:
                    found.append(entry.committed)
                seen += len(value)
                if seen > size:
                    break
        except RottenRow:
            pass
        return found

    def noted(self, view: Snapshot) -> dict[int, int]:
        rows = scan(view, self._noted, strinc(self._noted), SCAN_ROWS, False)
        return {number(key, self._noted): int.from_bytes(value, "big") for key, value in rows}

    def note(self, tx: Transaction, replica_id: int, identity: int) -> None:
        tx.set(self._noted + pack((replica_id,)), identity.to_bytes(IDENTITY_BYTES, "big"))

    def last_start(self, view: Snapshot) -> tuple[int, int]:
        """Counter and nonce; zeros before the first."""
        value = view.get(self._start)
        if value is None:
            return 0, 0
        counter, nonce = START_ROW.unpack(value)
        return counter, nonce

    def begin(self, tx: Transaction, counter: int, nonce: int) -> None:
        tx.set(self._start, START_ROW.pack(counter, nonce))

    def sightings(self, view: Snapshot) -> dict[int, Sighting]:
        rows = scan(view, self._sightings, strinc(self._sightings), SCAN_ROWS, False)
        return {number(key, self._sightings): sighting_of(value) for key, value in rows}

    def sighting_rows(self, sightings: Mapping[int, Sighting]) -> dict[bytes, bytes | None]:
        """For `Store.put`, or for `Store.remember` if only positions have changed."""
        return {
            self._sightings + pack((i,)): SIGHTING_ROW.pack(seen.store, seen.counter, seen.nonce, seen.position)
            for i, seen in sightings.items()
        }

    def refusal(self, view: Snapshot) -> str:
        """Empty: this store was not refused."""
        return (view.get(self._refused) or b"").decode()

    def refuse(self, tx: Transaction, reason: str) -> None:
        tx.set(self._refused, reason.encode())

    # Pages

    def _page(self, entries: Iterator[ChangelogEntry]) -> tuple[tuple[ChangelogEntry, ...], bool]:
        return fitting(entries, self.page_rows, MAX_PAGE_BYTES, entry_bytes)

    def stretch(self, view: Snapshot, after: bytes | None) -> Stretch:
        """The keys beyond this one, as many as make a page."""
        entries, more = self._page(self._held(view, after, None))
        return stretch(entries, entries[-1].key if more else None)

    def snapshot_page(self, view: Snapshot, request: SnapshotRead) -> SnapshotPage | CursorTruncated:
        mine = self.own_identity(view)
        if request.store not in (0, mine):
            return CursorTruncated()
        entries, more = self._page(self._held(view, request.after, request.held.until))
        if not more and is_same(request.held, entries):
            entries = ()
        return SnapshotPage(store=mine, entries=entries, cursor=self.newest(view), more=more)

    def _held(self, view: Snapshot, after: bytes | None, until: bytes | None) -> Iterator[ChangelogEntry]:
        for key, committed in self._keyspace.everything(view, b"", after, until):
            yield ChangelogEntry(key=key, committed=committed)

    def changelog_page(self, view: Snapshot, request: ChangelogRead) -> ChangelogPage | CursorTruncated:
        after = request.after
        if request.store != self.own_identity(view) or is_gone(after, self._keyspace.truncated(view)):
            return CursorTruncated()
        cursors: list[bytes] = []
        entries, more = self._page(self._learned(view, after, cursors))
        return ChangelogPage(entries=entries, cursor=cursors[len(entries) - 1] if entries else after, more=more)

    def _learned(self, view: Snapshot, after: bytes, cursors: list[bytes]) -> Iterator[ChangelogEntry]:
        begin = self._changelog + after + USER_VERSION + b"\x00"
        for row, value in scan(view, begin, strinc(self._changelog), SCAN_ROWS, False):
            cursors.append(self._stamp(row))
            yield wire.decode_changelog_entry(value)

    def unsettled_page(
        self, view: Snapshot, after: bytes | None, config: ClusterConfig, *, every: bool = False
    ) -> UnsettledPage:
        """Keys with votes that count and were given before this epoch, or in `every` epoch."""
        found = self._unsettled(view, after, config, config.epoch + every)
        keys = tuple(islice(found, self.page_rows))
        return UnsettledPage(keys=keys, more=next(found, None) is not None)

    def _unsettled(
        self, view: Snapshot, after: bytes | None, config: ClusterConfig, before: int
    ) -> Iterator[Unsettled]:
        """Votes of this epoch are finished by their proposers, so a change of members leaves them out."""
        begin = self._votes if after is None else self._votes + pack_bytes(after) + b"\x00"
        for row, value in scan(view, begin, strinc(self._votes), SCAN_ROWS, False):
            vote = wire.decode_vote(value)
            if vote.epoch < before and still_counts(vote, config):
                yield Unsettled(key=name(row, self._votes), version=vote.proposal.base + 1)

    def fast_votes_page(self, view: Snapshot, proposer: int, after: bytes | None) -> UnsettledPage:
        """Clients' keys with votes for proposals of this replica in the fast round, of any epoch."""
        found = self._fast_votes(view, fast_ballot(proposer), after)
        keys = tuple(islice(found, self.page_rows))
        return UnsettledPage(keys=keys, more=next(found, None) is not None)

    def _fast_votes(self, view: Snapshot, ballot: Ballot, after: bytes | None) -> Iterator[Unsettled]:
        begin = self._votes if after is None else self._votes + pack_bytes(after) + b"\x00"
        for row, value in scan(view, begin, self._votes + pack_bytes(FIRST_SYSTEM_KEY)[:-1], SCAN_ROWS, False):
            vote = wire.decode_vote(value)
            if vote.ballot == ballot:
                yield Unsettled(key=name(row, self._votes), version=vote.proposal.base + 1)

    # The changelog's ends

    def newest(self, view: Snapshot) -> bytes:
        rows = view.range(self._changelog, strinc(self._changelog), limit=1, reverse=True)
        return self._stamp(rows[0][0]) if rows else self._keyspace.truncated(view)

    def measured(self, view: Snapshot) -> ChangelogSize:
        """As it was last recorded; the rows beyond it are not counted."""
        try:
            truncated = self._keyspace.truncated(view)
        except RottenRow:
            truncated = self.first_kept(view, 0)
        try:
            value = view.get(self._measured) or b""
        except RottenRow:
            value = b""
        through, size = value[:STAMP_BYTES], int.from_bytes(value[STAMP_BYTES:], "big")
        is_known = through >= truncated
        return ChangelogSize(through=through if is_known else truncated, size=size if is_known else 0)

    def record(self, tx: Transaction, size: ChangelogSize) -> None:
        tx.set(self._measured, size.through + size.size.to_bytes(SIZE_BYTES, "big"))

    def measure(self, view: Snapshot, so_far: ChangelogSize, through: bytes, rows: int, room: int) -> ChangelogSize:
        """Count on, at most so many rows, and until `room` bytes are counted."""
        found = list(within(islice(self._rows(view, so_far.through, through), rows), room))
        size = sum([size for _, size in found])
        reached = through if len(found) < rows and size < room else found[-1][0]
        return ChangelogSize(through=reached, size=so_far.size + size)

    def expire(
        self, tx: Transaction, through: bytes, rows: int, room: int, known: ChangelogSize
    ) -> tuple[ChangelogSize, list[int]]:
        """Delete rows up to this stamp, the oldest first, at most so many, and until `room` bytes are gone. Returns the
        rest of what was `known`, and the sizes of these rows. A reader that has not read them begins again with a
        snapshot."""
        oldest = list(within(islice(self._rows(tx.snapshot, self._keyspace.truncated(tx), through), rows), room))
        if not oldest:
            return known, []
        for stamp, _ in oldest:
            tx.clear(self._changelog + stamp + USER_VERSION)
        last, sizes = oldest[-1][0], [size for _, size in oldest]
        tx.set(self._truncated, last)
        left = known.without(ChangelogSize(through=last, size=sum(sizes)))
        self.record(tx, left)
        return left, sizes

    def _rows(self, view: Snapshot, after: bytes, through: bytes) -> Iterator[tuple[bytes, int]]:
        """The stamps beyond one and up to another, with the sizes of their rows. Commits are numbered without gaps, and
        so are the rows of one, so each can be looked up: a range read would sort all rows that are not in the tree
        yet, except in a database."""
        if self.scans_changelog:
            begin, last = self._changelog + after + USER_VERSION, self._changelog + through + USER_VERSION
            for row, value in scan(view, begin + b"\x00", last + b"\x00", SCAN_ROWS, False):
                yield self._stamp(row), len(row) + len(value)
            return
        place, end = int.from_bytes(after, "big") + 1, int.from_bytes(through, "big")
        while place <= end:
            stamp = place.to_bytes(STAMP_BYTES, "big")
            row = self._changelog + stamp + USER_VERSION
            if (size := size_of(view, row)) is not None:
                yield stamp, size
                place += 1
            elif place >> INDEX_BITS < end >> INDEX_BITS:
                place = (place >> INDEX_BITS) + 1 << INDEX_BITS
            else:
                return

    def first_kept(self, view: Snapshot, newest_commit: int) -> bytes:
        """What the row TRUNCATED may say after it was lost: that all before the first row of the changelog was deleted.
        Readers further back begin again with a snapshot."""
        try:
            rows = view.range(self._changelog, strinc(self._changelog), limit=1)
        except RottenRow as first:
            rows = [(first.key, b"")]
        if not rows:
            return last_of(newest_commit)
        return (int.from_bytes(self._stamp(rows[0][0]), "big") - 1).to_bytes(STAMP_BYTES, "big")

    def _stamp(self, row: bytes) -> bytes:
        start = len(self._changelog)
        return row[start : start + STAMP_BYTES]


def sighting_of(row: bytes) -> Sighting:
    store, counter, nonce, position = SIGHTING_ROW.unpack(row)
    return Sighting(store=store, counter=counter, nonce=nonce, position=position)


def size_of(view: Snapshot, row: bytes) -> int | None:
    """Of key and value. A rotten row has a key, and can still be deleted."""
    try:
        value = view.get(row)
    except RottenRow:
        return len(row)
    return len(row) + len(value) if value is not None else None


def is_same(held: Stretch, entries: tuple[ChangelogEntry, ...]) -> bool:
    return held.count == len(entries) and held.digest == digest(entries)


def within(rows: Iterator[tuple[bytes, int]], room: int) -> Iterator[tuple[bytes, int]]:
    """Up to the row with which `room` is used up."""
    for stamp, size in rows:
        if room <= 0:
            return
        yield stamp, size
        room -= size


def is_gone(after: bytes, truncated: bytes) -> bool:
    return after < truncated


def name(row: bytes, prefix: bytes) -> bytes:
    (found,) = unpack(row[len(prefix) :])
    assert isinstance(found, bytes)
    return found


def number(row: bytes, prefix: bytes) -> int:
    (found,) = unpack(row[len(prefix) :])
    assert isinstance(found, int)
    return found


def entry_bytes(entry: ChangelogEntry) -> int:
    return len(entry.key) + len(entry.committed.value or b"")


def fitting(items: Iterator[T], rows: int, room: int, size_of: Callable[[T], int]) -> tuple[tuple[T, ...], bool]:
    """As many as fit, at least one, and whether there are more."""
    page: list[T] = []
    for item in items:
        if page and (len(page) >= rows or room <= 0):
            return tuple(page), True
        page.append(item)
        room -= size_of(item)
    return tuple(page), False
