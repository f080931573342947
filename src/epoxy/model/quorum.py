"""Quorum arithmetic, all of it.

Slow quorums are majorities. A fast quorum is n - e: the fast path still works with e replicas missing.

`optimal` is the known optimum for leaderless consensus whose proposers are replicas themselves,
n >= max(2e + f - 1, 2f + 1) (Ryabinin, Gotsman, Sutra, "Revisiting Lower Bounds for Two-Step Consensus"). It needs only
2*fast + slow > 2n - 2, where Fast Paxos (Lamport 2006, section 2.2) needs > 2n. Two rules of the proposer buy the
difference of 2: it votes for itself before it asks other replicas, and it does not commit after promising a classic
ballot. So a recovery can rule out every proposer whose promise it has, and subtract the votes of those it knows of.

`fast-paxos` keeps Lamport's sizes. The recovery rule is safe under both.
"""

import enum
from typing import assert_never

from msgspec import Struct

MAX_REPLICAS = 64
"""Far more datacenters than a cluster has: a vote is one WAN message for each. Bounds every count of replicas."""


class QuorumPolicy(enum.Enum):
    OPTIMAL = "optimal"
    FAST_PAXOS = "fast-paxos"


class Quorums(Struct, frozen=True):
    """The quorum sizes of one configuration.

    Invariants: 1. 1 <= slow <= fast <= n.  2. Two slow quorums meet: 2*slow > n.
    3. Recovery is unambiguous: 2*fast + slow > 2n - 2 (Fast Paxos: > 2n).
    """

    n: int
    slow: int
    fast: int
    policy: QuorumPolicy = QuorumPolicy.OPTIMAL

    def __post_init__(self) -> None:
        assert_quorums_meet(self)

    @property
    def f(self) -> int:
        """Replicas that may be missing while anything can be decided."""
        return self.n - self.slow

    @property
    def e(self) -> int:
        """Replicas that may be missing while the fast path works."""
        return self.n - self.fast


def assert_quorums_meet(sizes: Quorums) -> None:
    slack = 2 if sizes.policy is QuorumPolicy.OPTIMAL else 0
    assert 1 <= sizes.slow <= sizes.fast <= sizes.n <= MAX_REPLICAS, sizes
    assert 2 * sizes.slow > sizes.n, sizes
    assert 2 * sizes.fast + sizes.slow > 2 * sizes.n - slack, sizes


def quorums(n: int, policy: QuorumPolicy = QuorumPolicy.OPTIMAL) -> Quorums:
    """The sizes for n voting replicas."""
    slow = n // 2 + 1
    match policy:
        case QuorumPolicy.OPTIMAL:
            fast = n - min(n - slow, (slow + 1) // 2)
        case QuorumPolicy.FAST_PAXOS:
            fast = n - (slow - 1) // 2
        case _:
            assert_never(policy)
    return Quorums(n=n, slow=slow, fast=fast, policy=policy)
