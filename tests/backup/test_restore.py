"""A new cluster from a backup: its rows, its id, and what is never taken over."""

from pathlib import Path

import pytest

from epoxy.actors import directory
from epoxy.actors.reservation import key_of
from epoxy.backup.files import BackupWriter
from epoxy.backup.format import BackupHeader, BackupMember, Kind, encode_block
from epoxy.backup.restore import ActorChoice, Restore, Restored, cluster_id, plan_of, survey
from epoxy.codec import wire
from epoxy.codec.tuple import pack
from epoxy.model.actors import ActorEntry, ActorName, ActorState, make_id
from epoxy.model.cluster import CONFIG_KEY, ClusterConfig, ReplicaInfo, first_epoch
from epoxy.model.errors import BackupError
from epoxy.model.quorum import QuorumPolicy
from epoxy.model.records import CommittedRecord, Proposal, ProposalId, Settled
from epoxy.node.txn.transactions import OWNED, is_owned
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


def record(value: bytes | None, version: int = 1, mutable: bool = False) -> bytes:
    proposal = Proposal(value=value, version=version, mutable=mutable, proposal_id=ProposalId(9, version))
    lineage = (Settled(version - 1, ProposalId(8, 1)),) if version > 1 else ()
    return wire.encode_committed_record(CommittedRecord(committed=proposal, lineage=lineage))


KEYS: Records = [
    (b"acct", record(OWNED)),
    (b"cfg", record(b"4", version=4, mutable=True)),
    (b"gone", record(None, version=2, mutable=True)),
    (b"user/ada", record(b"dublin")),
]
RESERVED = (key_of(ROOM), record(EU_ID))
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


def backup(path: Path, keys: Records = KEYS, values: Records | None = None, actors: Records | None = None) -> Path:
    header = BackupHeader(
        made_at="2026", replica=1, datacenter="us", epoch=9, members=MEMBERS, quorum_policy="optimal", version="2"
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


def test_values_of_transactions_begin_a_first_term_and_their_keys_stay_theirs(tmp_path: Path) -> None:
    """`new` was claimed where its transaction was executed, but the claim was not known there yet."""
    path = backup(tmp_path / "b", values=[(b"acct", b"5"), (b"new", b"7")])
    done, rows = restored(path, tmp_path / "data", config("us"))
    view, space = snapshot_of(rows), OrderedSpace(1)
    assert (space.value(view, b"acct"), space.value(view, b"new"), space.term(view)) == (b"5", b"7", None)
    assert is_owned(Keyspace(1).committed(view, b"acct"))
    assert is_owned(Keyspace(1).committed(view, b"new"))
    assert (done.keys, done.values) == (5, 2)


def test_a_key_of_both_engines_is_refused_and_nothing_is_left(tmp_path: Path) -> None:
    path = backup(tmp_path / "b", values=[(b"user/ada", b"5")])
    with pytest.raises(BackupError, match="another one of its own"):
        restored(path, tmp_path / "data", config("us"))
    assert [entry.name for entry in (tmp_path / "data").iterdir()] == ["lock"]


def test_a_backup_of_format_2_is_restored(tmp_path: Path) -> None:
    """Made by the code of then, of the records above."""
    done, rows = restored(Path(__file__).with_name("format2.backup"), tmp_path / "data", config("us", "eu", "ap"), me=2)
    view, keyspace = snapshot_of(rows), Keyspace(2)
    for key, content in (*KEYS, RESERVED):
        expected = wire.decode_committed_record(content)
        state = keyspace.load(view, key)
        assert (state.committed, state.lineage) == (expected.committed, expected.lineage), key
        assert rows[keyspace.value_row(key)].startswith(wire.EARLIER_HEADER), "as it was made"
    assert OrderedSpace(2).value(view, b"acct") == b"7"
    assert (done.keys, done.values, done.actors) == (5, 1, 1)


def test_a_backup_of_a_later_format_is_refused(tmp_path: Path) -> None:
    path = backup(tmp_path / "b", [(b"cfg", b"\x04\x00" + record(b"4")[2:])])
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
        committed = Keyspace(me).committed(snapshot_of(rows), key_of(ROOM))
        assert committed is not None
        assert committed.value == expected
    actor = directory.named(snapshot_of(mine), ROOM)
    assert actor is not None
    assert (actor.id, actor.state) == (expected, ActorState.PENDING)
    assert directory.waiting(snapshot_of(mine), 0, 10)[0] == [actor]
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


def test_a_record_counts_only_if_its_name_leads_to_it(tmp_path: Path) -> None:
    """Planted: destroyed and made again while the rows were read. The first would run beside the second."""
    again = make_id(8, 8, 2)
    half: Records = [ACTORS[0], (b"eu", directory.name_row(ROOM), again)]
    done, rows = restored(backup(tmp_path / "b", [*KEYS, RESERVED], actors=half), tmp_path / "d", config("us", "eu"), 2)
    view = snapshot_of(rows)
    assert (directory.load(view, EU_ID), directory.named(view, ROOM)) == (None, None)
    assert directory.waiting(view, 0, 10)[0] == []
    assert done.actors == 0
    assert set(rows) == {Keyspace(2).value_row(key) for key, _ in [*KEYS, RESERVED]}


def test_names_of_a_member_that_left_before_have_no_place_either(tmp_path: Path) -> None:
    path = backup(tmp_path / "b", [*KEYS, (key_of(ROOM), record(make_id(1, 2, 5)))])
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
