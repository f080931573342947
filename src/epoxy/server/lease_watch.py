"""Whether the nodes of a datacenter have the same `store.lease_ms`: one whose lease is much shorter than that of others
is taken for slow or dead by them, and gets no shards.

The table has what is left of each lease. A lease is renewed before a fifth of it is over, so the most that is seen of
one for a while is nearly all of it. Sessions without shards are left out: one that begins has half a lease. So has one
that ends, for a while; a difference that passes is not told.
"""

from collections.abc import Callable

from epoxy.ports import Clock, Timer
from epoxy.store.shared.database import ShardTable

LOOK_MS = 500.0
"""Between two looks at the table, which is read four times a second."""

LOOKS = 60
"""That a difference must last: longer than a node has to end."""

LEAST, MOST = 0.7, 1.25
"""Of the own lease. A fifth of a lease may be over when the table is read."""


class LeaseWatch:
    """`differs` is called once for each session: with its URL, and the lease that it has, about."""

    def __init__(
        self,
        table: Callable[[], ShardTable],
        clock: Clock,
        *,
        session: int,
        lease_ms: float,
        differs: Callable[[str, float], None],
    ) -> None:
        self._table = table
        self._clock = clock
        self._session = session
        self._lease_ms = lease_ms
        self._differs = differs
        self._seen: dict[int, tuple[int, float]] = {}
        """Of each other session: how often it was seen, and the most that was left of its lease."""
        self._timer: Timer | None = None

    def start(self) -> None:
        self._timer = self._clock.call_later(LOOK_MS, self._look)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        self.start()
        table, before = self._table(), self._seen
        rows = [row for row in table.sessions if row.id != self._session and row.id in table.owners]
        self._seen = {row.id: self._added(before.get(row.id, (0, 0.0)), row.left_ms) for row in rows}
        for row in rows:
            count, most_ms = self._seen[row.id]
            if count == LOOKS and not LEAST <= most_ms / self._lease_ms <= MOST:
                self._differs(row.url, most_ms)

    def _added(self, before: tuple[int, float], left_ms: float) -> tuple[int, float]:
        """A lease that is longer is so at the first look."""
        count, most_ms = before
        is_longer = count < LOOKS and left_ms > MOST * self._lease_ms
        return LOOKS if is_longer else count + 1, max(most_ms, left_ms)
