"""Quorum sizes against literal tables, and why they are enough."""

import pytest

from epoxy.model.quorum import MAX_REPLICAS, QuorumPolicy, Quorums, quorums

OPTIMAL = QuorumPolicy.OPTIMAL
FAST_PAXOS = QuorumPolicy.FAST_PAXOS

TABLE: dict[QuorumPolicy, list[tuple[int, int, int, int, int]]] = {
    #          n slow fast f  e
    OPTIMAL: [
        (1, 1, 1, 0, 0),
        (2, 2, 2, 0, 0),
        (3, 2, 2, 1, 1),
        (4, 3, 3, 1, 1),
        (5, 3, 3, 2, 2),
        (6, 4, 4, 2, 2),
        (7, 4, 5, 3, 2),
        (8, 5, 5, 3, 3),
        (9, 5, 6, 4, 3),
    ],
    FAST_PAXOS: [
        (1, 1, 1, 0, 0),
        (2, 2, 2, 0, 0),
        (3, 2, 3, 1, 0),
        (4, 3, 3, 1, 1),
        (5, 3, 4, 2, 1),
        (6, 4, 5, 2, 1),
        (7, 4, 6, 3, 1),
        (8, 5, 6, 3, 2),
        (9, 5, 7, 4, 2),
    ],
}
ROWS = [(policy, *row) for policy, rows in TABLE.items() for row in rows]
POLICIES = list(QuorumPolicy)


@pytest.mark.parametrize(("policy", "n", "slow", "fast", "f", "e"), ROWS)
def test_the_sizes_are_those_of_the_table(policy: QuorumPolicy, n: int, slow: int, fast: int, f: int, e: int) -> None:
    q = quorums(n, policy)
    assert (q.n, q.slow, q.fast, q.f, q.e, q.policy) == (n, slow, fast, f, e, policy)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("n", range(1, MAX_REPLICAS + 1))
def test_the_quorums_meet_as_they_must(n: int, policy: QuorumPolicy) -> None:
    q = quorums(n, policy)
    assert 2 * q.slow > n, "two slow quorums meet"
    assert q.fast + q.slow > n, "a recovery meets every fast quorum"
    assert q.fast > q.f, "those a recovery has not heard from are no fast quorum on their own"
    assert 2 * q.fast + q.slow > 2 * n - (2 if policy is OPTIMAL else 0), "one candidate at most"


@pytest.mark.parametrize("n", range(1, MAX_REPLICAS + 1))
def test_the_optimal_fast_quorum_cannot_be_smaller(n: int) -> None:
    q = quorums(n)
    smaller = q.fast - 1
    assert smaller < q.slow or 2 * smaller + q.slow <= 2 * n - 2


def test_optimal_is_the_default() -> None:
    assert quorums(5) == quorums(5, OPTIMAL)


@pytest.mark.parametrize(
    ("n", "slow", "fast", "policy"),
    [
        (3, 1, 2, OPTIMAL),  # two slow quorums need not meet
        (4, 2, 3, OPTIMAL),  # nor here
        (3, 2, 1, OPTIMAL),  # fast below slow
        (3, 2, 4, OPTIMAL),  # more than all
        (3, 0, 2, OPTIMAL),  # none
        (7, 4, 4, OPTIMAL),  # recovery would be ambiguous: 12 > 12 is false
        (9, 5, 5, OPTIMAL),
        (3, 2, 2, FAST_PAXOS),  # the optimal sizes need the proposer's rules, which this policy does not count on
        (5, 3, 3, FAST_PAXOS),
        (MAX_REPLICAS + 1, 33, 65, OPTIMAL),
    ],
)
def test_unsafe_sizes_are_refused(n: int, slow: int, fast: int, policy: QuorumPolicy) -> None:
    with pytest.raises(AssertionError):
        Quorums(n=n, slow=slow, fast=fast, policy=policy)


@pytest.mark.parametrize("n", [0, -1, MAX_REPLICAS + 1])
def test_there_are_no_quorums_of_no_replicas_or_of_too_many(n: int) -> None:
    with pytest.raises(AssertionError):
        quorums(n)
