"""Who takes part how, what a configuration says about a term, and how one is said to have ended."""

from msgspec.structs import replace

from epoxy.model.cluster import ReplicaInfo, ReplicaStatus, first_epoch
from epoxy.model.instances import Closed, Ended, InstanceId, Seal, Sealed, Term
from epoxy.model.quorum import QuorumPolicy
from epoxy.protocol.effects import Also, Answer, Expired, Local, Next, Open
from epoxy.protocol.members.changes import promote, undo
from epoxy.protocol.txn.log import InstanceLog
from epoxy.protocol.txn.terms import SENDS, Part, adopted, close, is_over, part_of, votes_on
from tests.protocol.txn.cluster import Replicas, drive

OLD = first_epoch((1, 2, 3))
MEMBERS = tuple(
    ReplicaInfo(id=i, status=ReplicaStatus.LEAVING if i in (2, 3) else ReplicaStatus.ACTIVE) for i in range(1, 6)
)
JOINT = replace(OLD, epoch=2, replicas=MEMBERS, previous=(1, 2, 3))
NEW = promote(JOINT, 1)
FIRST = Term(number=0, voters=(1, 2, 3), policy=QuorumPolicy.OPTIMAL, ending=False)
NEXT = Term(number=1, voters=None, policy=QuorumPolicy.OPTIMAL, ending=False)


def test_a_term_ends_with_the_joint_epoch_or_with_news_of_a_later_one() -> None:
    assert adopted(FIRST, OLD, 1) == FIRST
    assert adopted(FIRST, JOINT, 1) == adopted(FIRST, NEW, 1) == replace(FIRST, ending=True)


def test_the_next_term_has_the_members_of_the_configuration_it_begins_with() -> None:
    assert adopted(NEXT, JOINT, 1) == NEXT, "it has not begun"
    assert adopted(NEXT, NEW, 1) == replace(NEXT, voters=(1, 4, 5))
    assert adopted(NEXT, NEW, 2) == NEXT, "no member"
    assert adopted(NEXT, undo(JOINT, {1, 2, 3}, 1), 1) == replace(NEXT, voters=(1, 2, 3))


def test_members_are_known_back_to_the_last_change_that_was_not_undone() -> None:
    again = replace(NEW, epoch=4, previous=(1, 4, 5))
    undone = undo(again, {1, 4, 5}, 1)
    assert (undone.since, undone.term) == (1, 2)
    assert adopted(NEXT, undone, 1) == replace(NEXT, voters=(1, 4, 5), ending=True)
    assert adopted(replace(FIRST, voters=None), undone, 1) == replace(FIRST, voters=None, ending=True)


def test_who_takes_part_how() -> None:
    ending = replace(FIRST, ending=True)
    assert part_of(None, None, OLD, 1) is Part.OUT
    assert part_of(FIRST, None, OLD, 1) is part_of(FIRST, None, None, 1) is Part.OPEN
    assert part_of(ending, None, JOINT, 1) is Part.CLOSING
    assert part_of(ending, {}, JOINT, 1) is Part.ENDING
    assert part_of(ending, {}, NEW, 2) is Part.OUT, "it has left"
    assert part_of(None, None, JOINT, 4) is part_of(NEXT, None, JOINT, 4) is Part.OUT, "not in the old side"
    assert part_of(NEXT, None, JOINT, 1) is Part.WAITING
    assert part_of(NEXT, None, replace(NEW, since=2, term=2), 1) is Part.LEARNING


def test_votes() -> None:
    ends = {1: 2}
    assert votes_on(Part.OPEN, None, InstanceId(2, 9))
    assert not votes_on(Part.CLOSING, None, InstanceId(1, 1))
    assert votes_on(Part.ENDING, ends, InstanceId(1, 2))
    assert not votes_on(Part.ENDING, ends, InstanceId(1, 3))
    assert not votes_on(Part.ENDING, ends, InstanceId(2, 1)), "nothing of it counts"
    assert not votes_on(Part.LEARNING, ends, InstanceId(1, 1))


def test_over_when_everything_that_counts_was_executed() -> None:
    log = InstanceLog()
    assert not is_over(None, log)
    assert is_over({}, log)
    log.mark_executed(InstanceId(1, 1))
    assert is_over({1: 1}, log)
    assert not is_over({1: 1, 2: 1}, log)


def test_a_slow_quorum_says_how_far_a_term_came() -> None:
    flow = close(Replicas(3).context(1))
    assert drive(flow) == Local(Seal())
    opened = drive(flow, Sealed(ends=(InstanceId(1, 4), InstanceId(2, 1))))
    assert isinstance(opened, Open)
    assert set(opened.envelopes) == {2, 3}
    assert drive(flow) == Next()
    assert drive(flow, Answer(2, Closed(term=0))) == Next(), "it has not heard of it"
    result = drive(flow, Answer(3, Sealed(ends=(InstanceId(2, 5), InstanceId(3, 1)))))
    assert result == Sealed(ends=(InstanceId(1, 4), InstanceId(2, 5), InstanceId(3, 1)))


def test_who_knows_the_end_tells_it() -> None:
    flow, ended = close(Replicas(3).context(1)), Ended(ends=(InstanceId(1, 4),))
    drive(flow)
    drive(flow, Sealed(ends=()))
    drive(flow)
    assert drive(flow, Answer(2, ended)) == ended


def test_without_known_members_no_answers_count() -> None:
    flow = close(Replicas(3).context(1))
    drive(flow)
    drive(flow, Closed(term=0))
    drive(flow)
    for i in (2, 3):
        assert drive(flow, Answer(i, Sealed(ends=()))) == Next()
    for _ in range(SENDS - 1):
        assert isinstance(drive(flow, Expired()), Also)
        assert drive(flow) == Next()
    assert drive(flow, Expired()) is None


def test_silent_members_are_asked_again_with_more_time_and_late_answers_count() -> None:
    ctx = Replicas(5).context(1)
    flow = close(ctx)
    drive(flow)
    opened = drive(flow, Sealed(ends=()))
    drive(flow)
    assert drive(flow, Answer(2, Sealed(ends=(InstanceId(2, 1),)))) == Next()
    again = drive(flow, Expired())
    assert isinstance(opened, Open)
    assert isinstance(again, Also), "the round stays open: what was asked before is heard"
    assert again.timer_ms == 2 * opened.timer_ms
    assert again.envelopes == dict.fromkeys((3, 4, 5), Seal())
    assert drive(flow) == Next()
    assert drive(flow, Answer(3, Sealed(ends=()))) == Sealed(ends=(InstanceId(2, 1),))
