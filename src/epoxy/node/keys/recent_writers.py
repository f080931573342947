"""Keys that were read here while another replica was writing them, and which one.

A read that meets votes of a proposer outside its quorum has to ask it, too. The next reads of such a key ask it at
once, and save a round trip.
"""

from collections.abc import Mapping

from epoxy.model.records import KeyState, Vote
from epoxy.ports import Clock

REMEMBERED_MS = 3_000.0
"""After the last commit: a key that is written once a minute is quiet when it is read."""

MAX_KEYS = 4_096
"""As many as are read at 1,000 a second while they are remembered, and a few hundred KiB."""


class RecentWriters:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._writers: dict[bytes, tuple[int, float]] = {}

    def saw(self, key: bytes, votes: Mapping[int, Vote]) -> None:
        """These votes were in flight when the key was read."""
        if len(self._writers) >= MAX_KEYS and key not in self._writers:
            del self._writers[next(iter(self._writers))]
        self._note(key, max([vote.ballot for vote in votes.values()]).replica_id)

    def committed(self, key: bytes, _before: KeyState, after: KeyState) -> None:
        """A watcher of the replica's commits."""
        if key in self._writers and after.committed is not None:
            self._note(key, after.committed.home)

    def knows(self, key: bytes) -> bool:
        return key in self._writers

    def of(self, key: bytes) -> int | None:
        known = self._writers.get(key)
        if known is None:
            return None
        writer, until_ms = known
        if self._clock.now_ms() > until_ms:
            del self._writers[key]
            return None
        return writer

    def _note(self, key: bytes, writer: int) -> None:
        self._writers[key] = (writer, self._clock.now_ms() + REMEMBERED_MS)
