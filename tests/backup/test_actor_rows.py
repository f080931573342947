"""Actors in another cluster: ids with the labels of its datacenters, and none on an envoy."""

from epoxy.actors import directory
from epoxy.actors.reservation import key_of
from epoxy.backup.actor_rows import owner_of, record_row, relabelled_record, restored_actor, restored_name
from epoxy.codec import wire
from epoxy.codec.tuple import pack
from epoxy.model.actors import ActorEntry, ActorName, ActorState, label_of, make_id
from epoxy.model.records import CommittedRecord, Proposal, ProposalId

NAME = ActorName("default", "room", "42")
MINE, FRESH = make_id(1, 2, 7), make_id(3, 4, 7)


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


def test_the_owner_of_a_name_is_found() -> None:
    assert owner_of(key_of(NAME), record(MINE)) == 7
    assert owner_of(b"user", record(MINE)) is None


def test_a_reservation_gets_the_new_label_and_keeps_all_else() -> None:
    found = relabelled_record(key_of(NAME), record(MINE), {7: 2})
    assert found is not None
    was, now = wire.decode_committed_record(record(MINE)), wire.decode_committed_record(found)
    assert now.committed.value == make_id(1, 2, 2)
    assert (now.committed.version, now.committed.proposal_id, now.lineage) == (1, was.committed.proposal_id, ())
    assert relabelled_record(key_of(NAME), record(MINE), {7: 7}) == record(MINE)
    assert relabelled_record(key_of(NAME), record(MINE), {7: None}) is None
    assert relabelled_record(b"user", record(MINE), {}) == record(MINE)


def test_a_living_actor_waits_for_an_envoy() -> None:
    for state in (ActorState.RUNNING, ActorState.STARTING, ActorState.MOVING, ActorState.PENDING):
        actor = restored(entry(state), {7: 2})
        assert actor is not None
        assert (label_of(actor.id), actor.id[:-2]) == (2, FRESH[:-2])
        assert (actor.state, actor.envoy_key, actor.counted, actor.after) == (ActorState.PENDING, None, False, None)
        assert (actor.failures, actor.not_before_ms, actor.since_ms) == (0, 0, 0)
        assert (actor.generation, actor.input, actor.name, actor.pool) == (5, b"hi", NAME, "chat")


def test_a_destroyed_one_stays_destroyed() -> None:
    actor = restored(entry(ActorState.DESTROYED), {7: 7})
    assert actor is not None
    assert (actor.id, actor.state, actor.envoy_key) == (FRESH, ActorState.DESTROYED, None)


def test_names_follow_and_rows_of_envoys_are_left_out() -> None:
    assert restored_name(directory.name_row(NAME), FRESH, {7: 2}) == make_id(3, 4, 2)
    for other in (directory.envoy_row(entry()), directory.pending_row(entry()), directory.LOST + pack(("a", "b"))):
        assert restored_name(other, b"", {7: 2}) is None
        assert restored_actor(other, b"", {7: 2}) is None


def test_actors_that_are_left_out_leave_nothing() -> None:
    assert restored(entry(), {7: None}) is None
    assert restored_name(directory.name_row(NAME), FRESH, {7: None}) is None
