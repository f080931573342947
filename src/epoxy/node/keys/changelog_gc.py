"""Deletes rows of the changelog that no reader needs, and those that take more of the disk than they may: a few at a
time, in the background.

What the rows take is known without reading them. The store counts the bytes that it stamps; what each removed row had
is subtracted in the transaction that removes it, which records the rest. After a start, rows beyond the last record are
read once, a few at a time.
"""

from collections import deque
from collections.abc import Callable
from functools import partial

from epoxy.model.errors import StoreUnavailable
from epoxy.model.members import NO_STAMP, ChangelogRead, MemberReply, SnapshotPage, SnapshotRead
from epoxy.node.keys.replica import Replica
from epoxy.ports import Clock, Store, Timer
from epoxy.protocol.members.retention import (
    Reader,
    RetentionCeiling,
    RetentionFloor,
    ceiling,
    last_of,
    learners,
    removable,
)
from epoxy.store.member_rows import ChangelogSize, MemberSpace, is_gone

FLOOR = RetentionFloor(commits=1_000_000, age_ms=600_000.0)
"""A stream of changes whose reader is gone for ten minutes goes on where it was, and so does one that is gone for days
where little is written. 10,000 commits a second make this a gigabyte."""

LOOK_MS = 1_000.0
"""Between two passes when there is nothing to delete."""

SWEPT_ROWS = 512
"""In one transaction: some 3 ms of the event loop."""

SWEPT_BYTES = 4 << 20
"""Read to be removed, or counted, in one pass: some 3 ms, too."""

RECORD_BYTES = 16 << 20
"""Committed between two records of the size: what a start has to read, at most, beside the last second."""

SHARE = 0.1
"""Of the time, while there are rows to delete. A row is deleted five times as fast as a commit adds one, so this keeps
up with a node that spends half of its time on commits."""

CROWDED_SHARE = 0.5
"""While they take more than they may: large values are committed as fast as the disk writes."""

MARKS = 16
"""Points in time that are kept to tell the age of rows: rows stay up to a sixteenth of the age longer."""


class ChangelogGc:
    def __init__(self, replica: Replica, store: Store, space: MemberSpace, clock: Clock) -> None:
        self._replica = replica
        self._store = store
        self._space = space
        space.scans_changelog = store.loads_ahead
        self._clock = clock
        self.floor = FLOOR
        self.ceiling: Callable[[], RetentionCeiling] = partial(ceiling, 0, None)
        self.look_ms = LOOK_MS
        self.swept = 0
        self.readers: dict[int, Reader] = {}
        """By replica, since this process began. Only those of the configuration count."""
        self._marks: deque[tuple[float, bytes]] = deque()
        self._timer: Timer | None = None
        self._size = space.measured(store.newest())
        self._begun = last_of(store.newest_stamp())
        """Rows up to here were not counted by the store since this began: they are read, unless `_size` has them."""
        self._counted = store.stamped_bytes()
        """Of the bytes that the store has stamped, those that are in `_size`."""
        self._recorded = self._counted
        """And those that were when it was last recorded."""

    @property
    def kept_bytes(self) -> int:
        """What the rows take. For a moment after a start, as far as it is known."""
        return self._size.size + self._store.stamped_bytes() - self._counted

    @property
    def is_measured(self) -> bool:
        return self._size.through >= self._begun

    def start(self) -> None:
        self._timer = self._clock.call_later(self.look_ms, self._look)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def served(self, request: SnapshotRead | ChangelogRead, reply: MemberReply) -> None:
        """Note a reader's position. In the middle of a snapshot it is where that began: the reader goes on from
        there."""
        known = self.readers.get(request.reader)
        cursor = known.cursor if known is not None else None
        if isinstance(request, ChangelogRead):
            cursor = request.after
        elif request.after is None and isinstance(reply, SnapshotPage) and not self._has_place(request.reader):
            cursor = reply.cursor
        if cursor is not None:
            self.readers[request.reader] = Reader(cursor=cursor, asked_ms=self._clock.now_ms())

    def _has_place(self, reader: int) -> bool:
        """Whether a learner can go on from where it was. Then the beginning of a snapshot does not move its place: it
        may be an earlier request of its, which it has given up and which arrives late, and it reads on below. Others
        begin a snapshot whenever they compare."""
        known = self.readers.get(reader)
        if known is None or reader not in learners(self._replica.config):
            return False
        return not is_gone(known.cursor, self._replica.keyspace.truncated(self._store.newest()))

    def remove(self, through: bytes, rows: int, room: int) -> int:
        """The oldest rows up to this stamp, at most so many, and until `room` bytes are gone; returns these. None
        beyond those that are still to be measured, so that no row is counted and not subtracted."""
        self._include_stamped()
        through = through if self.is_measured else min(through, self._begun)
        self._size, sizes = self._store.transact(
            partial(self._space.expire, through=through, rows=rows, room=room, known=self._size)
        )
        self.swept += len(sizes)
        self._recorded = self._counted if sizes else self._recorded
        return sum(sizes)

    def _look(self) -> None:
        """An exception must not end the passes. Without the database there is nothing to do in one."""
        begun_ms, rest_ms = self._clock.now_ms(), self.look_ms
        try:
            measuring, removing = self._measure_some(), self._remove_some(begun_ms)
            if measuring or removing:
                share = CROWDED_SHARE if self.kept_bytes > self.ceiling().size else SHARE
                rest_ms = (self._clock.now_ms() - begun_ms) * (1 / share - 1)
            elif self._counted - self._recorded >= RECORD_BYTES:
                self._recorded = self._counted
                self._store.transact(partial(self._space.record, size=self._size))
        except StoreUnavailable:
            rest_ms = self.look_ms
        finally:
            self._timer = self._clock.call_later(rest_ms, self._look)

    def _measure_some(self) -> bool:
        """Whether there is more to read."""
        if not self.is_measured:
            view = self._store.newest()
            self._size = self._space.measure(view, self._size, self._begun, SWEPT_ROWS, SWEPT_BYTES)
        return not self.is_measured

    def _include_stamped(self) -> None:
        if self.is_measured:
            stamped = self._store.stamped_bytes()
            size = self._size.size + stamped - self._counted
            self._size = ChangelogSize(through=last_of(self._store.newest_stamp()), size=size)
            self._counted = stamped

    def _remove_some(self, now_ms: float) -> bool:
        """Whether there may be more."""
        newest, swept, gone = last_of(self._store.newest_stamp()), self.swept, 0
        for removal in removable(
            self._replica.config,
            self.readers,
            now_ms,
            newest=newest,
            aged=self._aged(now_ms, newest),
            commits=self.floor.commits,
            kept=self.kept_bytes,
            most=self.ceiling(),
        ):
            room = min(SWEPT_BYTES, removal.size) - gone
            if room > 0:
                gone += self.remove(removal.through, SWEPT_ROWS, room)
        return self.swept - swept >= SWEPT_ROWS or gone >= SWEPT_BYTES

    def _aged(self, now_ms: float, newest: bytes) -> bytes:
        """Rows have no time stamp: a row is as old as the first pass that saw it, and after a start all are new."""
        if not self.floor.age_ms:
            return newest
        if not self._marks or now_ms - self._marks[-1][0] >= self.floor.age_ms / MARKS:
            self._marks.append((now_ms, newest))
        while len(self._marks) > 1 and now_ms - self._marks[1][0] >= self.floor.age_ms:
            self._marks.popleft()
        at_ms, stamp = self._marks[0]
        return stamp if now_ms - at_ms >= self.floor.age_ms else NO_STAMP
