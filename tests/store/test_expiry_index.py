"""The index of values that end: rows of `store.keyspace` that are written with the value."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from epoxy.model.errors import RottenRow
from epoxy.model.records import FRESH, Expiry, ExpiryEntry, KeyState, Proposal
from epoxy.ports import KeyValue, Snapshot
from epoxy.store import keyspace
from epoxy.store.keyspace import Keyspace
from epoxy.store.memory import MemoryStore
from tests.store.test_keyspace import KEYS, ME, move, proposal, store_with


def leased(version: int, since: int, ttl_ms: int = 30_000, session: bytes = b"") -> Proposal:
    expiry = Expiry(ttl_ms=0 if session else ttl_ms, since=since, session=session)
    return replace(proposal(version, mutable=True), expiry=expiry)


def indexed(store: MemoryStore, after: bytes | None = None, limit: int = 99) -> list[tuple[bytes, ExpiryEntry]]:
    return Keyspace(ME).expiring(store.newest(), after, limit)


def entry_of(committed: Proposal) -> ExpiryEntry:
    assert committed.expiry is not None
    return ExpiryEntry(version=committed.version, home=ME, expiry=committed.expiry)


def test_the_index_follows_the_value() -> None:
    """Given, kept by the next version, renewed, taken away, given again, ended."""
    store = MemoryStore()
    steps = [
        leased(1, 1),
        leased(2, 1),
        leased(3, 3, 60_000),
        proposal(4, mutable=True),
        leased(5, 5, session=bytes(16)),
        proposal(6, mutable=True, value=None),
    ]
    for committed in steps:
        move(store, b"k", KeyState(committed=committed))
        assert indexed(store) == ([(b"k", entry_of(committed))] if committed.expiry is not None else [])


@pytest.mark.pure("plants a fault in the index")
def test_a_row_that_outlives_its_expiry_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    known = keyspace.index_value
    monkeypatch.setattr(keyspace, "index_value", lambda committed: known(committed) or known(leased(1, 1)))
    with pytest.raises(AssertionError):
        test_the_index_follows_the_value()


def test_a_key_that_never_ends_writes_no_row_of_the_index() -> None:
    view, space = MemoryStore().newest(), Keyspace(ME)
    first, second = KeyState(committed=proposal(1, mutable=True)), KeyState(committed=proposal(2, mutable=True))
    assert len(space.changes(view, b"k", FRESH, first)[0]) == 1
    assert len(space.changes(view, b"k", first, second)[0]) == 1


@given(keys=st.sets(KEYS, max_size=7), limit=st.integers(1, 4))
def test_the_index_is_read_in_pages(keys: set[bytes], limit: int) -> None:
    others = {b"plain" + key: KeyState(committed=proposal(1, mutable=True)) for key in keys}
    store = store_with(others | {key: KeyState(committed=leased(1, 1)) for key in keys})
    found: list[bytes] = []
    while page := indexed(store, found[-1] if found else None, limit):
        found += [key for key, _ in page]
        if len(page) < limit:
            break
    assert found == sorted(keys)


def test_a_value_that_is_restored_brings_its_row_of_the_index() -> None:
    store, space = store_with({b"k": KeyState(committed=leased(1, 1))}), Keyspace(ME)
    for committed in (leased(3, 2), proposal(4, mutable=True)):
        store.put(*space.restored(store.newest(), b"k", KeyState(committed=committed)))
        assert indexed(store) == ([(b"k", entry_of(committed))] if committed.expiry is not None else [])


class RottenView:
    """A view in which these rows are rotten."""

    def __init__(self, view: Snapshot, rotten: set[bytes]) -> None:
        self._view = view
        self._rotten = rotten

    def get(self, key: bytes) -> bytes | None:
        if key in self._rotten:
            raise RottenRow(key)
        return self._view.get(key)

    def range(self, begin: bytes, end: bytes, *, limit: int, reverse: bool = False) -> Sequence[KeyValue]:
        found = self._view.range(begin, end, limit=limit, reverse=reverse)
        for key, _ in found:
            self.get(key)
        return found


@pytest.mark.parametrize("limit", [1, 2, 3, 9])
def test_where_the_index_is_rotten_the_value_says_it(limit: int) -> None:
    names = [b"a", b"b", b"c", b"d"]
    states = {key: KeyState(committed=leased(1, 1)) for key in names}
    space, store = Keyspace(ME), store_with(states)
    row = dict.fromkeys(names, b"")
    for key in names:
        row[key] = space.expiry_row(store.newest(), key)[0]
    rotten = RottenView(store.newest(), {row[b"a"], row[b"c"], row[b"d"], space.value_row(b"d")})
    assert [key for key, _ in space.expiring(rotten, None, limit)] == names[:3][:limit], "d is restored"
    assert [key for key, _ in space.expiring(rotten, b"a", limit)] == names[1:3][:limit]
