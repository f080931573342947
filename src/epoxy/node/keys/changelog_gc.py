"""Deletes rows of the changelog that no reader needs, a few at a time, in the background."""

from collections import deque
from functools import partial

from epoxy.model.members import NO_STAMP, ChangelogRead, MemberReply, SnapshotPage, SnapshotRead
from epoxy.node.keys.replica import Replica
from epoxy.ports import Clock, Store, Timer
from epoxy.protocol.members.retention import Reader, RetentionFloor, last_of, removable
from epoxy.store.member_rows import MemberSpace

FLOOR = RetentionFloor(commits=1_000_000, age_ms=600_000.0)
"""A stream of changes whose reader is gone for ten minutes goes on where it was, and so does one that is gone for days
where little is written. 10,000 commits a second make this a gigabyte."""

LOOK_MS = 1_000.0
"""Between two passes when there is nothing to delete."""

SWEPT_ROWS = 512
"""In one transaction: some 3 ms of the event loop."""

SHARE = 0.1
"""Of the time, while there are rows to delete. A row is deleted five times as fast as a commit adds one, so this keeps
up with a node that spends half of its time on commits."""

MARKS = 16
"""Points in time that are kept to tell the age of rows: rows stay up to a sixteenth of the age longer."""


class ChangelogGc:
    def __init__(self, replica: Replica, store: Store, space: MemberSpace, clock: Clock) -> None:
        self._replica = replica
        self._store = store
        self._space = space
        self._clock = clock
        self.floor = FLOOR
        self.look_ms = LOOK_MS
        self.swept = 0
        self.readers: dict[int, Reader] = {}
        """By replica, since this process began. Only those of the configuration count."""
        self._marks: deque[tuple[float, bytes]] = deque()
        self._timer: Timer | None = None

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
        elif request.after is None and isinstance(reply, SnapshotPage):
            cursor = reply.cursor
        if cursor is not None:
            self.readers[request.reader] = Reader(cursor=cursor, asked_ms=self._clock.now_ms())

    def _look(self) -> None:
        """An exception must not end the passes."""
        begun_ms, rest_ms = self._clock.now_ms(), self.look_ms
        try:
            through = self._through(begun_ms)
            swept = self._store.transact(partial(self._space.expire, through=through, limit=SWEPT_ROWS))
            self.swept += swept
            if swept == SWEPT_ROWS:
                rest_ms = (self._clock.now_ms() - begun_ms) * (1 / SHARE - 1)
        finally:
            self._timer = self._clock.call_later(rest_ms, self._look)

    def _through(self, now_ms: float) -> bytes:
        newest = last_of(self._store.newest_stamp())
        aged = self._aged(now_ms, newest)
        return removable(
            self._replica.config, self.readers, now_ms, newest=newest, aged=aged, commits=self.floor.commits
        )

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
