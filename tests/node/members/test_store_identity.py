"""A store votes when others have written it down, and one that is not on record counts for nothing."""

from msgspec.structs import replace

from epoxy.model.cluster import ClusterConfig, ReplicaInfo, first_epoch
from epoxy.node.keys.replica import Replica
from epoxy.node.members.store_identity import StoreIdentityCheck
from epoxy.store.member_rows import MemberSpace
from epoxy.store.memory import MemoryStore

ME, OTHER, THIRD = 1, 2, 3
FIRST = first_epoch((ME, OTHER, THIRD))
WRITTEN = replace(FIRST, epoch=2, replicas=tuple(ReplicaInfo(id=i, identity=100 + i) for i in (ME, OTHER, THIRD)))


def guard(
    store: MemoryStore | None = None, *, identity: int = 101, config: ClusterConfig = FIRST
) -> StoreIdentityCheck:
    store = store or MemoryStore()
    replica = Replica(ME, store, config, alarm=print)
    return StoreIdentityCheck(replica, store, MemberSpace(replica.keyspace, ME), identity)


def test_the_first_store_met_is_the_one_even_after_a_restart() -> None:
    store = MemoryStore()
    assert guard(store).admits(OTHER, 7)
    again = guard(MemoryStore(contents=store.survivors()))
    assert again.admits(OTHER, 7)
    assert not again.admits(OTHER, 8)


def test_the_configuration_knows_better() -> None:
    watch = guard(config=WRITTEN)
    assert watch.admits(OTHER, 102)
    assert not watch.admits(OTHER, 7)


def test_a_store_votes_once_a_majority_of_the_others_deals_with_it() -> None:
    store = MemoryStore()
    watch = guard(store)
    assert not watch.may_vote
    watch.answered(OTHER)
    assert not watch.may_vote, "of two others, both"
    watch.answered(THIRD)
    assert watch.may_vote
    assert guard(MemoryStore(contents=store.survivors())).may_vote, "and need not be asked again"


def test_an_empty_store_in_place_of_the_one_on_record_does_not_vote() -> None:
    watch = guard(identity=666, config=WRITTEN)
    for other in (OTHER, THIRD):
        watch.answered(other)
    assert not watch.may_vote


def test_who_answers_has_written_us_down_unless_it_names_no_store() -> None:
    watch = guard()
    confirmed: list[bool] = []
    watch.confirmed = lambda: confirmed.append(watch.may_vote)
    for other in (OTHER, THIRD):
        assert watch.heard(other, 0), "it tells us that we are none of the members"
    assert not watch.may_vote
    assert watch.heard(OTHER, 102)
    assert not watch.heard(OTHER, 7), "another store than the one met first"
    assert confirmed == []
    assert watch.heard(THIRD, 103)
    assert (watch.may_vote, confirmed) == (True, [True])
