"""A new cluster from a backup: its rows, its id, and what is never taken over."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from epoxy.actors import directory, listing, local_states
from epoxy.actors.homes import home_in
from epoxy.backup.files import BackupWriter
from epoxy.backup.format import BackupHeader, BackupMember, Kind, encode_block
from epoxy.backup.restore import ActorChoice, Restore, Restored, cluster_id, plan_of, survey
from epoxy.codec import wire
from epoxy.codec.home_records import decode_state, encode, home_key, reservation_key
from epoxy.codec.tuple import pack
from epoxy.model.actors import ActorEntry, ActorName, ActorState, make_id
from epoxy.model.cluster import CONFIG_KEY, ClusterConfig, ReplicaInfo, first_epoch
from epoxy.model.errors import BackupError
from epoxy.model.homes import HomeRecord, StateRecord, state_key
from epoxy.model.marks import OWNED, is_owned
from epoxy.model.quorum import QuorumPolicy
from epoxy.model.records import CommittedRecord, Expiry, ExpiryEntry, Proposal, ProposalId, Settled
from epoxy.model.sessions import session_key
from epoxy.model.transactions import OrderedValue
from epoxy.ports import Snapshot
from epoxy.store.embedded.bulk import DataDirBuilder
from epoxy.store.keyspace import Keyspace
from epoxy.store.member_rows import MemberSpace
from epoxy.store.memory import MemoryStore
from epoxy.store.txn_rows import OrderedSpace
from tests.store.embedded.test_bulk import rows_of

MEMBERS = (BackupMember(id=1, datacenter="us"), BackupMember(id=2, datacenter="eu"))
ROOM = ActorName("default", "room", "42")
EU_ID = make_id(1, 2, 2)
NO_CHOICE = ActorChoice()
Records = list[tuple[bytes, ...]]


def record(value: bytes | None, version: int = 1, mutable: bool = False, expiry: Expiry | None = None) -> bytes:
    proposal = Proposal(
        value=value, version=version, mutable=mutable, proposal_id=ProposalId(9, version), expiry=expiry
    )
    lineage = (Settled(version - 1, ProposalId(8, 1)),) if version > 1 else ()
    return wire.encode_committed_record(CommittedRecord(committed=proposal, lineage=lineage))


KEYS: Records = [
    (b"acct", record(OWNED)),
    (b"cfg", record(b"4", version=4, mutable=True)),
    (b"gone", record(None, version=2, mutable=True)),
    (b"user/ada", record(b"dublin")),
]
RESERVED = (reservation_key(ROOM), record(EU_ID))
ACTOR = ActorEntry(
    id=EU_ID, name=ROOM, pool="chat", state=ActorState.RUNNING, generation=1, create_ts=5, envoy_key="worker"
)
ACTORS: Records = [
    (b"eu", directory.ACTOR + pack((EU_ID,)), directory.encode(ACTOR)),
    (b"eu", directory.name_row(ROOM), EU_ID),
    (b"eu", directory.envoy_row(ACTOR), b""),
]


def config(*names: str, policy: QuorumPolicy = QuorumPolicy.OPTIMAL, first: int = 1) -> ClusterConfig:
    infos = tuple(ReplicaInfo(id=first + number, datacenter=name) for number, name in enumerate(names))
    return ClusterConfig(epoch=1, coordinator_id=first, replicas=infos, quorum_policy=policy)


def backup(
    path: Path,
    keys: Records = KEYS,
    values: Records | None = None,
    actors: Records | None = None,
    *,
    versioned: bool = False,
) -> Path:
    header = BackupHeader(
        made_at="2026",
        replica=1,
        datacenter="us",
        epoch=9,
        members=MEMBERS,
        quorum_policy="optimal",
        version="2",
        versioned=versioned,
    )
    with BackupWriter(path, header) as writer:
        for kind, records in ((Kind.KEYS, keys), (Kind.VALUES, values), (Kind.ACTORS, actors)):
            if records:
                writer.write(encode_block(kind, records))
        writer.finish()
    return path


def quiet(_done: int, _size: int) -> None:
    pass


def restored(
    path: Path, data: Path, new: ClusterConfig, me: int = 1, choice: ActorChoice = NO_CHOICE
) -> tuple[Restored, dict[bytes, bytes]]:
    found = survey(path, quiet)
    plan = plan_of(found, new, choice)
    with DataDirBuilder(data, replica=me, cluster=plan.cluster, name="a test") as builder:
        done = Restore(plan, me, builder).run(path, found.end, quiet)
    return done, rows_of(data)


def snapshot_of(rows: dict[bytes, bytes]) -> Snapshot:
    return MemoryStore(contents=rows).newest()


def test_keys_keep_their_versions_and_lineages_and_nothing_else_is_there(tmp_path: Path) -> None:
    done, rows = restored(backup(tmp_path / "b"), tmp_path / "data", config("us", "eu", "ap"))
    keyspace = Keyspace(1)
    assert rows == {keyspace.value_row(key): content for key, content in KEYS}
    view = snapshot_of(rows)
    assert keyspace.load(view, b"cfg").lineage == (Settled(3, ProposalId(8, 1)),)
    assert keyspace.load(view, b"cfg").is_untouched
    assert MemberSpace(keyspace, 1).noted(view) == {}
    assert (done.keys, done.values, done.actors) == (4, 0, 0)


def test_values_that_end_are_in_the_index(tmp_path: Path) -> None:
    """Sessions are restored with what ends with them."""
    session = session_key(bytes(16))
    ending = {b"lock": Expiry(ttl_ms=30_000, since=2), session: Expiry(ttl_ms=9_000, since=2)}
    records: Records = [(key, record(b"v", 3, True, expiry)) for key, expiry in ending.items()]
    done, rows = restored(backup(tmp_path / "b", [KEYS[1], *records]), tmp_path / "data", config("us"))
    entries = [(key, ExpiryEntry(version=3, home=9, expiry=expiry)) for key, expiry in ending.items()]
    assert Keyspace(1).expiring(snapshot_of(rows), None, 10) == entries
    assert (done.keys, len(rows)) == (3, 5)


def test_values_of_transactions_begin_a_first_term_and_their_keys_stay_theirs(tmp_path: Path) -> None:
    """`new` was claimed where its transaction was executed, but the claim was not known there yet."""
    path = backup(tmp_path / "b", values=[(b"acct", b"5"), (b"new", b"7")])
    done, rows = restored(path, tmp_path / "data", config("us"))
    view, space = snapshot_of(rows), OrderedSpace(1)
    assert [space.held(view, key) for key in (b"acct", b"new")] == [OrderedValue(value=b"5"), OrderedValue(value=b"7")]
    assert space.term(view) is None
    assert is_owned(Keyspace(1).committed(view, b"acct"))
    assert is_owned(Keyspace(1).committed(view, b"new"))
    assert (done.keys, done.values) == (5, 2)


def test_values_of_transactions_that_end_are_in_their_index(tmp_path: Path) -> None:
    held = OrderedValue(value=b"v", version=4, expiry=Expiry(ttl_ms=30_000, since=2))
    values = {b"lock": held, b"plain": OrderedValue(value=b"w", version=1)}
    encoded: Records = [(key, wire.encode_ordered_value(each)) for key, each in values.items()]
    _, rows = restored(backup(tmp_path / "b", values=encoded, versioned=True), tmp_path / "data", config("us"))
    assert held.expiry is not None
    entry = ExpiryEntry(version=4, home=0, expiry=held.expiry)
    assert OrderedSpace(1).expiring(snapshot_of(rows), None, 9) == [(b"lock", entry)]


def test_a_key_of_both_engines_is_refused_and_nothing_is_left(tmp_path: Path) -> None:
    path = backup(tmp_path / "b", values=[(b"user/ada", b"5")])
    with pytest.raises(BackupError, match="another one of its own"):
        restored(path, tmp_path / "data", config("us"))
    assert [entry.name for entry in (tmp_path / "data").iterdir()] == ["lock"]


@pytest.mark.parametrize("header", wire.EARLIER_HEADERS)
def test_a_backup_of_an_earlier_format_is_restored(tmp_path: Path, header: bytes) -> None:
    """Made by the code of then, of the records above."""
    made = Path(__file__).with_name(f"format{header[0]}.backup")
    done, rows = restored(made, tmp_path / "data", config("us", "eu", "ap"), me=2)
    view, keyspace = snapshot_of(rows), Keyspace(2)
    for key, content in (*KEYS, RESERVED):
        expected = wire.decode_committed_record(content)
        state = keyspace.load(view, key)
        assert (state.committed, state.lineage) == (expected.committed, expected.lineage), key
        assert rows[keyspace.value_row(key)].startswith(header), "as it was made"
    assert OrderedSpace(2).held(view, b"acct") == OrderedValue(value=b"7"), "raw"
    assert (done.keys, done.values, done.actors) == (5, 1, 1)


def test_a_backup_of_a_later_format_is_refused(tmp_path: Path) -> None:
    path = backup(tmp_path / "b", [(b"cfg", b"\x05\x00" + record(b"4")[2:])])
    with pytest.raises(BackupError, match="in a format that this version of Epoxy does not read"):
        survey(path, quiet)


# Actors


def test_actors_go_to_the_datacenter_of_their_name_with_its_new_label(tmp_path: Path) -> None:
    path = backup(tmp_path / "b", [*KEYS, RESERVED], actors=ACTORS)
    new = config("ap", "us", "eu")
    there, theirs = restored(path, tmp_path / "us", new, me=2)
    here, mine = restored(path, tmp_path / "eu", new, me=3)
    expected = make_id(1, 2, 3)
    for me, rows in ((2, theirs), (3, mine)):
        committed = Keyspace(me).committed(snapshot_of(rows), reservation_key(ROOM))
        assert committed is not None
        assert committed.value == expected
    actor = directory.named(snapshot_of(mine), ROOM)
    assert actor is not None
    assert (actor.id, actor.state) == (expected, ActorState.ASLEEP)
    assert listing.waiting(snapshot_of(mine), 0, 10)[0] == []
    assert directory.named(snapshot_of(theirs), ROOM) is None
    assert (here.actors, there.actors, here.cluster) == (1, 0, there.cluster)


def test_actors_without_a_place_need_a_choice(tmp_path: Path) -> None:
    path = backup(tmp_path / "b", [*KEYS, RESERVED], actors=ACTORS)
    new = config("us", "ap")
    with pytest.raises(BackupError, match=r"does not have: eu \(1\); give them to one of ap, us with --actors-of"):
        restored(path, tmp_path / "1", new)
    done, rows = restored(path, tmp_path / "2", new, me=2, choice=ActorChoice(moved={"eu": "ap"}))
    found = directory.named(snapshot_of(rows), ROOM)
    assert found is not None
    assert (found.id, done.actors, done.names_left_out) == (EU_ID, 1, 0)
    done, rows = restored(path, tmp_path / "3", new, me=2, choice=ActorChoice(dropped=frozenset({"eu"})))
    assert rows == {Keyspace(2).value_row(key): content for key, content in KEYS}
    assert (done.actors, done.names_left_out) == (0, 1)


def homes_and_states(reserved: int, home: int) -> Records:
    """Of an actor that was made under the first label and lives under the second one, with a state."""
    actor_id = make_id(1, 2, reserved)
    first = HomeRecord(actor_id=actor_id, label=reserved, lease=bytes(16))
    state = StateRecord(generation=5, number=2, alarm_ms=9, document=b"doc")
    return [
        (reservation_key(ROOM), record(encode(first))),
        (home_key(ROOM), record(encode(replace(first, label=home, epoch=1)), version=2, mutable=True)),
        (state_key(actor_id), record(encode(state), version=7, mutable=True)),
    ]


def test_states_and_homes_are_restored_under_the_new_labels(tmp_path: Path) -> None:
    path = backup(tmp_path / "b", [*KEYS, *homes_and_states(2, 1)])
    done, rows = restored(path, tmp_path / "d", config("ap", "us", "eu"))
    view, keyspace, expected = snapshot_of(rows), Keyspace(1), make_id(1, 2, 3)
    state = keyspace.committed(view, state_key(expected))
    assert state is not None
    assert state.value is not None
    assert (state.version, decode_state(state.value).document) == (7, b"doc")
    for key in (reservation_key(ROOM), home_key(ROOM)):
        found = home_in(keyspace.committed(view, key), first=False)
        assert found is not None
        assert (found.record.actor_id, found.record.label, len(found.record.lease)) == (expected, 2, 1)
    assert (done.keys, done.names_left_out, len(rows)) == (7, 0, 7)


def test_a_home_tells_where_a_name_needs_a_place(tmp_path: Path) -> None:
    """Made in eu, which the new cluster does not have, and taken over by us: no choice is needed. And the reverse."""
    taken_over = backup(tmp_path / "a", [*KEYS, *homes_and_states(2, 1)])
    done, rows = restored(taken_over, tmp_path / "1", config("us"))
    assert Keyspace(1).committed(snapshot_of(rows), state_key(EU_ID)) is not None
    assert done.keys == 7
    moved = backup(tmp_path / "b", [*KEYS, *homes_and_states(1, 2)])
    with pytest.raises(BackupError, match=r"does not have: eu \(1\)"):
        restored(moved, tmp_path / "2", config("us"))
    done, rows = restored(moved, tmp_path / "3", config("us"), choice=ActorChoice(dropped=frozenset({"eu"})))
    assert rows == {Keyspace(1).value_row(key): content for key, content in KEYS}
    assert (done.keys, done.names_left_out) == (4, 1)


def test_local_states_go_with_their_actors(tmp_path: Path) -> None:
    """One without a record is left out."""
    lone, value = make_id(7, 7, 2), (4).to_bytes(8, "big") + encode(StateRecord(document=b"here"))
    states: Records = [(b"eu", row, value) for row in sorted(map(local_states.row_of, (EU_ID, lone)))]
    doomed = (b"eu", directory.doomed_row(lone), pack((3,)))
    path = backup(tmp_path / "b", [*KEYS, RESERVED], actors=[*ACTORS, *states, doomed])
    _, rows = restored(path, tmp_path / "eu", config("ap", "us", "eu"), me=3)
    view = snapshot_of(rows)
    kept = local_states.read(view, state_key(make_id(1, 2, 3)))
    assert kept is not None
    assert (kept.version, kept.value) == (4, value[8:])
    assert local_states.read(view, state_key(make_id(7, 7, 3))) is None
    assert listing.doomed(view, 9) == [(make_id(7, 7, 3), 3)]


@pytest.mark.parametrize(("old", "new"), [("eu", "us"), ("us", "eu")])
def test_of_two_rows_of_an_actor_that_has_moved_the_one_at_home_counts(tmp_path: Path, old: str, new: str) -> None:
    """Both datacenters become one."""
    left = replace(ACTOR, state=ActorState.ASLEEP, envoy_key=None, lease=directory.RELEASED)
    actors: Records = [
        (name, row, value)
        for name, actor in sorted([(old.encode(), left), (new.encode(), ACTOR)], key=lambda each: each[0])
        for row, value in (
            (directory.ACTOR + pack((EU_ID,)), directory.encode(actor)),
            (directory.name_row(ROOM), EU_ID),
        )
    ]
    path = backup(tmp_path / "b", [*KEYS, RESERVED], actors=actors)
    both = ActorChoice(moved={"us": "ap", "eu": "ap"})
    done, rows = restored(path, tmp_path / "d", config("ap"), choice=both)
    actor = directory.named(snapshot_of(rows), ROOM)
    assert actor is not None
    assert (done.actors, actor.lease) == (1, b"")


def test_a_record_counts_only_if_its_name_leads_to_it(tmp_path: Path) -> None:
    """Planted: destroyed and made again while the rows were read. The first would run beside the second."""
    again = make_id(8, 8, 2)
    half: Records = [ACTORS[0], (b"eu", directory.name_row(ROOM), again)]
    done, rows = restored(backup(tmp_path / "b", [*KEYS, RESERVED], actors=half), tmp_path / "d", config("us", "eu"), 2)
    view = snapshot_of(rows)
    assert (directory.load(view, EU_ID), directory.named(view, ROOM)) == (None, None)
    assert listing.waiting(view, 0, 10)[0] == []
    assert done.actors == 0
    assert set(rows) == {Keyspace(2).value_row(key) for key, _ in [*KEYS, RESERVED]}


def test_names_of_a_member_that_left_before_have_no_place_either(tmp_path: Path) -> None:
    path = backup(tmp_path / "b", [*KEYS, (reservation_key(ROOM), record(make_id(1, 2, 5)))])
    with pytest.raises(BackupError, match=r"replica-5 \(1\)"):
        restored(path, tmp_path / "1", config("us", "eu"))
    done, _ = restored(path, tmp_path / "2", config("us", "eu"), choice=ActorChoice(moved={"replica-5": "us"}))
    assert done.keys == 5


@pytest.mark.parametrize(
    ("choice", "says"),
    [
        (ActorChoice(moved={"xx": "us"}), "no datacenter of the backup is named 'xx'"),
        (ActorChoice(moved={"eu": "xx"}), "no datacenter of the new cluster is named 'xx'"),
        (ActorChoice(dropped=frozenset({"xx"})), "no datacenter of the backup is named 'xx'"),
        (ActorChoice(moved={"eu": "us"}, dropped=frozenset({"eu"})), "both moved and left out"),
    ],
)
def test_a_choice_that_names_nothing_is_refused(tmp_path: Path, choice: ActorChoice, says: str) -> None:
    with pytest.raises(BackupError, match=says):
        plan_of(survey(backup(tmp_path / "b"), quiet), config("us"), choice)


# The cluster's id


def test_only_equal_files_members_and_choices_make_one_cluster(tmp_path: Path) -> None:
    end = survey(backup(tmp_path / "b"), quiet).end
    other = survey(backup(tmp_path / "c"), quiet).end
    ids = [
        cluster_id(end, config("us", "eu"), NO_CHOICE),
        cluster_id(other, config("us", "eu"), NO_CHOICE),
        cluster_id(end, config("us", "ap"), NO_CHOICE),
        cluster_id(end, config("us", "eu", "ap"), NO_CHOICE),
        cluster_id(end, config("us", "eu", first=2), NO_CHOICE),
        cluster_id(end, config("us", "eu", policy=QuorumPolicy.FAST_PAXOS), NO_CHOICE),
        cluster_id(end, config("us", "eu"), ActorChoice(moved={"eu": "us"})),
        cluster_id(end, config("us", "eu"), ActorChoice(dropped=frozenset({"eu"}))),
    ]
    assert len(set(ids)) == len(ids)
    assert cluster_id(end, config("us", "eu"), NO_CHOICE) == ids[0]
    assert all(len(each) == 16 for each in ids)


# Planted faults


def test_a_file_that_changes_between_the_two_readings_is_refused(tmp_path: Path) -> None:
    path = backup(tmp_path / "b")
    found = survey(path, quiet)
    path.unlink()
    backup(path)
    plan = plan_of(found, config("us"), NO_CHOICE)
    with (
        DataDirBuilder(tmp_path / "data", replica=1, cluster=plan.cluster, name="a test") as builder,
        pytest.raises(BackupError, match="changed while it was read"),
    ):
        Restore(plan, 1, builder).run(path, found.end, quiet)
    assert [entry.name for entry in (tmp_path / "data").iterdir()] == ["lock"]


def test_keys_of_the_old_cluster_itself_are_refused(tmp_path: Path) -> None:
    """Its members and epochs in a new cluster: old configurations would win over the first one."""
    old = wire.encode_config(first_epoch((1, 2, 3)))
    path = backup(tmp_path / "b", [*KEYS, (CONFIG_KEY, record(old, version=7, mutable=True))])
    with pytest.raises(BackupError, match="belongs to the cluster that the backup is of"):
        survey(path, quiet)


def test_records_of_another_format_are_refused(tmp_path: Path) -> None:
    path = backup(tmp_path / "b", [(b"a", b"\x09\x09" + record(b"x"))])
    with pytest.raises(BackupError, match="in a format that this version"):
        survey(path, quiet)
