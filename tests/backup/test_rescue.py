"""What is left of a cluster: whose directories count, what they hold together, and what cannot be told."""

from contextlib import ExitStack
from pathlib import Path

import pytest
from msgspec.structs import replace

from epoxy.actors import directory as actors
from epoxy.backup.files import BackupReader
from epoxy.backup.format import Kind
from epoxy.backup.open_writes import Doubt, OpenWrite
from epoxy.backup.rescue import RescueSurvey, RescueWriter, survey
from epoxy.codec import wire
from epoxy.codec.tuple import pack
from epoxy.model.ballot import fast_ballot
from epoxy.model.cluster import ClusterConfig, ReplicaInfo, first_epoch
from epoxy.model.errors import StoreRefused
from epoxy.model.incarnation import Sighting
from epoxy.model.records import FRESH, KeyState, Proposal, ProposalId, Vote
from epoxy.ports import Transaction
from epoxy.store.embedded.offline import StoppedStore
from epoxy.store.keyspace import Keyspace
from epoxy.store.legacy import LegacyImport
from epoxy.store.member_rows import MemberSpace
from tests.backup.directories import Fill, directory

CONFIG = ClusterConfig(
    epoch=2,
    coordinator_id=1,
    replicas=tuple(
        ReplicaInfo(id=number, datacenter=name, identity=100 + number)
        for number, name in enumerate(("us", "eu", "ap"), start=1)
    ),
)


def committed(key: bytes, value: bytes, version: int = 1, replica: int = 1) -> Fill:
    proposal = Proposal(value=value, version=version, mutable=True, proposal_id=ProposalId(1, version))
    return lambda tx: Keyspace(replica).save(tx, key, FRESH, KeyState(committed=proposal))


def voted(key: bytes, value: bytes, replica: int = 1) -> Fill:
    proposal = Proposal(value=value, version=1, mutable=False, proposal_id=ProposalId(3, 1))
    state = KeyState(vote=Vote(proposal=proposal, ballot=fast_ballot(3), epoch=2))
    return lambda tx: Keyspace(replica).save(tx, key, FRESH, state)


def node(
    path: Path, me: int, *fills: Fill, identity: int = 0, config: ClusterConfig = CONFIG, cluster: str = ""
) -> Path:
    def own(tx: Transaction) -> None:
        MemberSpace(Keyspace(me), me).identity(tx, identity or 100 + me)

    return directory(path / f"node-{me}", me, own, *fills, config=config, cluster=cluster)


def surveyed(stack: ExitStack, *paths: Path, take: bool = True) -> RescueSurvey:
    return survey([stack.enter_context(StoppedStore(path)) for path in paths], take=take)


def rescued(folder: Path, *paths: Path) -> tuple[dict[Kind, list[tuple[bytes, ...]]], list[OpenWrite], BackupReader]:
    listed: list[list[OpenWrite]] = []
    with ExitStack() as stack:
        writer = RescueWriter(surveyed(stack, *paths))
        end = writer.write(folder / "b", listed.append, lambda _: None)
    with BackupReader(folder / "b") as reader:
        found: dict[Kind, list[tuple[bytes, ...]]] = {kind: [] for kind in (Kind.KEYS, Kind.VALUES, Kind.ACTORS)}
        for block in reader.blocks():
            found[block.kind] += block.records
        assert reader.end == end
    assert listed == [writer.doubts]
    return found, writer.doubts, reader


def values(records: list[tuple[bytes, ...]]) -> dict[bytes, bytes | None]:
    return {key: wire.decode_committed_record(record).committed.value for key, record in records}


def test_the_newest_of_each_key_whoever_has_it(tmp_path: Path) -> None:
    one = node(tmp_path, 1, committed(b"a", b"old"), committed(b"b", b"mine"))
    two = node(tmp_path, 2, committed(b"a", b"new", 2, replica=2), committed(b"\x00c", b"theirs", replica=2))
    found, doubts, reader = rescued(tmp_path, one, two)
    assert values(found[Kind.KEYS]) == {b"\x00c": b"theirs", b"a": b"new", b"b": b"mine"}
    assert doubts == [], "two of three are a quorum"
    header = reader.header
    assert (header.method, header.epoch, [member.datacenter for member in header.members]) == (
        "rescue",
        2,
        ["us", "eu", "ap"],
    )
    assert reader.end is not None
    assert reader.end.missing == ("ap",)


def test_values_found_elsewhere_and_those_of_the_first_layout_count(tmp_path: Path) -> None:
    cached = Proposal(value=b"found", version=3, mutable=True, proposal_id=ProposalId(2, 3))
    one = node(
        tmp_path,
        1,
        lambda tx: Keyspace(1).cache(tx, b"cached", cached),
        lambda tx: LegacyImport(1).write(tx, [(b"legacy", b"raw")]),
    )
    found, _, _ = rescued(tmp_path, one)
    assert values(found[Kind.KEYS]) == {b"cached": b"found", b"legacy": b"raw"}
    assert wire.decode_committed_record(found[Kind.KEYS][0][1]).committed.version == 3


def test_a_lone_survivors_votes_are_taken_and_listed(tmp_path: Path) -> None:
    found, doubts, _ = rescued(tmp_path, node(tmp_path, 1, voted(b"open", b"mine"), committed(b"a", b"1")))
    assert values(found[Kind.KEYS]) == {b"a": b"1", b"open": b"mine"}
    assert doubts == [OpenWrite(key=b"open", doubt=Doubt.VOTE, version=1, value=b"mine", replicas=(1,), taken=True)]


def test_the_clusters_own_keys_stay_behind_and_actors_come_along(tmp_path: Path) -> None:
    row = actors.NAME + pack(("default", "room", "1"))
    one = node(tmp_path, 2, lambda tx: tx.set(row, b"id"))
    two = node(tmp_path, 1, lambda tx: tx.set(row, b"other"))
    found, _, _ = rescued(tmp_path, one, two)
    assert found[Kind.KEYS] == []
    assert found[Kind.ACTORS] == [(b"eu", row, b"id"), (b"us", row, b"other")]


# Whose directories


def test_what_is_lost_and_whether_the_rest_is_a_quorum(tmp_path: Path) -> None:
    paths = [node(tmp_path, me) for me in (1, 2, 3)]
    for given, lost, quorum in (((0,), (2, 3), False), ((0, 2), (2,), True), ((0, 1, 2), (), True)):
        with ExitStack() as stack:
            found = surveyed(stack, *(paths[index] for index in given))
            assert (found.lost, found.survivors.quorum) == (lost, quorum)


def test_in_a_joint_epoch_both_sides_need_a_quorum(tmp_path: Path) -> None:
    infos = tuple(ReplicaInfo(id=number, datacenter=str(number)) for number in (1, 2, 3, 4))
    joint = ClusterConfig(epoch=5, coordinator_id=1, replicas=infos, previous=(1,))
    paths = {me: node(tmp_path, me, config=joint) for me in (1, 2, 3, 4)}
    for given, quorum in (((1, 2), False), ((2, 3, 4), False), ((1, 2, 3), True)):
        with ExitStack() as stack:
            assert surveyed(stack, *(paths[me] for me in given)).survivors.quorum is quorum


def test_directories_of_other_stores_clusters_and_members_are_refused(tmp_path: Path) -> None:
    one = node(tmp_path, 1)
    cases = {
        "replica 4 is no member in epoch 2": node(tmp_path, 4),
        "another store is on record for replica 2": node(tmp_path / "other", 2, identity=7),
        "different clusters": node(tmp_path / "restored", 3, cluster="00000000000000aa"),
        "two directories are of replica 1": node(tmp_path / "twin", 1),
        "has never served": directory(tmp_path / "empty", 3),
    }
    for says, path in cases.items():
        with ExitStack() as stack, pytest.raises(StoreRefused, match=says):
            surveyed(stack, one, path)


def test_a_store_noted_at_the_first_contact_is_known_too(tmp_path: Path) -> None:
    early = first_epoch((1, 2, 3))
    one = node(tmp_path, 1, lambda tx: MemberSpace(Keyspace(1), 1).note(tx, 2, 55), config=early)
    with ExitStack() as stack, pytest.raises(StoreRefused, match="another store is on record for replica 2"):
        surveyed(stack, one, node(tmp_path, 2, config=early))


@pytest.mark.parametrize(
    ("seen", "says"),
    [
        (Sighting(store=102, counter=4, nonce=1, position=0), "has seen a later start"),
        (Sighting(store=102, counter=3, nonce=1, position=9), "had written more"),
    ],
)
def test_an_older_copy_makes_no_quorum(tmp_path: Path, seen: Sighting, says: str) -> None:
    """Planted: counted as one, it would hide what it had voted for since."""

    def remember(tx: Transaction) -> None:
        for row, value in MemberSpace(Keyspace(1), 1).sighting_rows({2: seen}).items():
            assert value is not None
            tx.set(row, value)

    one = node(tmp_path, 1, remember)
    two = node(tmp_path, 2, lambda tx: MemberSpace(Keyspace(2), 2).begin(tx, 3, 1))
    with ExitStack() as stack:
        found = surveyed(stack, one, two)
        assert says in found.behind[2]
        assert not found.survivors.quorum


def test_a_refused_store_makes_no_quorum_either(tmp_path: Path) -> None:
    two = node(tmp_path, 2, lambda tx: MemberSpace(Keyspace(2), 2).refuse(tx, "an old copy"))
    with ExitStack() as stack:
        assert surveyed(stack, node(tmp_path, 1), two).behind == {2: "an old copy"}


def test_the_newest_configuration_counts(tmp_path: Path) -> None:
    old = replace(CONFIG, epoch=1)
    with ExitStack() as stack:
        found = surveyed(stack, node(tmp_path, 1, config=old), node(tmp_path, 2))
        assert found.config.epoch == 2
