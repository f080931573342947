"""Rows of the changelog go when nobody needs them: a few at a time, beside everything else."""

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
"""Between two looks when nothing is to be done."""

SWEPT_ROWS = 512
"""At a time: some 3 ms of the event loop."""

SHARE = 0.1
"""Of the time, while there is something to do. Rows go about five times as fast as commits bring them, so this keeps up
with a node that does nothing but commit half of the time."""

MARKS = 16
"""How many points in time are remembered to tell how old rows are: they stay a sixteenth of the age longer."""


class Sweeper:
    def __init__(self, replica: Replica, store: Store, space: MemberSpace, clock: Clock) -> None:
        self._replica = replica
        self._store = store
        self._space = space
        self._clock = clock
        self.floor = FLOOR
        self.look_ms = LOOK_MS
        self.swept = 0
        self.readers: dict[int, Reader] = {}
        """As many as have ever been members while this process runs; those of the configuration are asked for."""
        self._marks: deque[tuple[float, bytes]] = deque()
        self._timer: Timer | None = None

    def start(self) -> None:
        self._timer = self._clock.call_later(self.look_ms, self._look)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def served(self, request: SnapshotRead | ChangelogRead, reply: MemberReply) -> None:
        """Where a reader stands. In the middle of a snapshot it is where that began: it reads on from there."""
        known = self.readers.get(request.reader)
        cursor = known.cursor if known is not None else None
        if isinstance(request, ChangelogRead):
            cursor = request.after
        elif request.after is None and isinstance(reply, SnapshotPage):
            cursor = reply.cursor
        if cursor is not None:
            self.readers[request.reader] = Reader(cursor=cursor, asked_ms=self._clock.now_ms())

    def _look(self) -> None:
        """One that raises is not the last."""
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
        """How old a row is is not written down: it is as old as the first look that saw it. After a start everything is
        new."""
        if not self.floor.age_ms:
            return newest
        if not self._marks or now_ms - self._marks[-1][0] >= self.floor.age_ms / MARKS:
            self._marks.append((now_ms, newest))
        while len(self._marks) > 1 and now_ms - self._marks[1][0] >= self.floor.age_ms:
            self._marks.popleft()
        at_ms, stamp = self._marks[0]
        return stamp if now_ms - at_ms >= self.floor.age_ms else NO_STAMP
