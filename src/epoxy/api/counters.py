"""Counters of the hot paths, where every write and every frame passes: counting raises an entry of a dict or a list."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from epoxy.codec.plain_requests import kind_of
from epoxy.model.histogram import Histogram
from epoxy.model.writes import Path

NAMES: dict[Path | None, str] = {None: "none", **{path: path.value for path in Path}}
"""A member's `value` takes two calls."""

Requests = Mapping[tuple[str, str], int]
"""Counts by type and result."""


class Counters:
    """An Observer."""

    def __init__(self, elsewhere: Callable[[], Requests] = dict) -> None:
        """`elsewhere` returns the requests that the fastest paths count themselves."""
        self._elsewhere = elsewhere
        self.proposals: dict[tuple[str, str], int] = {}
        self.proposal_seconds = Histogram()
        self.prepares = self.retries = self.bumps = 0
        self.requests: dict[tuple[str, str], int] = {}
        self.request_seconds: dict[str, Histogram] = {}

    def proposal_done(
        self, outcome: str, path: Path | None, seconds: float, *, prepares: int = 0, retries: int = 0, bumps: int = 0
    ) -> None:
        pair = (outcome, NAMES[path])
        self.proposals[pair] = self.proposals.get(pair, 0) + 1
        self.proposal_seconds.observe(seconds)
        self.prepares += prepares
        self.retries += retries
        self.bumps += bumps

    def requests_handled(self, requests: Sequence[object], replies: Sequence[object], seconds: float) -> None:
        """Requests of one frame, whose replies left in one frame: each took as long."""
        pairs: dict[tuple[str, type], int] = {}
        for request, reply in zip(requests, replies, strict=True):
            pair = (kind_of(request), type(reply))
            pairs[pair] = pairs.get(pair, 0) + 1
        for (kind, result), count in pairs.items():
            self.request_handled(kind, result.__name__, seconds, count)

    def request_handled(self, request_type: str, result: str, seconds: float, count: int = 1) -> None:
        pair = (request_type, result)
        self.requests[pair] = self.requests.get(pair, 0) + count
        histogram = self.request_seconds.get(request_type)
        if histogram is None:
            histogram = self.request_seconds[request_type] = Histogram()
        histogram.observe(seconds, count)

    def all_requests(self) -> Requests:
        return Counter(self.requests) + Counter(self._elsewhere())

    def took(self, path: Path) -> int:
        """Writes that took this path."""
        return sum(count for (_, taken), count in self.proposals.items() if taken == path.value)
