"""While an epoch is joint: both sides agree, nothing is fast, and it all ends at once with the epoch."""

import pytest

from epoxy.model.cluster import ClusterConfig, ReplicaInfo, ReplicaStatus, both_sides
from epoxy.model.messages import AcceptOk, Failed, PrepareOk, ReadOk
from epoxy.model.writes import Committed, Consistency, Path, ReadFailed, ReadResult, Source, Write
from epoxy.protocol.effects import Answer, Local, Open
from epoxy.protocol.keys.operations import Reserve, Select
from epoxy.protocol.keys.proposer import propose
from epoxy.protocol.keys.reader import linearizable, read
from tests.protocol.keys.harness import EXPIRED, KEY, A, B, Bench, C, D, E, fast_vote, own, prop

JOINT = ClusterConfig(
    epoch=2,
    coordinator_id=A,
    replicas=(
        *(ReplicaInfo(id=i, status=ReplicaStatus.LEAVING) for i in (A, B)),
        *(ReplicaInfo(id=i) for i in (C, D, E)),
    ),
    previous=(A, B, C),
)
"""From A, B, C to C, D, E."""

RESERVE = Write(key=KEY, value=b"mine")
PROMISE, OK = PrepareOk(vote=None), AcceptOk()
EMPTY = ReadOk(committed=None, vote=None)


def test_all_members_of_both_sides_are_asked_and_the_old_sizes_count() -> None:
    assert (JOINT.active, JOINT.electorate, JOINT.voters) == ((C, D, E), (A, B, C), (A, B, C, D, E))
    assert JOINT.quorums.fast == 2
    assert JOINT.others(D) == (A, B, C, E)


@pytest.mark.parametrize(
    ("replicas", "enough"),
    [({A, B}, False), ({D, E}, False), ({A, B, D, E}, True), ({A, C, D}, True), ({A, B, C}, False), ({C, D}, False)],
)
def test_a_quorum_is_one_of_each_side(replicas: set[int], enough: bool) -> None:
    assert JOINT.sides is not None
    assert both_sides(JOINT.sides, replicas) is enough


def test_a_write_takes_the_slow_path_and_both_sides() -> None:
    bench = Bench(config=JOINT)
    outcome = bench.run(
        propose(RESERVE, bench.context()),
        Answer(B, PROMISE),
        Answer(D, PROMISE),
        Answer(E, PROMISE),
        own,
        Answer(B, OK),
        Answer(D, OK),
        Answer(C, OK),
    )
    assert isinstance(outcome, Committed)
    assert (outcome.mine, outcome.path) == (True, Path.SLOW)
    homes = [effect.op for effect in bench.effects if isinstance(effect, Local)]
    assert isinstance(homes[0], Select)
    rounds = [effect for effect in bench.effects if isinstance(effect, Open)]
    assert [tuple(each.envelopes) for each in rounds] == [(B, C, D, E), (A, B, C, D, E)]


def test_a_round_ends_as_soon_as_one_side_is_out_of_reach() -> None:
    """D and E are silent for good: C alone is no quorum of the new side, even if all old members agree."""
    bench = Bench(config=JOINT)
    gone = Failed(reason="refused")
    flow = propose(RESERVE, bench.context())
    script = [Answer(B, PROMISE), Answer(D, gone), Answer(E, gone)] * 11
    outcome = bench.run(flow, *script)
    assert type(outcome).__name__ == "Refused", "definite: nothing was put forward"
    assert sum(isinstance(effect, Local) and isinstance(effect.op, Reserve) for effect in bench.effects) == 10


def test_a_linearizable_read_asks_both_sides() -> None:
    bench = Bench(config=JOINT)
    flow = linearizable(KEY, bench.context())
    found = bench.run(flow, own, Answer(B, EMPTY), Answer(C, EMPTY), Answer(D, EMPTY))
    assert found == ReadResult(committed=None, source=Source.QUORUM)


def test_not_found_needs_both_sides_too() -> None:
    bench = Bench(config=JOINT)
    flow = read(KEY, Consistency.SKIP_CACHE, bench.context())
    failed = bench.run(flow, Answer(B, EMPTY), Answer(C, EMPTY), EXPIRED)
    assert failed == ReadFailed(reason="only 3 of 5 replicas answered")


def test_a_read_does_not_chase_a_vote_that_no_longer_counts() -> None:
    """Once the old epoch is sealed, its votes are the trace of nothing."""
    members = tuple(ReplicaInfo(id=i) for i in (A, B, C))
    sealed = ClusterConfig(epoch=3, coordinator_id=A, replicas=members, sealed=1)
    stale = ReadOk(committed=None, vote=fast_vote(prop(b"old", by=C), epoch=1))
    bench = Bench(config=sealed)
    found = bench.run(linearizable(KEY, bench.context()), own, Answer(B, stale))
    assert found == ReadResult(committed=None, source=Source.QUORUM)
