"""How long fast rounds took lately, queues and disks included.

The round trip of a link says how far away a peer is, not how busy. A proposer that takes a busy peer for a silent one
leaves the fast round for a classic one, which is three times the work, when there is too much work already.
"""

from epoxy.model.writes import Path
from epoxy.node.observer import Observer, Unobserved


class RoundLatency:
    """An Observer. Failed rounds are not counted: they do not tell how long a good one takes."""

    def __init__(self) -> None:
        self.then: Observer = Unobserved()
        self._seconds = 0.0
        self._count = 0

    def mean_ms(self) -> float:
        """Of the fast rounds since the last call; 0 if there were none."""
        mean_ms = self._seconds / self._count * 1000 if self._count else 0.0
        self._seconds, self._count = 0.0, 0
        return mean_ms

    def proposal_done(
        self, outcome: str, path: Path | None, seconds: float, *, prepares: int = 0, retries: int = 0, bumps: int = 0
    ) -> None:
        if path is Path.FAST:
            self._seconds += seconds
            self._count += 1
        self.then.proposal_done(outcome, path, seconds, prepares=prepares, retries=retries, bumps=bumps)
