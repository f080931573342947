"""Which of two servers is the primary: each promotion begins a new timeline, with a higher number.

After a failover the old primary may go on, and a node may have connections to both: those that were lost lead to the
new one, the others still to the old. Its batches go to one server then, and rows that it loads would come from the
other, without what it wrote since. So its connections share what is here: as soon as one of them has reached a newer
timeline, nothing is asked of an older one any more, and an answer that is under way there does not count.
"""

from typing import Any

from epoxy.model.errors import StoreUnavailable

TIMELINE = "SELECT left(pg_walfile_name(pg_current_wal_lsn()), 8)"
"""Of the log that the server writes now, in sixteens. What its last checkpoint says may be that of before a
promotion."""


class NewestTimeline:
    """Of all that connections of a node have reached. Threads share it: it is one number, which only rises."""

    def __init__(self) -> None:
        self._newest = 0

    def is_past(self, timeline: int) -> bool:
        return timeline < self._newest

    async def admit(self, connection: Any) -> int:
        """The timeline of the server that was connected to. Raises StoreUnavailable: it is an old primary."""
        timeline = int(await connection.fetchval(TIMELINE), 16)
        if self.is_past(timeline):
            raise StoreUnavailable(
                f"the server is an old primary: it writes timeline {timeline}, and {self._newest} has begun elsewhere"
            )
        self._newest = timeline
        return timeline
