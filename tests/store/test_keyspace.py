"""The layout of a replica's rows."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epoxy.codec import wire
from epoxy.codec.tuple import pack, unpack
from epoxy.model.ballot import Ballot, fast_ballot
from epoxy.model.cluster import CHANGE_REQUEST_KEY, CONFIG_KEY, FIRST_SYSTEM_KEY
from epoxy.model.records import (
    FRESH,
    LEGACY_PROPOSAL_ID,
    MAX_KEY_BYTES,
    MAX_VALUE_BYTES,
    ChangelogEntry,
    CommittedRecord,
    KeyState,
    Proposal,
    ProposalId,
    Settled,
    Vote,
)
from epoxy.ports import KeyValue, Snapshot, Transaction
from epoxy.store.buffer import FETCHED_BYTES, FIRST_ROWS, scan
from epoxy.store.keyspace import SCAN_ROWS, STAMPS_BYTES, Keyspace
from epoxy.store.memory import SEQUENCE_ROW, MemoryStore
from tests.store.conformance import rows

ME = 3
KEYS = (
    st.lists(st.sampled_from((b"\x00", b"\xff", b"a", b"b")), min_size=1, max_size=4)
    .map(b"".join)
    .filter(lambda key: key < FIRST_SYSTEM_KEY)
)


def proposal(version: int = 1, *, mutable: bool = False, value: bytes | None = b"v", nonce: int = 7) -> Proposal:
    return Proposal(value=value, version=version, mutable=mutable, proposal_id=ProposalId(ME, nonce))


def vote(of: Proposal, ballot: Ballot) -> Vote:
    return Vote(proposal=of, ballot=ballot, epoch=1)


def store_with(states: dict[bytes, KeyState]) -> MemoryStore:
    store = MemoryStore()
    for key, state in states.items():
        move(store, key, state)
    return store


def move(store: MemoryStore, key: bytes, after: KeyState) -> None:
    space = Keyspace(ME)
    store.transact(lambda tx: space.save(tx, key, space.load(tx, key), after))


def fields(store: MemoryStore) -> list[object]:
    """What follows the key in every row below kv, and 7 for a vote."""
    changelog = pack((2, ME, 2))
    unpacked = [unpack(key) for key, _ in rows(store.begin()) if not key.startswith(changelog)]
    return [items[4] if items[2] == 0 else 7 for items in unpacked if items[2] in (0, 7)]


def legacy_store(**values: dict[bytes, bytes]) -> MemoryStore:
    codes = {"committed": 0, "value": 1}
    contents = {
        pack((1, ME, 0, key, codes[kind])): value for kind, found in values.items() for key, value in found.items()
    }
    return MemoryStore(contents=contents)


STATES = {
    "fresh": FRESH,
    "promised": KeyState(promised=Ballot(2, 1)),
    "fast vote": KeyState(vote=vote(proposal(), fast_ballot(ME))),
    "fast vote under a promise": KeyState(promised=Ballot(5, 2), vote=vote(proposal(), fast_ballot(ME))),
    "classic vote": KeyState(promised=Ballot(3, 1), vote=vote(proposal(mutable=True), Ballot(2, 2))),
    "committed for ever": KeyState(committed=proposal()),
    "tombstone": KeyState(committed=proposal(4, mutable=True, value=None)),
    "between versions": KeyState(
        committed=proposal(2, mutable=True),
        lineage=(Settled(1, ProposalId(1, 9)),),
        promised=Ballot(2, 1),
        vote=vote(proposal(3, mutable=True), Ballot(2, 1)),
    ),
}


@pytest.mark.parametrize("state", STATES.values(), ids=STATES)
def test_what_is_saved_is_loaded(state: KeyState) -> None:
    store = store_with({b"a": state, b"a\x00": KeyState(promised=Ballot(9, 9))})
    assert Keyspace(ME).load(store.begin(), b"a") == state


@pytest.mark.parametrize("before", ["fresh", "promised", "fast vote", "fast vote under a promise", "classic vote"])
@pytest.mark.parametrize("after", STATES)
def test_only_the_state_after_is_left(before: str, after: str) -> None:
    store = store_with({b"a": STATES[before]})
    move(store, b"a", STATES[after])
    alone = store_with({b"a": STATES[after]})
    assert rows(store.begin()) == rows(alone.begin())


def test_the_layout_is_what_the_documents_say() -> None:
    state = STATES["between versions"]
    assert state.committed is not None
    assert state.vote is not None
    store = store_with({b"k\x00": state})
    other = proposal(1, nonce=8)
    space = Keyspace(ME)
    store.transact(lambda tx: space.cache(tx, b"elsewhere", other))
    entry = ChangelogEntry(key=b"k\x00", committed=state.committed)
    record = CommittedRecord(committed=state.committed, lineage=state.lineage)
    assert dict(rows(store.begin())) == {
        pack((2, ME, 0, b"k\x00", 0)): wire.encode_committed_record(record),
        pack((2, ME, 0, b"k\x00", 1)): wire.encode_ballot(state.promised),
        pack((2, ME, 0, b"elsewhere", 3)): wire.encode_cached(other),
        pack((2, ME, 8)): b"",
        pack((2, ME, 7, b"k\x00")): wire.encode_vote(state.vote),
        pack((2, ME, 2)) + b"\x33" + (1).to_bytes(8, "big") + bytes(4): wire.encode_changelog_entry(entry),
    }


def test_a_save_writes_what_differs_and_nothing_else() -> None:
    before = STATES["fast vote"]
    store = store_with({b"a": before})
    tx = store.begin()
    Keyspace(ME).save(tx, b"a", before, KeyState(promised=Ballot(2, 1), vote=before.vote))
    assert [unpack(key)[4] for key in tx.values] == [1]
    assert tx.stamped == ()
    unchanged = store.begin()
    Keyspace(ME).save(unchanged, b"a", before, KeyState(vote=vote(proposal(), fast_ballot(ME))))
    assert unchanged.is_read_only


def test_a_commit_clears_what_was_in_flight() -> None:
    store = store_with({b"a": STATES["classic vote"]})
    store.transact(lambda tx: Keyspace(ME).cache(tx, b"a", proposal(mutable=True)))
    assert fields(store) == [1, 3, 7]
    move(store, b"a", KeyState(committed=proposal(mutable=True)))
    assert fields(store) == [0]


def test_a_decision_is_neither_forgotten_nor_replaced_by_an_older_one() -> None:
    store = store_with({b"a": KeyState(committed=proposal(2, mutable=True))})
    for wrong in (FRESH, KeyState(committed=proposal(1, mutable=True)), KeyState(committed=proposal(2, nonce=8))):
        with pytest.raises(AssertionError):
            move(store, b"a", wrong)


def test_replicas_do_not_see_each_other() -> None:
    store = store_with({b"a": KeyState(committed=proposal())})
    for stranger in (1, 2, 4, 255, 256, 3 << 8, 1 << 63):
        space = Keyspace(stranger)
        view = store.begin()
        assert space.load(view, b"a") == FRESH
        assert space.page(view, b"", None, 9) == []
        assert space.changelog(view, None, 9) == []


def test_the_largest_key_and_value_fit() -> None:
    key, value = bytes(MAX_KEY_BYTES), bytes(MAX_VALUE_BYTES)
    largest = Proposal(value=value, version=1 << 60, mutable=True, proposal_id=ProposalId(1 << 60, (1 << 64) - 1))
    lineage = tuple(Settled((1 << 60) - 1 - back, ProposalId(1 << 60, (1 << 64) - 1)) for back in range(8))
    state = KeyState(committed=largest, lineage=lineage)
    store = store_with({key: state})
    assert Keyspace(ME).load(store.begin(), key) == state
    ((_, entry),) = Keyspace(ME).changelog(store.begin(), None, 2)
    assert entry == ChangelogEntry(key=key, committed=largest)


# Legacy values.


def test_legacy_values_count_as_committed() -> None:
    space = Keyspace(ME)
    store = legacy_store(committed={b"a": b"1", b"b": b"2"}, value={b"b": b"older", b"c": b"3"})
    for key, value in ((b"a", b"1"), (b"b", b"2"), (b"c", b"3")):
        legacy = Proposal(value=value, version=0, mutable=False, proposal_id=LEGACY_PROPOSAL_ID)
        assert space.load(store.begin(), key) == KeyState(committed=legacy)
        assert space.committed(store.begin(), key) == legacy
    assert space.load(store.begin(), b"d") == FRESH
    assert space.committed(store.begin(), b"d") is None
    assert Keyspace(ME + 1).committed(store.begin(), b"a") is None


def test_the_current_layout_comes_before_the_legacy_one() -> None:
    contents = legacy_store(committed={b"a": b"old"}).survivors()
    contents |= store_with({b"a": KeyState(committed=proposal(value=b"new"))}).survivors()
    store = MemoryStore(contents=contents)
    space = Keyspace(ME)
    assert space.committed(store.begin(), b"a") == space.load(store.begin(), b"a").committed == proposal(value=b"new")
    assert space.page(store.begin(), b"", None, 9) == [(b"a", proposal(value=b"new"))]


# The cache.


def test_the_cache_keeps_the_higher_version() -> None:
    store, space = MemoryStore(), Keyspace(ME)
    for version, kept in ((3, 3), (2, 3), (3, 3), (5, 5)):
        store.transact(lambda tx, version=version: space.cache(tx, b"a", proposal(version, mutable=True)))  # type: ignore[misc]
        assert space.cached(store.begin(), b"a") == proposal(kept, mutable=True)
    assert space.committed(store.begin(), b"a") is None
    assert space.load(store.begin(), b"a") == FRESH


def test_a_shared_keyspace_writes_rows_of_the_key_alone() -> None:
    """That something was cached is a row of the system shard, which a shard node does not own."""
    store, space = MemoryStore(), Keyspace(ME, shared=True)
    assert space.any_cached(store.newest()), "another node may have cached something"
    store.transact(lambda tx: space.cache(tx, b"a", proposal(mutable=True)))
    assert [row for row, _ in rows(store.newest())] == [pack((2, ME, 0, b"a", 3))]


def test_nothing_is_cached_beside_a_committed_value() -> None:
    committed = store_with({b"a": KeyState(committed=proposal(1, mutable=True))})
    for store in (committed, legacy_store(value={b"a": b"old"})):
        store.transact(lambda tx: Keyspace(ME).cache(tx, b"a", proposal(2, mutable=True)))
        assert Keyspace(ME).cached(store.begin(), b"a") is None


# The cluster's own keys.


def test_the_clusters_own_keys_are_stored_like_others_and_shown_to_nobody() -> None:
    states = {
        key: KeyState(committed=proposal(1, mutable=True)) for key in (b"a", CONFIG_KEY, CHANGE_REQUEST_KEY, b"b")
    }
    store, space = store_with(states), Keyspace(ME)
    assert space.load(store.begin(), CONFIG_KEY) == states[CONFIG_KEY]
    assert [key for key, _ in space.page(store.begin(), b"", None, 9)] == [b"a", b"b"]
    assert space.page(store.begin(), b"\xff", None, 9) == []
    assert [entry.key for _, entry in space.changelog(store.begin(), None, 9)] == [b"a", b"b"]
    assert [entry.key for _, entry in space.changelog(store.begin(), None, 1, newest_first=True)] == [b"b"]


# Pages.


@given(
    st.sets(KEYS, max_size=12),
    st.sets(KEYS, max_size=6),
    st.sets(KEYS, max_size=6),
    KEYS | st.just(b""),
    st.integers(1, 4),
)
def test_pages_walk_the_committed_keys_in_order(
    current: set[bytes], legacy: set[bytes], in_flight: set[bytes], prefix: bytes, limit: int
) -> None:
    space = Keyspace(ME)
    store = legacy_store(value=dict.fromkeys(legacy, b"old"))
    store = MemoryStore(contents=store.survivors() | contents_of(current, in_flight - current - legacy))
    walked: list[tuple[bytes, Proposal]] = []
    while page := space.page(store.begin(), prefix, walked[-1][0] if walked else None, limit):
        assert len(page) <= limit
        walked += page
    assert [key for key, _ in walked] == sorted(key for key in current | legacy if key.startswith(prefix))
    assert all(found == space.committed(store.begin(), key) for key, found in walked)


def contents_of(committed: set[bytes], in_flight: set[bytes]) -> dict[bytes, bytes]:
    states = dict.fromkeys(in_flight, STATES["classic vote"]) | dict.fromkeys(committed, STATES["between versions"])
    store = store_with(states)
    for key in in_flight:
        store.transact(lambda tx, key=key: Keyspace(ME).cache(tx, key, proposal()))  # type: ignore[misc]
    return store.survivors()


def test_a_page_reaches_past_many_rows_that_are_not_committed() -> None:
    states = {b"%04d" % index: STATES["promised"] for index in range(2 * SCAN_ROWS)}
    store = store_with({**states, b"last": STATES["committed for ever"]})
    assert Keyspace(ME).page(store.begin(), b"", None, 1) == [(b"last", proposal())]


# The changelog.


def test_the_changelog_tells_commits_in_their_order() -> None:
    space, store = Keyspace(ME), MemoryStore()
    learned = [(b"b", 1), (b"a", 1), (b"b", 2), (b"c", 1), (b"b", 3)]
    for key, version in learned:
        move(store, key, KeyState(committed=proposal(version, mutable=True)))
    after: bytes | None = None
    told = []
    while page := space.changelog(store.begin(), after, 2):
        after = page[-1][0]
        told += [(entry.key, entry.committed.version) for _, entry in page]
    assert told == learned
    stamps = [stamp for stamp, _ in space.changelog(store.begin(), None, 9)]
    assert stamps == sorted(set(stamps))


def test_commits_of_one_transaction_have_entries_of_their_own() -> None:
    space, store = Keyspace(ME), MemoryStore()

    def body(tx: Transaction) -> None:
        for key in (b"b", b"a", b"c"):
            space.save(tx, key, FRESH, KeyState(committed=proposal()))

    store.transact(body)
    assert [entry.key for _, entry in space.changelog(store.begin(), None, 9)] == [b"b", b"a", b"c"]


def test_the_entries_of_a_key_are_looked_for_in_few_rows_and_few_bytes() -> None:
    space, store = Keyspace(ME), MemoryStore()

    def commit(key: bytes, version: int, value: bytes = b"v") -> None:
        move(store, key, KeyState(committed=proposal(version, mutable=True, value=value)))

    for version in range(1, 6):
        commit(b"k", version)
        commit(b"other", version)
    stamps = [
        stamp for stamp, entry in space.changelog(store.newest(), None, 99, newest_first=True) if entry.key == b"k"
    ]
    assert space.stamps_of(store.newest(), b"k", 99, 99) == tuple(stamps)
    assert space.stamps_of(store.newest(), b"k", 99, 2) == tuple(stamps[:2])
    assert space.stamps_of(store.newest(), b"k", 4, 99) == tuple(stamps[:2])
    for version in range(6, 6 + STAMPS_BYTES // MAX_VALUE_BYTES):
        commit(b"other", version, bytes(MAX_VALUE_BYTES))
    assert space.stamps_of(store.newest(), b"k", 99, 99) == ()


def test_promises_and_votes_are_not_in_the_changelog() -> None:
    store = store_with({b"a": STATES["classic vote"], b"b": STATES["promised"]})
    assert Keyspace(ME).changelog(store.begin(), None, 9) == []
    assert SEQUENCE_ROW not in store.survivors()


# Counts.


HELD = st.sampled_from([b"v", b"", b"mark", b"marked", b"another mark", None])


@given(st.dictionaries(KEYS, HELD, max_size=12), st.integers(1, 4))
def test_living_keys_are_counted_without_a_look_at_what_they_hold(held: dict[bytes, bytes | None], rows: int) -> None:
    states = {key: KeyState(committed=proposal(1, mutable=True, value=value)) for key, value in held.items()}
    legacy = legacy_store(value={b"old": b"v"}).survivors()
    for store in (store_with(states), MemoryStore(contents=legacy | store_with(states).survivors())):
        space = Keyspace(ME)
        found: list[bytes] = []
        total, named, after = space.living(store.begin(), None, rows, b"mark")
        found += named
        while after is not None:
            more, named, after = space.living(store.begin(), after, rows, b"mark")
            total, found = total + more, found + named
        shown = dict(space.page(store.begin(), b"", None, 99))
        assert total == sum(each.value not in (None, b"mark", b"marked") for each in shown.values())
        assert found == sorted(key for key, each in shown.items() if each.value in (b"mark", b"marked"))


def test_a_count_of_long_values_takes_smaller_steps() -> None:
    states = {b"%02d" % i: KeyState(committed=proposal(value=bytes(MAX_VALUE_BYTES))) for i in range(10)}
    store = store_with(states)
    assert Keyspace(ME).count(store.begin(), None, 100) == (4, b"03")
    assert Keyspace(ME).living(store.begin(), b"03", 100, b"mark") == (4, [], b"07")
    assert Keyspace(ME).count(store.begin(), b"07", 100) == (2, None)


class Measured:
    """A view that notes how many bytes are fetched at a time."""

    def __init__(self, view: Snapshot) -> None:
        self._view = view
        self.fetched: list[int] = []

    def get(self, key: bytes) -> bytes | None:
        return self._view.get(key)

    def range(self, begin: bytes, end: bytes, *, limit: int, reverse: bool = False) -> Sequence[KeyValue]:
        found = self._view.range(begin, end, limit=limit, reverse=reverse)
        self.fetched.append(sum(len(value) for _, value in found))
        return found


@pytest.mark.parametrize("size", [10, 10_000, MAX_VALUE_BYTES])
@pytest.mark.parametrize("reverse", [False, True])
def test_a_scan_fetches_few_long_rows_and_many_short_ones(size: int, reverse: bool) -> None:
    store = MemoryStore(contents={b"%04d" % i: bytes(size) for i in range(60 if size > 100 else 2000)})
    view = Measured(store.durable())
    found = list(scan(view, b"0", b"9", SCAN_ROWS, reverse))
    assert found == list(store.durable().range(b"0", b"9", limit=9999, reverse=reverse))
    assert max(view.fetched) <= FIRST_ROWS * size + FETCHED_BYTES
    if size == 10:
        assert len(view.fetched) <= 4 + 2000 // SCAN_ROWS
