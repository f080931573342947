"""The coordinator of a change, from look to look."""

from msgspec.structs import replace

from epoxy.model.cluster import ClusterConfig, ReplicaInfo, ReplicaStatus
from epoxy.model.members import ChangeRequest, Member, MemberReply, MemberStatus, StatusRead
from epoxy.protocol.members.coordinator import POLL_MS, coordinate
from epoxy.protocol.members.effects import AskAll, CurrentConfig, Effect, Flow, Publish, ReadChangeRequest, Rest, tell
from tests.protocol.members.bench import play

A, B, C = 1, 2, 3
STABLE = ClusterConfig(epoch=2, coordinator_id=A, replicas=tuple(ReplicaInfo(id=i, identity=100 + i) for i in (A, B)))
LISTED = replace(STABLE, epoch=3, replicas=(*STABLE.replicas, ReplicaInfo(id=C, status=ReplicaStatus.JOINING)))
REQUEST = ChangeRequest(members=tuple(Member(id=i) for i in (A, B, C)))


def hearing(*ids: int, epoch: int = 2) -> dict[int, MemberReply]:
    return {i: MemberStatus(identity=100 + i, epoch=epoch) for i in ids}


def last_of(flow: Flow[None], *results: object) -> Effect:
    """What the flow asks for after these."""
    *earlier, last = results
    for result in earlier:
        flow.send(result)
    return flow.send(last)


def asking(*ids: int) -> AskAll:
    return AskAll(to=ids, request=StatusRead())


def test_it_publishes_the_next_configuration_and_announces_it() -> None:
    flow = coordinate(A)
    assert flow.send(None) == CurrentConfig()
    assert flow.send(STABLE) == ReadChangeRequest()
    assert flow.send(REQUEST) == asking(A, B, C)
    assert flow.send(hearing(A, B)) == CurrentConfig()
    assert flow.send(STABLE) == Publish(config=LISTED)
    assert flow.send(None) == CurrentConfig()
    assert flow.send(LISTED) == tell((A, B, C), LISTED)
    assert flow.send(None) == CurrentConfig(), "and looks again"


def test_a_configuration_that_lost_is_not_announced() -> None:
    flow = coordinate(A)
    assert last_of(flow, None, STABLE, REQUEST, hearing(A, B), STABLE) == Publish(config=LISTED)
    assert flow.send(None) == CurrentConfig()
    assert flow.send(STABLE) == CurrentConfig(), "it looks again"


def test_it_waits_for_those_who_are_not_there_yet() -> None:
    flow = coordinate(A)
    assert last_of(flow, None, LISTED, REQUEST, hearing(A, B, epoch=3), LISTED) == Rest(delay_ms=POLL_MS)


def test_who_is_behind_is_told() -> None:
    flow = coordinate(A)
    assert last_of(flow, None, LISTED, REQUEST, hearing(A, epoch=3) | hearing(B, epoch=2)) == tell((B,), LISTED)


def test_without_a_quorum_it_waits() -> None:
    flow = coordinate(A)
    assert last_of(flow, None, STABLE, False) == Rest(delay_ms=POLL_MS)


def test_it_ends_when_there_is_nothing_to_do_and_when_it_has_no_say() -> None:
    play(
        coordinate(A),
        (CurrentConfig(), STABLE),
        (ReadChangeRequest(), None),
    )
    play(coordinate(C), (CurrentConfig(), LISTED))


def test_identities_nobody_has_written_down_are_something_to_do() -> None:
    nameless = replace(STABLE, epoch=1, replicas=tuple(ReplicaInfo(id=i) for i in (A, B)))
    flow = coordinate(A)
    assert last_of(flow, None, nameless, None, hearing(A, B, epoch=1), nameless) == Publish(config=STABLE)
    play(
        coordinate(A),
        (CurrentConfig(), nameless),
        (ReadChangeRequest(), None),
        (asking(A, B), hearing(A, epoch=1)),
        (CurrentConfig(), nameless),
    )
