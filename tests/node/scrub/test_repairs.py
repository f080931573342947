"""Rotten rows: what leaves meanwhile, what is repaired from others, and what ends the node."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from epoxy.codec.tuple import pack
from epoxy.model.ballot import Ballot
from epoxy.model.members import NO_STAMP, Progress
from epoxy.model.messages import Accept, Commit, Failed, Prepare, Read, Reply
from epoxy.model.records import Expiry, KeyState, ProposalId
from epoxy.model.transactions import OrderedValue
from epoxy.model.writes import Committed, Path, ReadFailed, ReadResult, Refused, Source
from epoxy.node.keys.changelog_gc import SWEPT_ROWS
from epoxy.node.scrub.repairs import AGAIN_MS, AT_ONCE, CONTRADICTS, NOT_ELSEWHERE, NOT_FOUND
from epoxy.store.keyspace import (
    BALLOT,
    CACHE,
    CACHES,
    CHANGELOG,
    EXPIRIES,
    KV,
    LAYOUT,
    LEGACY_LAYOUT,
    TRUNCATED,
    USER_VERSION,
    VALUE,
    VERSIONSTAMP,
    VOTES,
)
from epoxy.store.member_rows import PROGRESS
from epoxy.store.row_kinds import RowKind, row_of
from epoxy.store.txn_rows import ENDING, VALUES, OrderedSpace
from tests.node.scrub.replicas import KEY, Cluster, RottenReplica
from tests.protocol.keys.harness import prop, vote_at

pytestmark = pytest.mark.pure("it drops the cached states of a replica")


def value_row(me: int, key: bytes = KEY) -> bytes:
    return pack((LAYOUT, me, KV, key)) + VALUE


def asked(replica: RottenReplica, request: Read | Prepare | Accept | Commit) -> Reply:
    replies: list[Reply] = []
    replica.replica.handle([request], replies.append)
    return replies[0]


def written(versions: int = 2, size: int = 3) -> tuple[Cluster, RottenReplica]:
    """The first replica wrote these versions."""
    cluster = Cluster(size)
    first = cluster.replicas[0]
    for version in range(1, versions + 1):
        assert isinstance(first.write(b"v%d" % version), Committed)
    return cluster, first


def test_a_rotten_value_is_neither_served_nor_voted_on_and_then_repaired() -> None:
    cluster, first = written()
    before = first.state()
    first.rot(value_row(1))
    for request in (
        Read(key=KEY, epoch=1),
        Prepare(key=KEY, epoch=1, ballot=Ballot(9, 2), base=2),
        Accept(key=KEY, epoch=1, ballot=Ballot(1, 2), proposal=prop(b"x", 3, by=2, mutable=True)),
        Commit(key=KEY, epoch=1, proposal=prop(b"x", 3, by=2, mutable=True)),
    ):
        assert isinstance(asked(first, request), Failed)
    cluster.clock.advance(0)
    assert first.state() == KeyState(committed=before.committed)
    assert asked(first, Read(key=KEY, epoch=1)).committed == before.committed  # type: ignore[union-attr]
    assert (first.repairs.found[RowKind.VALUE], first.repairs.repaired, first.repairs.rotten) == (1, 1, {})
    assert first.log == [
        ("error", "a committed value of user/ada", "it is read from a quorum of the others"),
        ("info", "a committed value of user/ada", "repaired"),
    ]
    assert isinstance(first.write(b"v3"), Committed)


def test_rows_are_mended_when_all_of_them_may_be_written_here() -> None:
    cluster, first = written()
    waiting: list[Callable[[], None]] = []
    first.repairs.first = waiting.append
    first.rot(value_row(1))
    assert isinstance(asked(first, Read(key=KEY, epoch=1)), Failed)
    cluster.clock.advance(10 * AGAIN_MS)
    assert (len(waiting), first.repairs.repaired) == (1, 0)
    waiting[0]()
    cluster.clock.advance(0)
    assert first.repairs.repaired == 1


def test_clients_get_a_definite_refusal_or_the_value_of_the_others() -> None:
    first = written()[1]
    first.rot(value_row(1))
    assert isinstance(first.write(b"v3"), Refused)
    first = written()[1]
    first.rot(value_row(1))
    first.store.on_rot = lambda _: None
    found = first.read()
    assert isinstance(found, ReadResult)
    assert (found.value, found.source) == (b"v2", Source.QUORUM)


def test_without_a_quorum_it_stays_as_it_is_and_is_tried_again() -> None:
    cluster, first = written()
    cluster.down = {3}
    first.rot(value_row(1))
    assert isinstance(first.read(), ReadFailed)
    cluster.clock.advance(10 * AGAIN_MS)
    assert list(first.repairs.rotten) == [value_row(1)]
    assert first.repairs.listed() == ["a committed value of user/ada"]
    assert isinstance(asked(first, Read(key=KEY, epoch=1)), Failed)
    cluster.down = set()
    cluster.clock.advance(60 * AGAIN_MS)
    assert first.state().version == 2
    assert first.ended == []


def test_a_commit_that_only_this_replica_knew_is_finished_from_the_votes() -> None:
    """It proposed, committed and answered; its Commits were lost, and so is its row."""
    cluster, first = written(1)
    lost: list[object] = []
    real = first.send
    first.send = lambda to, requests, answered: (  # type: ignore[method-assign]
        real(to, requests, answered) if not isinstance(requests[-1], Commit) else lost.append(requests)
    )
    assert isinstance(first.write(b"v2"), Committed)
    first.send = real  # type: ignore[method-assign]
    assert lost
    assert [each.state().version for each in cluster.replicas] == [2, 1, 1]
    first.rot(value_row(1))
    asked(first, Read(key=KEY, epoch=1))
    cluster.clock.advance(0)
    committed = [each.state().committed for each in cluster.replicas]
    assert [each.value for each in committed if each is not None] == [b"v2"] * 3


def test_a_newer_version_that_came_meanwhile_stays() -> None:
    """The repair has read version 2, and version 3 was written before it could write that down."""
    cluster, first = written()
    first.rot(value_row(1))
    three = prop(b"v3", 3, by=2, mutable=True)
    found = first.replica.restore
    old = cluster.replicas[1].state().committed
    assert old is not None
    first.store.put(
        {
            value_row(1): first.replica.keyspace.changes(
                first.store.newest(), KEY, KeyState(), KeyState(committed=three)
            )[0][value_row(1)]
        },
        None,
    )
    assert found(KEY, old)
    assert first.state().committed == three


def test_own_promise_and_vote_are_kept() -> None:
    cluster, first = written()
    vote = vote_at(prop(b"x", 3, by=2, mutable=True), Ballot(5, 2))
    asked(first, Prepare(key=KEY, epoch=1, ballot=vote.ballot, base=2))
    asked(first, Accept(key=KEY, epoch=1, ballot=vote.ballot, proposal=vote.proposal))
    asked(first, Prepare(key=KEY, epoch=1, ballot=Ballot(6, 3), base=2))
    before = first.state()
    assert (before.vote, before.promised) == (vote, Ballot(6, 3))
    first.rot(value_row(1))
    asked(first, Read(key=KEY, epoch=1))
    cluster.clock.advance(0)
    assert first.state() == KeyState(committed=before.committed, promised=before.promised, vote=vote)


def test_a_vote_beyond_what_the_others_know_ends_the_node() -> None:
    cluster, first = written()
    vote = vote_at(prop(b"x", 5, by=2, mutable=True), Ballot(5, 2))
    first.rot(value_row(1))
    space = first.replica.keyspace
    four = KeyState(committed=prop(b"v4", 4, mutable=True))
    rows, _ = space.changes(
        first.store.newest(), KEY, four, KeyState(committed=four.committed, promised=vote.ballot, vote=vote)
    )
    first.store.put(rows, None)
    asked(first, Read(key=KEY, epoch=1))
    cluster.clock.advance(0)
    assert first.ended == [f"a committed value of user/ada is damaged on the disk; {CONTRADICTS}"]


def test_a_value_that_no_other_has_ends_the_node() -> None:
    """So it is if the key of the row is what was changed: the row that should be there is missing."""
    cluster, first = written()
    other = KeyState(committed=prop(b"v", 1, mutable=True))
    first.store.put(first.replica.keyspace.changes(first.store.newest(), b"user/ade", KeyState(), other)[0], None)
    first.rot(value_row(1, b"user/ade"))
    first.repairs.noticed(value_row(1, b"user/ade"))
    cluster.clock.advance(0)
    assert first.ended == [f"a committed value of user/ade is damaged on the disk; {NOT_ELSEWHERE}"]


def test_a_row_that_a_scrub_found_and_no_lookup_finds_ends_the_node() -> None:
    cluster, first = written()
    first.repairs.noticed(value_row(1, b"nowhere"))
    cluster.clock.advance(0)
    assert first.ended == [f"a committed value of nowhere is damaged on the disk; {NOT_FOUND}"]


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (pack((LAYOUT, 1, KV, KEY)) + BALLOT, "a promise of user/ada"),
        (pack((LAYOUT, 1, VOTES, KEY)), "a vote of user/ada"),
        (pack((LEGACY_LAYOUT, 1, VALUES, KEY)), "a value of transactions of user/ada"),
        (b"\xfe\x00", "a row of no known kind"),
        (pack((LAYOUT, 1, KV, KEY)) + CACHE, "a row of no known kind"),
    ],
    ids=["promise", "vote", "transactions", "unknown", "cached where none ever was"],
)
def test_what_only_this_replica_knew_ends_the_node_once(row: bytes, words: str) -> None:
    cluster, first = written()
    first.store.put({row: b"x"}, None)
    first.rot(row)
    first.repairs.noticed(row)
    cluster.clock.advance(0)
    first.repairs.noticed(pack((LAYOUT, 1, VOTES, b"other")))
    cluster.clock.advance(100_000)
    assert first.ended == [f"{words} is damaged on the disk; this node ends for good: replace it"]
    assert first.repairs.repaired == 0
    assert [level for level, *_ in first.log] == ["critical"]


def test_a_vote_beside_a_rotten_value_is_not_guessed() -> None:
    cluster, first = written()
    vote = pack((LAYOUT, 1, VOTES, KEY))
    first.store.put({vote: b"x"}, None)
    first.rot(vote, value_row(1))
    asked(first, Read(key=KEY, epoch=1))
    cluster.clock.advance(100_000)
    assert len(first.ended) == 1
    assert "a vote of user/ada" in first.ended[0]


def test_an_expiry_is_written_anew_from_its_value() -> None:
    """One whose value does not end, or whose value is rotten, too, is settled by that."""
    cluster, first = written()
    expiry = Expiry(ttl_ms=30_000, since=1)
    leased = replace(prop(b"v", mutable=True), expiry=expiry)
    asked(first, Commit(key=b"lock", epoch=1, proposal=leased))
    row, left = pack((LAYOUT, 1, EXPIRIES, b"lock")), pack((LAYOUT, 1, EXPIRIES, KEY))
    before = first.store.newest().get(row)
    assert before is not None
    first.store.put({left: before}, None)
    first.rot(row, left)
    keyspace = first.replica.keyspace
    assert [key for key, _ in keyspace.expiring(first.store.newest(), None, 9)] == [b"lock"], "a start reads past it"
    cluster.clock.advance(0)
    assert [first.store.newest().get(each) for each in (row, left)] == [before, None]
    assert (first.repairs.repaired, first.repairs.found, first.ended) == (2, {RowKind.EXPIRY: 2}, [])


def test_an_expiry_of_transactions_is_written_anew_from_their_value() -> None:
    cluster, first = written()
    held, space = OrderedValue(value=b"v", version=3, expiry=Expiry(ttl_ms=30_000, since=1)), OrderedSpace(1)
    first.store.transact(lambda tx: space.set_held(tx, b"lock", held))
    row = pack((LEGACY_LAYOUT, 1, ENDING, b"lock"))
    before = first.store.newest().get(row)
    assert before is not None
    first.rot(row)
    assert [key for key, _ in space.expiring(first.store.newest(), None, 9)] == [b"lock"], "a start reads past it"
    cluster.clock.advance(0)
    assert first.store.newest().get(row) == before
    assert (first.repairs.found, first.ended) == ({RowKind.TXN_EXPIRY: 1}, [])


def test_cached_values_and_progress_are_dropped() -> None:
    cluster, first = written()
    cache, caches = pack((LAYOUT, 1, KV, b"far")) + CACHE, pack((LAYOUT, 1, CACHES))
    first.store.transact(lambda tx: first.replica.keyspace.cache(tx, b"far", prop(b"v")))
    progress = Progress(store=1, cursor=NO_STAMP, copied=True)
    first.store.transact(lambda tx: first.space.set_progress(tx, 2, progress))
    rows = (cache, caches, pack((LAYOUT, 1, PROGRESS, 2)))
    first.rot(*rows)
    for row in rows:
        first.repairs.noticed(row)
    cluster.clock.advance(0)
    assert [first.store.newest().get(row) for row in rows] == [None, b"", None]
    assert (first.repairs.repaired, first.ended) == (3, [])


def changelog_rows(first: RottenReplica) -> list[bytes]:
    root = pack((LAYOUT, 1, CHANGELOG)) + VERSIONSTAMP
    return [
        root + stamp + USER_VERSION for stamp, _ in first.replica.keyspace.changelog(first.store.newest(), None, 9999)
    ]


def test_the_changelog_is_truncated_through_a_rotten_row() -> None:
    cluster, first = written(5)
    rows = changelog_rows(first)
    first.rot(rows[2])
    first.repairs.noticed(rows[2])
    cluster.clock.advance(1_000)
    assert changelog_rows(first) == rows[3:]
    gone = first.replica.keyspace.truncated(first.store.newest())
    assert rows[2].endswith(gone + USER_VERSION)


def test_a_long_changelog_is_truncated_in_slices() -> None:
    cluster, first = written(SWEPT_ROWS + 5)
    rows = changelog_rows(first)
    first.rot(rows[-2], rows[3])
    first.repairs.noticed(rows[-2])
    cluster.clock.advance(0)
    assert len(first.repairs.rotten) == 1
    cluster.clock.advance(1_000)
    assert changelog_rows(first) == rows[-1:]


@pytest.mark.parametrize("is_first_rotten", [False, True])
def test_the_beginning_of_the_changelog_is_found_again(is_first_rotten: bool) -> None:
    cluster, first = written(5)
    rows = changelog_rows(first)
    truncated = pack((LAYOUT, 1, TRUNCATED))
    first.gc.remove(rows[1][-12:-2], 9, 1 << 20)
    assert changelog_rows(first) == rows[2:]
    first.rot(truncated, *(rows[2:3] if is_first_rotten else ()))
    first.repairs.noticed(truncated)
    cluster.clock.advance(0)
    gone = int.from_bytes(first.replica.keyspace.truncated(first.store.newest()), "big")
    assert gone == int.from_bytes(rows[2][-12:-2], "big") - (not is_first_rotten)
    assert first.ended == []


def test_many_rotten_keys_are_read_a_few_at_a_time() -> None:
    cluster, first = written()
    keys = [b"k%d" % i for i in range(3 * AT_ONCE)]
    for key in keys:
        first.write(b"v", key)
    cluster.down = {2, 3}
    first.rot(*(value_row(1, key) for key in keys))
    for key in keys:
        first.repairs.noticed(value_row(1, key))
    cluster.clock.advance(0)
    assert len(first.repairs.rotten) == len(keys)
    cluster.down = set()
    cluster.clock.advance(100 * AGAIN_MS)
    assert first.repairs.rotten == {}
    assert first.repairs.repaired == len(keys)


def test_a_row_that_was_written_or_deleted_meanwhile_is_no_matter() -> None:
    cluster, first = written()
    changelog_row = changelog_rows(first)[0]
    first.rot(value_row(1), changelog_row)
    for row in list(first.store.unwritten):
        first.repairs.noticed(row)
    stamp = row_of(changelog_row, 1).name
    first.store.put({value_row(1): b"written anew", changelog_row: None, pack((LAYOUT, 1, TRUNCATED)): stamp}, None)
    cluster.clock.advance(0)
    assert (first.repairs.found, first.repairs.rotten) == ({}, {})


def test_a_row_of_the_changelog_that_no_lookup_finds_ends_the_node() -> None:
    """Its key was changed: it cannot be cleared, and every stream of changes would stop there."""
    cluster, first = written()
    last = changelog_rows(first)[-1]
    stamp = bytes((2, *row_of(last, 1).name[1:]))
    first.repairs.noticed(last.replace(row_of(last, 1).name, stamp))
    cluster.clock.advance(0)
    assert first.ended == [f"a row of the changelog, {stamp.hex()} is damaged on the disk; {NOT_FOUND}"]


def test_the_outcome_of_an_overtaken_write_needs_no_lineage_here() -> None:
    """The row had the winners of earlier versions. Without them a writer asks the others, or is told "unknown"."""
    cluster, first = written(3)
    first.rot(value_row(1))
    asked(first, Read(key=KEY, epoch=1))
    cluster.clock.advance(0)
    assert first.state().lineage == ()
    assert len(cluster.replicas[1].state().lineage) == 2
    outcome = first.write(b"v4")
    assert isinstance(outcome, Committed)
    assert (outcome.path, outcome.proposal.version) == (Path.FAST, 4)
    assert outcome.proposal.proposal_id != ProposalId(0, 0)
