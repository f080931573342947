"""Durations and sizes, counted in buckets as Prometheus has them."""

from bisect import bisect_left
from itertools import accumulate

BUCKETS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 1, 3, 10)
"""Seconds. From a local answer (0.1 ms) over the round trips between continents (close together from 50 to 300 ms) to
the last retry of a write that gets no answers (16 s). A good disk syncs in the first of them."""


class Histogram:
    def __init__(self, bounds: tuple[float, ...] = BUCKETS) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float, count: int = 1) -> None:
        self.counts[bisect_left(self.bounds, value)] += count
        self.sum += value * count

    def buckets(self) -> list[tuple[str, float]]:
        """As Prometheus has them: each includes those below."""
        return list(zip((*map(str, self.bounds), "+Inf"), accumulate(self.counts), strict=True))
