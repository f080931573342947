"""Keys that a process holds from before its start, and that others may have written often while it was away.

A write that is proposed on top of a version which is many decisions old is refused with the newest ones, of which a
replica remembers eight. If there were more, no replica can say whether the write is among them, and its outcome is
unknown (decision 0007): of a client that only came back to its node after a restart. So for a while after a restart the
first write of each key reads the newest version from a quorum before anything is put forward, one round trip more.
"""

from epoxy.ports import Clock

CATCH_UP_MS = 60_000.0
"""After a start. Clients come back within seconds. What was written while the node was away, and nowhere since, is
found by comparing with the others."""

MAX_HEARD = 65_536
"""Keys that were heard of since the start, some 10 MB. Further ones read first, each time, which costs them a round
trip and nothing else."""


class StaleKeys:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until_ms = 0.0
        self._heard: set[bytes] = set()

    @property
    def is_watching(self) -> bool:
        return self._until_ms > 0

    def begin(self) -> None:
        """This process has the rows of an earlier one."""
        self._until_ms = self._clock.now_ms() + CATCH_UP_MS

    def committed(self, key: bytes) -> None:
        """A decision was learned, or made: what is known here is not from before the start."""
        if self._until_ms:
            self._note(key)

    def is_first(self, key: bytes) -> bool:
        """Whether a write of this key has to read first. Asked once before its first round."""
        if not self._until_ms or key in self._heard:
            return False
        if self._clock.now_ms() > self._until_ms:
            self._until_ms = 0.0
            self._heard.clear()
            return False
        self._note(key)
        return True

    def _note(self, key: bytes) -> None:
        if len(self._heard) < MAX_HEARD:
            self._heard.add(key)
