"""Timeouts that follow the measured round trips, and the order in which peers are asked."""

import math
from collections.abc import Sequence
from typing import Protocol

from epoxy.model.cluster import ClusterConfig
from epoxy.ports import Transport
from epoxy.protocol.effects import Timing
from epoxy.protocol.txn.effects import TxnTiming

SHORTEST_HEDGE_MS = 25.0
HEDGE_FACTOR = 1.5
LONGEST_HEDGE_MS = 3000.0
"""Below the shortest, a busy event loop would be taken for a slow link; above the longest, a person would give up."""

BUSY_FACTOR = 3.0
"""Times the mean duration of recent fast rounds: under load, one in a hundred takes as long. With 512 writes under way
and a hedge of 40 ms every second write left its fast round, and throughput fell to a half."""

SHORTEST_ROUND_MS = 500.0
"""A disk may pause for as long now and then, however near its datacenter is."""

SHORTEST_BACKOFF_MS, LONGEST_BACKOFF_MS = 3.0, 100.0
"""Rivals should be out of each other's way after about half a round: longer loses time, shorter collides again."""

LONGEST_TURN_MS = 25.0
NEAR_BACKOFF_MS = 10.0
"""Coordinators of transactions take turns for the same keys if the farthest of them is within 20 ms: a turn costs each
of them half a round trip, proposing at the same moment costs a second round and twice the messages. Between continents
waiting for all others takes longer than the second round."""

SAME_DISTANCE_MS = 2.0
"""Smaller differences between round trips are noise."""

RANKS, RANKS_EACH = 60, 6
"""Six for each halving of the distance to a quorum, from a second down to a millisecond. Rivals that are closer to each
other than that, a ninth, differ by their ids."""

UNKNOWN_RTT_MS = 300.0
"""A peer that has not been measured yet may be on the other side of the world."""


class Links(Transport, Protocol):
    """The transport, and what it knows of the peers."""

    def rtt_ms(self, peer: int) -> float | None: ...

    def reachable(self, peer: int) -> bool: ...

    def trouble(self, peer: int) -> str:
        """Why it is not reachable."""


def key_timing(config: ClusterConfig, me: int, links: Links, mean_round_ms: float) -> Timing:
    """If a near replica falls silent, one farther away completes the fast round. So the hedge waits for the farthest:
    leaving the fast round early would cost two more round trips to save a part of one."""
    peers = config.others(me)
    rtts = [links.rtt_ms(peer) for peer in peers]
    farthest = max((UNKNOWN_RTT_MS if rtt is None else rtt for rtt in rtts), default=0.0)
    busy = BUSY_FACTOR * mean_round_ms
    hedge = min(LONGEST_HEDGE_MS, max(HEDGE_FACTOR * farthest + SHORTEST_HEDGE_MS, busy))
    return Timing(
        hedge_ms=hedge,
        round_timeout_ms=max(SHORTEST_ROUND_MS, 2 * farthest + 4 * SHORTEST_HEDGE_MS, 2 * min(busy, hedge)),
        backoff_ms=min(LONGEST_BACKOFF_MS, max(SHORTEST_BACKOFF_MS, farthest / 2)),
        near=by_distance(peers, me, links),
        rank=rank(floor_ms(config, me, links)),
    )


def rank(floor: float | None) -> int:
    """Of this replica among rivals that begin a classic round together, by how far a quorum is."""
    return max(0, int(RANKS - RANKS_EACH * math.log2(max(1.0, floor)))) if floor is not None else 0


def txn_timing(timing: Timing) -> TxnTiming:
    return TxnTiming(
        hedge_ms=timing.hedge_ms,
        round_timeout_ms=timing.round_timeout_ms,
        recover_ms=timing.round_timeout_ms,
        backoff_ms=timing.backoff_ms,
        turn_ms=LONGEST_TURN_MS if timing.backoff_ms <= NEAR_BACKOFF_MS else 0.0,
    )


def by_distance(peers: Sequence[int], me: int, links: Links) -> tuple[int, ...]:
    """Those that are reachable, the nearest first. Peers of one distance, as in one building, share the load: each
    replica begins with the next after it."""
    known = [
        (rtt // SAME_DISTANCE_MS, peer < me, peer)
        for peer in peers
        if links.reachable(peer) and (rtt := links.rtt_ms(peer)) is not None
    ]
    return tuple(peer for _, _, peer in sorted(known))


def floor_ms(config: ClusterConfig, me: int, links: Links) -> float | None:
    """The round trip to the farthest of the nearest peers that make a fast quorum with this replica."""
    rtts = [links.rtt_ms(peer) for peer in config.active if peer != me and links.reachable(peer)]
    known = sorted(rtt for rtt in rtts if rtt is not None)
    need = config.quorums.fast - 1
    if need == 0:
        return 0.0
    return known[need - 1] if len(known) >= need else None
