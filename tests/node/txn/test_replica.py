"""What a replica of the ordered engine holds, answers in its term, keeps for others and forgets."""

import pytest

from epoxy.model.cluster import ClusterConfig, first_epoch
from epoxy.model.errors import InvariantViolation, StoreFailed
from epoxy.model.instances import (
    Closed,
    Deps,
    InstanceId,
    Noted,
    OrderedCommit,
    PreAccept,
    PreAcceptOk,
    Seal,
    Sealed,
    Waiting,
)
from epoxy.node.txn.replica import FAR_BEHIND, OrderedReplica
from epoxy.protocol.txn.effects import Begin, Look, Seen
from epoxy.protocol.txn.terms import Part
from epoxy.store.memory import MemoryStore
from tests.protocol.txn.cluster import write

CONFIG = first_epoch((1, 2, 3))
ONE, TWO = InstanceId(2, 1), InstanceId(2, 2)


def replica(config: ClusterConfig | None = CONFIG, store: MemoryStore | None = None, me: int = 1) -> OrderedReplica:
    return OrderedReplica(me, store or MemoryStore(), config)


def commit(instance_id: InstanceId, *deps: InstanceId) -> OrderedCommit:
    return OrderedCommit(id=instance_id, command=write(), deps=Deps(also=deps))


def test_what_was_held_is_held_after_a_crash() -> None:
    store = MemoryStore()
    before = replica(store=store)
    assert isinstance(before.handle(PreAccept(id=ONE, command=write(), deps=Deps())), PreAcceptOk)
    before.handle(commit(TWO, ONE))
    after = replica(store=store)
    assert after.log.instances == before.log.instances
    after.start()
    assert after.waits_for(ONE)
    after.handle(commit(ONE))
    assert after.log.executed == {2: 2}


def test_a_vote_that_is_not_stored_is_not_in_memory_either() -> None:
    """The next replica that asks would be told of it."""
    store = MemoryStore()
    voting = replica(store=store)
    store.close()
    with pytest.raises(StoreFailed):
        voting.handle(PreAccept(id=ONE, command=write(), deps=Deps()))
    assert voting.log.instances == {}


def test_a_founder_begins_the_first_term_and_one_that_comes_later_does_not() -> None:
    assert (replica().part, replica().number) == (Part.OPEN, 0)
    assert replica(me=9).part is Part.OUT
    assert replica(None).part is Part.OUT


def test_a_term_that_closes_takes_no_votes_and_tells_how_far_it_came() -> None:
    here = replica()
    here.handle(commit(ONE))
    assert here.handle(Seal()) == Closed(term=0), "it does not end yet"
    assert here.term is not None
    here.term = type(here.term)(number=0, voters=(1, 2, 3), policy=here.term.policy, ending=True)
    assert here.handle(PreAccept(id=TWO, command=write(), deps=Deps())) == Closed(term=0)
    assert here.handle(Seal()) == Sealed(ends=(ONE,))


def test_what_is_beyond_the_end_of_a_term_is_a_nop() -> None:
    here = replica()
    here.handle(PreAccept(id=TWO, command=write(), deps=Deps()))
    here.learn_end((ONE,))
    seen = here.perform(Look(ids=(TWO, InstanceId(3, 1))))
    assert isinstance(seen, Seen)
    assert [instance.nop for instance in seen.instances] == [True, True]
    assert here.undecided(10) == [ONE], "which counts"


def test_a_decision_beyond_the_end_of_a_term_is_an_alarm() -> None:
    here = replica()
    here.handle(commit(TWO))
    with pytest.raises(InvariantViolation):
        here.learn_end((ONE,))


def test_the_highest_count_of_those_that_wait_is_kept() -> None:
    here, news = replica(), list[InstanceId]()
    here.on_news = news.append
    for count in (2, 3, 1):
        assert here.handle(Waiting(id=ONE, count=count)) == Noted()
    seen = here.perform(Look(ids=(ONE,)))
    assert isinstance(seen, Seen)
    assert seen.waiting == (3,)
    assert news == [ONE, ONE]


def test_what_all_have_executed_is_forgotten_and_nothing_before() -> None:
    here = replica()
    here.handle(commit(ONE))
    here.handle(commit(TWO))
    here.reached(2, (TWO,))
    assert (here.forget(), here.kept) == (0, 2)
    here.reached(3, (ONE,))
    assert (here.forget(), here.kept) == (1, 1)
    assert not here.is_idle
    here.reached(3, (TWO,))
    assert (here.forget(), here.is_idle) == (1, True)


def test_what_others_have_executed_counts_as_missed() -> None:
    here = replica()
    here.reached(2, (InstanceId(3, 5),))
    here.reached(3, (InstanceId(3, 2), InstanceId(2, 1)))
    assert here.behind == 6
    here.handle(commit(ONE))
    assert here.behind == 5
    assert here.kept_for == []
    here.log.executed[2] = FAR_BEHIND + 1
    assert here.kept_for == [2, 3]


def test_nothing_is_begun_by_one_that_may_not_vote() -> None:
    with pytest.raises(AssertionError):
        replica(me=9).perform(Begin(id=InstanceId(9, 1), command=write()))
