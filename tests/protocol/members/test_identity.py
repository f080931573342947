"""Whose store is this?"""

from itertools import combinations

import pytest
from msgspec.structs import replace

from epoxy.model.cluster import ReplicaInfo, ReplicaStatus, first_epoch
from epoxy.protocol.members.identity import Recognition, may_vote, recognise

FIRST = first_epoch((1, 2, 3))
WRITTEN = replace(FIRST, replicas=tuple(ReplicaInfo(id=i, identity=100 + i) for i in (1, 2, 3)))


def test_the_configuration_goes_before_what_was_noted() -> None:
    assert recognise(WRITTEN, {3: 7}, 3, 103) is Recognition.KNOWN
    assert recognise(WRITTEN, {3: 7}, 3, 7) is Recognition.IMPOSTOR


def test_until_then_the_first_store_met_is_the_one() -> None:
    assert recognise(FIRST, {}, 3, 7) is Recognition.NEW
    assert recognise(FIRST, {3: 7}, 3, 7) is Recognition.KNOWN
    assert recognise(FIRST, {3: 7}, 3, 8) is Recognition.IMPOSTOR


def test_an_id_that_is_given_to_another_machine_is_met_anew() -> None:
    joining = replace(FIRST, replicas=(*FIRST.replicas[:2], ReplicaInfo(id=3, status=ReplicaStatus.JOINING)))
    assert recognise(joining, {3: 7}, 3, 8) is Recognition.NEW
    assert not may_vote(joining, 3, 8, frozenset({1})), "but has no say yet"
    without = replace(FIRST, replicas=FIRST.replicas[:2])
    assert recognise(without, {3: 7}, 3, 8) is Recognition.IMPOSTOR


def test_a_store_that_is_in_the_configuration_votes() -> None:
    assert may_vote(WRITTEN, 3, 103, frozenset())
    assert not may_vote(WRITTEN, 3, 104, frozenset({1, 2}))


@pytest.mark.parametrize("n", range(1, 10))
def test_two_stores_of_one_id_never_both_vote(n: int) -> None:
    """Whoever wrote the one down will not write down the other, and two majorities of the others meet."""
    config, others = first_epoch(tuple(range(1, n + 1))), set(range(1, n))
    assert may_vote(config, n, 7, others)
    for size in range(n):
        for first in map(set, combinations(sorted(others), size)):
            second = others - first
            assert n == 1 or not (may_vote(config, n, 7, first) and may_vote(config, n, 8, second))
