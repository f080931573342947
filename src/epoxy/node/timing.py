"""Timeouts that follow the measured round trips, and the order in which peers are asked."""

import math
from collections.abc import Callable, Sequence
from typing import Protocol

from epoxy.model import floors
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

LONGEST_TURN_MS = 50.0
NEAR_BACKOFF_MS = 10.0
"""Coordinators of transactions take turns for the same keys if the farthest of them is within 20 ms: a turn costs each
of them half a round trip, proposing at the same moment costs a second round and twice the messages. Between continents
waiting for all others takes longer than the second round."""

READ_HEDGE_FACTOR, READ_HEDGE_MS = 1.2, 15.0
"""Of what the nearest quorum took of late, and the jitter of busy processes. Sooner, the other voters would be asked
for nothing; later, a replica that has stopped would cost more than their distance."""

LATE_MS = 5.0
"""A request leaves a little after its read began. When the hedge is over, what it waits for must count as late."""

USUAL_LAG_MS = 25.0
"""A good disk syncs in less, and which of two good disks is better changes from one moment to the next."""

SAME_DISTANCE_MS = 2.0
"""Smaller differences between round trips are noise."""

RANKS, RANKS_EACH = 60, 6
"""Six for each halving of the distance to a quorum, from a second down to a millisecond. Rivals that are closer to each
other than that, a ninth, differ by their ids."""

UNKNOWN_RTT_MS = 300.0
"""A peer that has not been measured yet may be on the other side of the world."""


class Links(Transport, Protocol):
    """The transport, and what it knows of the peers."""

    ticked: Callable[[], None]
    """Called a few times a second, after the links were looked through for answers that are overdue."""

    def rtt_ms(self, peer: int) -> float | None: ...

    def lag_ms(self, peer: int) -> float:
        """How much longer than the round trip its answers took of late."""

    def waited_ms(self, peer: int) -> float:
        """For the oldest answer that is outstanding; 0: none is."""

    def silent_ms(self, peer: int) -> float:
        """Since its last answer."""

    def reachable(self, peer: int) -> bool: ...

    def trouble(self, peer: int) -> str:
        """Why it is not reachable."""


def key_timing(config: ClusterConfig, me: int, links: Links, mean_round_ms: float, sync_ms: float = 0.0) -> Timing:
    """If a near replica falls silent, one farther away completes the fast round. So the hedge waits for the farthest:
    leaving the fast round early would cost two more round trips to save a part of one. `sync_ms`: how long a sync of
    this replica's disk takes at the most."""
    peers = config.others(me)
    costs = {peer: cost_ms(peer, links) for peer in peers}
    farthest = max((UNKNOWN_RTT_MS if cost is None else cost for cost in costs.values()), default=0.0)
    busy = BUSY_FACTOR * mean_round_ms
    hedge = min(LONGEST_HEDGE_MS, max(HEDGE_FACTOR * farthest + SHORTEST_HEDGE_MS, busy))
    near = by_distance(peers, me, links, sync_ms)
    return Timing(
        hedge_ms=hedge,
        read_hedge_ms=min(hedge, READ_HEDGE_FACTOR * quorum_ms(config, me, near, links) + READ_HEDGE_MS),
        round_timeout_ms=max(SHORTEST_ROUND_MS, 2 * farthest + 4 * SHORTEST_HEDGE_MS, 2 * min(busy, hedge)),
        backoff_ms=min(LONGEST_BACKOFF_MS, max(SHORTEST_BACKOFF_MS, farthest / 2)),
        near=near,
        rank=rank(floor_ms(config, me, links)),
    )


def cost_ms(peer: int, links: Links) -> float | None:
    """What a request to this peer costs: the way, and how long its disk or its queue makes it wait beyond what is
    usual. None: not measured yet."""
    rtt = links.rtt_ms(peer)
    return rtt + max(0.0, links.lag_ms(peer) - USUAL_LAG_MS) if rtt is not None else None


def quorum_ms(config: ClusterConfig, me: int, near: Sequence[int], links: Links) -> float:
    """What the nearest slow quorum took of late, at the most."""
    order = near if me in near else (me, *near)
    asked = [peer for peer in order[: config.quorums.slow] if peer != me]
    return max([(links.rtt_ms(peer) or 0.0) + links.lag_ms(peer) for peer in asked], default=0.0)


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


def by_distance(peers: Sequence[int], me: int, links: Links, sync_ms: float = 0.0) -> tuple[int, ...]:
    """Those that are reachable, the nearest first, and last those that owe an answer for longer than they usually take.
    This replica is the nearest, and not listed, unless its disk is slow: then it has its place among the others. Peers
    of one distance, as in one building, share the load: each replica begins with the next after it."""
    known: list[tuple[bool, float, bool, int]] = []
    for peer in peers:
        cost = cost_ms(peer, links) if links.reachable(peer) else None
        if cost is not None:
            usual = (links.rtt_ms(peer) or 0.0) + links.lag_ms(peer)
            is_late = links.waited_ms(peer) > READ_HEDGE_FACTOR * usual + READ_HEDGE_MS - LATE_MS
            known.append((is_late, cost // SAME_DISTANCE_MS, peer < me, peer))
    if sync_ms > USUAL_LAG_MS:
        known.append((False, (sync_ms - USUAL_LAG_MS) // SAME_DISTANCE_MS, False, me))
    return tuple(peer for *_, peer in sorted(known))


def floor_ms(config: ClusterConfig, me: int, links: Links) -> float | None:
    """The round trip to the farthest of the nearest peers that make a fast quorum with this replica."""
    rtts = [links.rtt_ms(peer) for peer in config.active if peer != me and links.reachable(peer)]
    return floors.quorum_ms([rtt for rtt in rtts if rtt is not None], config.quorums.fast)
