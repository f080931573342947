"""The pages a learner asks for, and what a replica keeps of others."""

from collections.abc import Iterable
from functools import partial

import pytest

from epoxy.model.ballot import NO_BALLOT, Ballot, fast_ballot
from epoxy.model.cluster import CONFIG_KEY, first_epoch
from epoxy.model.errors import RottenRow
from epoxy.model.members import (
    MAX_PAGE_ROWS,
    NO_STAMP,
    ChangelogRead,
    CursorTruncated,
    Progress,
    SnapshotPage,
    SnapshotRead,
    Stretch,
    Unsettled,
)
from epoxy.model.records import FRESH, KeyState, Proposal, ProposalId, Vote
from epoxy.protocol.members.digest import NOTHING
from epoxy.protocol.members.retention import UNLIMITED
from epoxy.store.keyspace import Keyspace
from epoxy.store.member_rows import ChangelogSize, MemberSpace
from epoxy.store.memory import MemoryStore

ME = 3
SPACE = Keyspace(ME)
LEGACY_KEY = b"\x15\x01\x15\x03\x14\x01old\x00\x14"
"""(1, 3, 0, "old", 0): a value of the first layout."""


def proposal(version: int = 1, size: int = 1) -> Proposal:
    return Proposal(value=bytes(size), version=version, mutable=True, proposal_id=ProposalId(ME, version))


def members(page_rows: int = MAX_PAGE_ROWS) -> MemberSpace:
    space = MemberSpace(Keyspace(ME), ME)
    space.page_rows = page_rows
    return space


def store_with(keys: Iterable[bytes], *, size: int = 1) -> MemoryStore:
    store = MemoryStore()
    for key in keys:
        after = KeyState(committed=proposal(size=size))
        store.transact(lambda tx, key=key, after=after: SPACE.save(tx, key, FRESH, after))  # type: ignore[misc]
    return store


def snapshot(space: MemberSpace, store: MemoryStore, after: bytes | None = None) -> SnapshotPage:
    page = space.snapshot_page(store.begin(), snapshot_read(0, after))
    assert isinstance(page, SnapshotPage)
    return page


def snapshot_read(identity: int, after: bytes | None, held: Stretch = NOTHING) -> SnapshotRead:
    return SnapshotRead(reader=1, store=identity, after=after, held=held)


def changelog_read(identity: int, after: bytes) -> ChangelogRead:
    return ChangelogRead(reader=1, store=identity, after=after)


def all_pages(store: MemoryStore, space: MemberSpace) -> list[list[bytes]]:
    pages: list[list[bytes]] = []
    after: bytes | None = None
    while True:
        page = snapshot(space, store, after)
        pages.append([entry.key for entry in page.entries])
        if not page.more:
            return pages
        after = page.entries[-1].key


def test_a_snapshot_is_all_keys_in_order_the_clusters_own_too() -> None:
    store = store_with([b"b", CONFIG_KEY, b"a", b"c", b"d"])
    assert all_pages(store, members(2)) == [[b"a", b"b"], [b"c", b"d"], [CONFIG_KEY]]
    assert all_pages(store, members(5)) == [[b"a", b"b", b"c", b"d", CONFIG_KEY]]
    assert all_pages(MemoryStore(), members()) == [[]]


def test_values_of_the_first_layout_are_copied_as_well() -> None:
    page = snapshot(members(), MemoryStore(contents={LEGACY_KEY: b"v"}))
    assert [(entry.key, entry.committed.version) for entry in page.entries] == [(b"old", 0)]


def test_a_page_ends_when_its_values_are_large() -> None:
    keys = [b"%d" % i for i in range(5)]
    assert all_pages(store_with(keys, size=600_000), members()) == [keys[:2], keys[2:4], keys[4:]]


def test_what_two_replicas_hold_alike_does_not_travel() -> None:
    """The stretches of one are the pages of the other."""
    keys = [b"%02d" % i for i in range(5)]
    mine, theirs, space = store_with(keys), store_with(keys), members(2)
    after: bytes | None = None
    ends: list[bytes | None] = []
    while not ends or after is not None:
        held = space.stretch(mine.begin(), after)
        page = space.snapshot_page(theirs.begin(), snapshot_read(0, after, held))
        assert isinstance(page, SnapshotPage)
        assert (page.entries, page.more) == ((), False)
        after = held.until
        ends.append(after)
    assert ends == [b"01", b"03", None]


@pytest.mark.parametrize("keys", [[b"a"], [b"a", b"b", b"c"], [b"a", b"b", b"d"], [b"a", b"b", b"bb", b"c"], []])
def test_what_differs_is_sent_as_far_as_the_reader_has_looked(keys: list[bytes]) -> None:
    mine, theirs = store_with([b"a", b"b", b"c", b"e"]), store_with([*keys, b"z"])
    held = members(3).stretch(mine.begin(), None)
    assert (held.until, held.count) == (b"c", 3)
    page = members(9).snapshot_page(theirs.begin(), snapshot_read(0, None, held))
    assert isinstance(page, SnapshotPage)
    within = [key for key in keys if key <= b"c"]
    assert [entry.key for entry in page.entries] == ([] if within == [b"a", b"b", b"c"] else within)
    assert not page.more


def test_a_stretch_that_is_crowded_at_the_source_is_sent_page_by_page() -> None:
    mine, theirs = store_with([b"a", b"z"]), store_with([b"%c" % i for i in range(97, 123)])
    held = members(2).stretch(mine.begin(), None)
    page = members(3).snapshot_page(theirs.begin(), snapshot_read(0, None, held))
    assert isinstance(page, SnapshotPage)
    assert ([entry.key for entry in page.entries], page.more) == ([b"a", b"b", b"c"], True)


def test_a_snapshot_tells_where_the_changelog_stands() -> None:
    space = members()
    assert snapshot(space, MemoryStore()) == SnapshotPage(store=0, entries=(), cursor=NO_STAMP, more=False)
    store = store_with([b"a", b"b"])
    cursor = snapshot(space, store).cursor
    assert cursor == space.newest(store.begin()) > NO_STAMP
    page = space.changelog_page(store.begin(), changelog_read(0, cursor))
    assert not isinstance(page, CursorTruncated)
    assert (page.entries, page.cursor, page.more) == ((), cursor, False)


def test_the_changelog_is_read_page_by_page() -> None:
    store, space, cursor = store_with([b"a", CONFIG_KEY, b"b"]), members(2), NO_STAMP
    read: list[tuple[list[bytes], bool]] = []
    for _ in range(2):
        page = space.changelog_page(store.begin(), changelog_read(0, cursor))
        assert not isinstance(page, CursorTruncated)
        read.append(([entry.key for entry in page.entries], page.more))
        cursor = page.cursor
    assert read == [([b"a", CONFIG_KEY], True), ([b"b"], False)]
    assert cursor == space.newest(store.begin())


def test_a_reader_of_rows_that_are_gone_is_told() -> None:
    store, space = store_with([b"a", b"b"]), members()
    newest = space.newest(store.begin())
    left, sizes = store.transact(lambda tx: space.expire(tx, newest, 9, UNLIMITED, space.measured(tx)))
    assert (left, sum(sizes)) == (ChangelogSize(through=newest, size=0), store.stamped_bytes())
    assert space.changelog_page(store.begin(), changelog_read(0, NO_STAMP)) == CursorTruncated()
    assert space.newest(store.begin()) == newest, "the end does not move back"
    page = space.changelog_page(store.begin(), changelog_read(0, newest))
    assert not isinstance(page, CursorTruncated)
    assert page.entries == ()


def test_rows_go_until_enough_bytes_are_gone_and_the_rest_is_recorded() -> None:
    store, space = store_with([b"a", b"b", b"c", b"d"]), members()
    newest = space.newest(store.begin())
    nothing = space.measured(store.begin())
    whole = space.measure(store.begin(), nothing, newest, 9, UNLIMITED)
    assert whole == ChangelogSize(through=newest, size=store.stamped_bytes())
    row = whole.size // 4
    left, sizes = store.transact(lambda tx: space.expire(tx, newest, 9, row + 1, whole))
    assert sizes == [row, row], "the row with which they are enough goes, too"
    assert left == space.measured(store.begin()) == ChangelogSize(through=newest, size=2 * row)
    assert space.measure(store.begin(), left, newest, 9, UNLIMITED) == left, "nothing is counted twice"
    assert store.transact(lambda tx: space.expire(tx, newest, 9, 0, left)) == (left, [])
    half_known = ChangelogSize(through=NO_STAMP, size=0)
    gone, sizes = store.transact(lambda tx: space.expire(tx, newest, 1, UNLIMITED, half_known))
    assert (gone.size, sizes) == (0, [row]), "what was not counted is not subtracted"


def test_rows_are_counted_a_few_at_a_time_and_once() -> None:
    store, space = store_with([b"a", b"b", b"c", b"d"]), members()
    newest, size = space.newest(store.begin()), ChangelogSize(through=NO_STAMP, size=0)
    steps = []
    while size.through < newest:
        size = space.measure(store.begin(), size, newest, 3, UNLIMITED)
        steps.append(size.size)
    assert steps == [store.stamped_bytes() // 4 * 3, store.stamped_bytes()]
    by_bytes = space.measure(store.begin(), ChangelogSize(through=NO_STAMP, size=0), newest, 9, 1)
    assert by_bytes.size == store.stamped_bytes() // 4


def test_a_place_in_another_store_is_gone() -> None:
    """An id may be given to another machine, whose stamps begin again."""
    store, space = store_with([b"a", b"b"]), members(1)
    store.transact(lambda tx: space.identity(tx, 77))
    first = space.snapshot_page(store.begin(), snapshot_read(0, None))
    assert isinstance(first, SnapshotPage)
    assert first.store == 77
    assert isinstance(space.snapshot_page(store.begin(), snapshot_read(77, b"a")), SnapshotPage)
    assert space.snapshot_page(store.begin(), snapshot_read(78, b"a")) == CursorTruncated()
    assert not isinstance(space.changelog_page(store.begin(), changelog_read(77, NO_STAMP)), CursorTruncated)
    assert space.changelog_page(store.begin(), changelog_read(78, NO_STAMP)) == CursorTruncated()


def test_fast_votes_for_proposals_of_one_replica_are_listed_in_pages() -> None:
    store, space = MemoryStore(), members(page_rows=2)
    ballots = {b"a": fast_ballot(1), b"b": fast_ballot(2), b"c": fast_ballot(1), b"d": fast_ballot(1)}
    for key, ballot in {**ballots, b"e": Ballot(2, 1), CONFIG_KEY: fast_ballot(1)}.items():
        promised = ballot if ballot.is_classic else NO_BALLOT
        state = KeyState(promised=promised, vote=Vote(proposal=proposal(), ballot=ballot, epoch=1))
        store.transact(lambda tx, key=key, state=state: SPACE.save(tx, key, FRESH, state))  # type: ignore[misc]
    first = space.fast_votes_page(store.begin(), 1, None)
    assert ([each.key for each in first.keys], first.more) == ([b"a", b"c"], True)
    second = space.fast_votes_page(store.begin(), 1, b"c")
    assert (second.keys, second.more) == ((Unsettled(key=b"d", version=1),), False)
    assert space.fast_votes_page(store.begin(), 3, None).keys == ()


def test_votes_of_earlier_epochs_that_count_are_unsettled() -> None:
    store, space = MemoryStore(), members(2)
    for key, epoch in ((b"sealed", 2), (b"now", 5), (b"a", 3), (b"b", 4), (b"c", 4)):
        vote = Vote(proposal=proposal(), ballot=fast_ballot(1), epoch=epoch)
        after = KeyState(vote=vote, promised=Ballot(2, 1))
        store.transact(lambda tx, key=key, after=after: SPACE.save(tx, key, FRESH, after))  # type: ignore[misc]
    store.transact(lambda tx: SPACE.save(tx, b"promised", FRESH, KeyState(promised=Ballot(2, 1))))
    config = first_epoch((1, 2, 3))
    config = type(config)(epoch=5, coordinator_id=1, replicas=config.replicas, sealed=2)
    first = space.unsettled_page(store.begin(), None, config)
    assert (first.keys, first.more) == ((Unsettled(key=b"a", version=1), Unsettled(key=b"b", version=1)), True)
    second = space.unsettled_page(store.begin(), b"b", config)
    assert (second.keys, second.more) == ((Unsettled(key=b"c", version=1),), False)


def test_progress_is_kept_for_each_source() -> None:
    store, space = MemoryStore(), members()
    done, begun = Progress(store=9, cursor=NO_STAMP, copied=True), Progress(store=9, cursor=NO_STAMP, after=b"k")
    for source, progress in ((2, done), (5, begun), (7, done)):
        store.transact(lambda tx, s=source, p=progress: space.set_progress(tx, s, p))  # type: ignore[misc]
    assert space.progress(store.begin(), 5) == begun
    assert space.sources(store.begin()) == (2, 7)
    store.transact(lambda tx: space.set_progress(tx, 2, None))
    assert (space.progress(store.begin(), 2), space.sources(store.begin())) == (None, (7,))


def test_progress_that_did_not_change_is_not_written() -> None:
    """An idle node would sync the same rows again and again."""
    store, space = MemoryStore(), members()
    done = Progress(store=9, cursor=NO_STAMP, copied=True)
    store.transact(lambda tx: space.set_progress(tx, 2, done))
    commits = store.commits
    store.transact(lambda tx: space.set_progress(tx, 2, done))
    assert store.commits == commits
    store.transact(lambda tx: space.set_progress(tx, 2, Progress(store=9, cursor=NO_STAMP)))
    assert store.commits == commits + 1


def test_an_identity_is_drawn_once() -> None:
    store, space = MemoryStore(), members()
    assert [store.transact(lambda tx, draw=draw: space.identity(tx, draw)) for draw in (7, 8)] == [7, 7]  # type: ignore[misc]


@pytest.mark.parametrize("identity", [1, (1 << 64) - 1])
def test_others_identities_are_noted(identity: int) -> None:
    store, space = MemoryStore(), members()
    store.transact(lambda tx: space.note(tx, 2, identity))
    store.transact(lambda tx: space.note(tx, 64, 5))
    assert space.noted(store.begin()) == {2: identity, 64: 5}


def logged(store: MemoryStore, rows: int = 100, size: int = 1 << 20) -> list[int]:
    return [found.version for found in members().logged(store.newest(), b"b", rows, size)]


def test_what_was_committed_for_a_key_is_found_in_the_changelog_newest_first() -> None:
    store = MemoryStore()
    for version in (1, 2, 3):
        for key in (b"a", b"b", b"abc"):
            before = KeyState(committed=proposal(version - 1)) if version > 1 else FRESH
            after = KeyState(committed=proposal(version))
            store.transact(partial(SPACE.save, key=key, before=before, after=after))
    assert logged(store) == [3, 2, 1]
    assert logged(store, rows=5) == [3, 2], "as many rows as are asked for, of any key"
    assert logged(store, size=0) == [], "one row, and that is of another key"


def test_a_rotten_row_ends_the_search_for_earlier_commits() -> None:
    store = store_with([b"b", b"c"])

    class Rotten:
        def range(self, begin: bytes, end: bytes, *, limit: int, reverse: bool = False) -> list[tuple[bytes, bytes]]:
            rows = list(store.newest().range(begin, end, limit=limit, reverse=reverse))
            if any(b"b" in value for _, value in rows):
                raise RottenRow(begin)
            return rows

        def get(self, key: bytes) -> bytes | None:
            return store.newest().get(key)

    assert logged(store) == [1]
    assert members().logged(Rotten(), b"b", 100, 1 << 20) == []
