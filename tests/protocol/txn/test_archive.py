"""Decisions that are kept for a member that is away have only their rows left, and are as good as those in memory."""

from itertools import count

import pytest

from epoxy.model.ballot import Ballot
from epoxy.model.cluster import first_epoch
from epoxy.model.instances import (
    MAX_DEPENDENCIES,
    NOTHING,
    Catchup,
    Command,
    Decided,
    Deps,
    Forgotten,
    Instance,
    InstanceId,
    Missed,
    OrderedCommit,
    Overloaded,
    Phase,
    PreAccept,
    PreAcceptOk,
    Recover,
    RecoverOk,
    Rival,
    Validate,
    ValidateOk,
)
from epoxy.model.transactions import Put, Txn
from epoxy.node.txn import replica as ordered_replica
from epoxy.node.txn.replica import OrderedReplica
from epoxy.store.memory import MemoryStore

CONFIG = first_epoch((1, 2, 3))
HELD = 4
MISSED = 20


def write(key: bytes) -> Command:
    return Command(txns=(Txn(then=(Put(key=key, value=b"v"),)),))


def commit(slot: int, key: bytes = b"k") -> OrderedCommit:
    deps = Deps(upto=(InstanceId(1, slot - 1),)) if slot > 1 else NOTHING
    return OrderedCommit(id=InstanceId(1, slot), command=write(key), deps=deps)


def shelved(store: MemoryStore | None = None, missed: int = MISSED) -> OrderedReplica:
    """Replica 2 has executed all of replica 1's, which replica 3 has not."""
    replica = OrderedReplica(2, store or MemoryStore(), CONFIG)
    replica.most_held = HELD
    for slot in range(1, missed + 1):
        replica.handle(commit(slot, b"odd" if slot % 2 else b"even"))
    replica.reached(1, (InstanceId(1, missed),))
    replica.forget()
    while replica.shelve():
        continue
    return replica


def test_memory_is_bounded_and_what_is_kept_is_counted() -> None:
    replica = shelved()
    assert sorted(replica.log.instances) == [InstanceId(1, slot) for slot in range(MISSED - HELD + 1, MISSED + 1)]
    assert (replica.kept, replica.log.archived) == (MISSED, {1: MISSED - HELD})
    replica.shelve()
    assert replica.log.archived == {1: MISSED - HELD}


def test_what_all_have_executed_is_not_counted_as_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ordered_replica, "FAR_BEHIND", 5)
    replica = shelved()
    assert replica.kept_for == [3]
    for reached, behind in ((MISSED - 5, [3]), (MISSED - 4, [])):
        replica.reached(3, (InstanceId(1, reached),))
        replica.forget()
        assert (replica.kept, replica.kept_for) == (MISSED - reached, behind)


def test_what_is_left_to_the_archive_is_counted_over_all_replicas() -> None:
    """The oldest of who has most come first; what they leave over is taken from the next."""
    log = OrderedReplica(2, MemoryStore(), CONFIG).log
    for replica_id, slots in ((1, 3), (2, 4), (3, 5)):
        for slot in range(1, slots + 1):
            each = InstanceId(replica_id, slot)
            log.put(Instance(id=each, phase=Phase.COMMITTED, command=write(b"k"), deps=NOTHING))
            log.mark_executed(each)
    assert (log.shelve(5), log.archived, len(log.instances)) == (7, {3: 5, 2: 2}, 5)
    assert (log.shelve(5), log.shelve(4), log.archived) == (0, 1, {3: 5, 2: 2, 1: 1})
    assert (log.shelve(1), log.shelve(0), log.instances) == (3, 1, {})


def test_what_is_not_executed_stays_in_memory() -> None:
    replica = OrderedReplica(2, MemoryStore(), CONFIG)
    replica.most_held = 0
    for slot in (1, 3):
        replica.handle(commit(slot))
    replica.shelve()
    assert list(replica.log.instances) == [InstanceId(1, 3)]


def test_who_was_away_is_told_what_has_only_its_rows_left() -> None:
    reply = shelved().handle(Catchup(sender=3, executed=(), known=(InstanceId(1, 2),)))
    assert isinstance(reply, Missed)
    assert [each.id.slot for each in reply.commits] == list(range(3, MISSED + 1))
    assert reply.commits[0] == commit(3, b"odd")


def test_a_message_about_it_meets_the_decision() -> None:
    replica, first = shelved(), InstanceId(1, 1)
    preaccept = PreAccept(id=first, command=write(b"odd"), deps=NOTHING)
    assert replica.handle(preaccept) == Decided(commit=commit(1, b"odd"))
    recovered = replica.handle(Recover(id=first, ballot=Ballot(5, 3)))
    assert isinstance(recovered, RecoverOk)
    assert recovered.held.is_committed
    assert replica.handle(commit(1, b"odd")) is not None, "learned again, and the same"


def test_whatever_interferes_with_it_is_told_so() -> None:
    replica = shelved()
    new = InstanceId(3, 1)
    reply = replica.handle(PreAccept(id=new, command=write(b"odd"), deps=Deps(upto=(InstanceId(1, 3),))))
    assert reply == PreAcceptOk(also=tuple(InstanceId(1, slot) for slot in range(5, MISSED, 2)))


def test_it_is_a_rival_of_what_is_recovered() -> None:
    replica, ballot = shelved(), Ballot(1, 1)
    late = InstanceId(3, 1)
    replica.handle(Recover(id=late, ballot=ballot))
    reply = replica.handle(
        Validate(id=late, ballot=ballot, command=write(b"even"), deps=Deps(upto=(InstanceId(1, MISSED - 7),)))
    )
    assert reply == ValidateOk(
        rivals=tuple(Rival(id=InstanceId(1, slot), is_committed=True) for slot in (14, 16, 18, 20))
    )


def test_who_is_too_far_behind_has_to_catch_up_first() -> None:
    """More than could be named is not looked through for it."""
    replica = shelved(missed=MAX_DEPENDENCIES + HELD + 2)
    ids = (InstanceId(3, slot) for slot in count(1))
    assert replica.handle(PreAccept(id=next(ids), command=write(b"new"), deps=NOTHING)) == Overloaded()
    near = Deps(upto=(InstanceId(1, 2),))
    assert replica.handle(PreAccept(id=next(ids), command=write(b"new"), deps=near)) == PreAcceptOk(also=())


def test_a_restart_holds_no_more_than_before() -> None:
    store = MemoryStore()
    shelved(store)
    replica = OrderedReplica(2, store, CONFIG)
    replica.most_held = HELD
    replica._begin_term()
    replica.start()
    assert len(replica.log.instances) == HELD
    assert (replica.log.floors(), replica.kept) == ((InstanceId(1, MISSED),), MISSED)
    reply = replica.handle(Catchup(sender=3, executed=(), known=()))
    assert isinstance(reply, Missed)
    assert len(reply.commits) == MISSED


def test_a_replica_that_keeps_some_is_not_idle_even_if_it_holds_none_in_memory() -> None:
    """It goes on to tell the member that was away, which may not know that it missed something."""
    replica = shelved()
    replica.most_held = 0
    while replica.shelve():
        continue
    assert (replica.kept, replica.log.instances, replica.is_idle) == (MISSED, {}, False)


def test_it_is_deleted_when_all_have_executed_it() -> None:
    replica = shelved()
    replica.reached(3, (InstanceId(1, MISSED),))
    assert replica.forget() == MISSED
    assert (replica.kept, replica.log.instances, replica.is_idle) == (0, {}, True)
    assert replica.handle(PreAccept(id=InstanceId(1, 1), command=write(b"odd"), deps=NOTHING)) == Forgotten()
    assert replica.handle(
        PreAccept(id=InstanceId(3, 1), command=write(b"odd"), deps=Deps(upto=(InstanceId(1, MISSED),)))
    ) == PreAcceptOk(also=())
