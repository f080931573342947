"""Actors in another cluster: ids with the labels of its datacenters, and none on an envoy."""

import pytest
from msgspec.structs import replace

from epoxy.actors import directory, local_states
from epoxy.actors.home_changes import is_legacy
from epoxy.backup.actor_rows import (
    ActorKeys,
    NameOwners,
    at_home,
    doomed_of,
    local_state_of,
    record_row,
    restored_actor,
    restored_name,
)
from epoxy.codec import wire
from epoxy.codec.home_records import decode_home, encode, home_key, reservation_key
from epoxy.codec.tuple import pack
from epoxy.model.actors import ActorEntry, ActorName, ActorState, label_of, make_id
from epoxy.model.errors import BackupError
from epoxy.model.homes import HomeRecord, state_key
from epoxy.model.records import CommittedRecord, Proposal, ProposalId

NAME = ActorName("default", "room", "42")
MINE, FRESH = make_id(1, 2, 7), make_id(3, 4, 7)
LEASE = bytes(range(16))


def record(actor_id: bytes) -> bytes:
    proposal = Proposal(value=actor_id, version=1, mutable=False, proposal_id=ProposalId(7, 1))
    return wire.encode_committed_record(CommittedRecord(committed=proposal))


def entry(state: ActorState = ActorState.RUNNING, actor_id: bytes = FRESH) -> ActorEntry:
    on = None if state is ActorState.PENDING else "worker 1"
    return ActorEntry(
        id=actor_id,
        name=NAME,
        pool="chat",
        state=state,
        generation=5,
        create_ts=1000,
        input=b"hi",
        envoy_key=on,
        counted=True,
        failures=3,
        not_before_ms=9,
        since_ms=8,
        after=MINE,
    )


def restored(actor: ActorEntry, labels: dict[int, int | None]) -> ActorEntry | None:
    return restored_actor(record_row(actor.id), directory.encode(actor), labels)


def home_record(home: HomeRecord, *, mutable: bool = False) -> bytes:
    proposal = Proposal(value=encode(home), version=3, mutable=mutable, proposal_id=ProposalId(7, 1))
    return wire.encode_committed_record(CommittedRecord(committed=proposal))


def home_of(restored: tuple[bytes, bytes] | None) -> HomeRecord:
    assert restored is not None
    value = wire.decode_committed_record(restored[1]).committed.value
    assert value is not None
    return decode_home(value)


def owners(*records: tuple[bytes, bytes]) -> NameOwners:
    found = NameOwners()
    for key, content in records:
        found.take(key, content)
    return found


def test_the_newest_record_tells_the_owner_of_a_name() -> None:
    key, other = reservation_key(NAME), reservation_key(ActorName("default", "room", "43"))
    reserved = owners((key, record(MINE)), (other, home_record(HomeRecord(actor_id=FRESH, label=7, lease=LEASE))))
    assert (reserved.counts(), reserved.moved) == ({7: 2}, {})
    for content in (record(MINE), home_record(HomeRecord(actor_id=MINE, label=7, lease=LEASE))):
        moved = HomeRecord(actor_id=MINE, label=4, lease=LEASE, epoch=1)
        found = owners((key, content), (home_key(NAME), home_record(moved)), (b"user", record(MINE)))
        assert (found.counts(), list(found.moved.values())) == ({4: 1}, [4])
    back = owners((key, record(MINE)), (home_key(NAME), home_record(HomeRecord(actor_id=MINE, label=7, epoch=2))))
    assert (back.counts(), back.moved) == ({7: 1}, {})


def test_a_home_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(BackupError, match="cannot be read"):
        owners((reservation_key(NAME), record(b"\x09 later")))


def test_a_reservation_of_an_earlier_version_gets_the_new_label_and_keeps_all_else() -> None:
    key = reservation_key(NAME)
    found = ActorKeys({7: 2}, {}).restored(key, record(MINE))
    assert found is not None
    was, now = wire.decode_committed_record(record(MINE)), wire.decode_committed_record(found[1])
    assert now.committed.value == make_id(1, 2, 2)
    assert (now.committed.version, now.committed.proposal_id, now.lineage) == (1, was.committed.proposal_id, ())
    assert ActorKeys({7: 7}, {}).restored(key, record(MINE)) == (key, record(MINE))
    assert ActorKeys({7: None}, {}).restored(key, record(MINE)) is None
    assert ActorKeys({}, {}).restored(b"user", record(MINE)) == (b"user", record(MINE))


def test_homes_get_new_labels_and_are_under_no_lease() -> None:
    """Neither the one that the backup names, nor the empty one of an earlier version's reservation, whose actor would
    be made without its state where its row is missing."""
    for key in (reservation_key(NAME), home_key(NAME)):
        for label, epoch in ((2, 0), (7, 0), (2, 6)):
            home = HomeRecord(actor_id=MINE, label=7, lease=LEASE, epoch=epoch, pool="chat", create_ts=9, input=b"hi")
            now = home_of(ActorKeys({7: label}, {}).restored(key, home_record(home)))
            assert now == replace(home, actor_id=make_id(1, 2, label), label=label, lease=now.lease)
            assert now.lease != LEASE
            assert not is_legacy(now)


def test_states_follow_their_ids() -> None:
    keys = ActorKeys({7: 2}, {})
    assert keys.restored(state_key(MINE), b"as it is") == (state_key(make_id(1, 2, 2)), b"as it is")


def test_a_name_that_has_moved_stays_or_goes_with_its_home() -> None:
    reserved = (reservation_key(NAME), home_record(HomeRecord(actor_id=MINE, label=7, lease=LEASE)))
    moved = (home_key(NAME), home_record(HomeRecord(actor_id=MINE, label=4, lease=LEASE, epoch=1), mutable=True))
    state = (state_key(MINE), b"its state")
    found = owners(reserved, moved).moved
    stays = ActorKeys({7: None, 4: 1}, found)
    assert [home_of(stays.restored(*each)).label for each in (reserved, moved)] == [1, 1]
    assert (stays.restored(*state), stays.names_left_out) == (state, 0), "an id of a place that is gone"
    goes = ActorKeys({7: 1, 4: None}, found)
    assert [goes.restored(*each) for each in (reserved, moved, state)] == [None, None, None]
    assert goes.names_left_out == 1


def test_a_living_actor_sleeps_under_no_lease() -> None:
    for state in (ActorState.RUNNING, ActorState.STARTING, ActorState.MOVING, ActorState.PENDING):
        actor = restored(entry(state), {7: 2})
        assert actor is not None
        assert (label_of(actor.id), actor.id[:-2]) == (2, FRESH[:-2])
        assert (actor.state, actor.envoy_key, actor.counted, actor.after) == (ActorState.ASLEEP, None, False, None)
        assert (actor.lease, actor.clean) == (b"", False)
        assert (actor.failures, actor.not_before_ms, actor.since_ms) == (0, 0, 0)
        assert (actor.generation, actor.input, actor.name, actor.pool) == (5, b"hi", NAME, "chat")


def test_a_destroyed_one_stays_destroyed() -> None:
    actor = restored(entry(ActorState.DESTROYED), {7: 7})
    assert actor is not None
    assert (actor.id, actor.state, actor.envoy_key) == (FRESH, ActorState.DESTROYED, None)
    assert not at_home(actor)


def test_names_follow_and_rows_of_envoys_are_left_out() -> None:
    assert restored_name(directory.name_row(NAME), FRESH, {7: 2}) == make_id(3, 4, 2)
    for other in (directory.envoy_row(entry()), directory.pending_row(entry()), directory.LOST + pack(("a", "b"))):
        assert restored_name(other, b"", {7: 2}) is None
        assert restored_actor(other, b"", {7: 2}) is None


def test_an_actor_that_was_given_up_is_not_at_home_here() -> None:
    actor = restored(replace(entry(ActorState.PENDING), state=ActorState.ASLEEP, lease=directory.RELEASED), {7: 2})
    assert actor is not None
    assert not at_home(actor)
    assert actor.state is ActorState.ASLEEP


def test_rows_of_local_states_and_of_states_to_delete_name_their_actors() -> None:
    state, doomed = local_states.row_of(MINE), directory.doomed_row(MINE)
    assert [local_state_of(row, {7: 2}) for row in (state, doomed)] == [make_id(1, 2, 2), None]
    assert [doomed_of(row, {7: 2}) for row in (state, doomed)] == [None, make_id(1, 2, 2)]
