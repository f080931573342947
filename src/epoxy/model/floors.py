"""The least latency that distances allow: the round trip to the farthest of the nearest replicas that make a quorum.

Nodes report it of their links, the demo and the planner of tables of round trips, benchmarks of what they measure
against: all of them ask here.
"""

from collections.abc import Iterable


def quorum_ms(trips_ms: Iterable[float], size: int) -> float | None:
    """`trips_ms`: the round trips from a replica to the others within reach. `size`: of the quorum, which the replica
    is a part of. None: too few are within reach."""
    if size <= 1:
        return 0.0
    nearest = sorted(trips_ms)
    return nearest[size - 2] if len(nearest) >= size - 1 else None
