"""Values of the first layout, imported into a replica that is not running."""

import pytest

from epoxy.model.ballot import Ballot
from epoxy.model.cluster import FIRST_SYSTEM_KEY
from epoxy.model.errors import InvalidRequest
from epoxy.model.records import FRESH, MAX_KEY_BYTES, MAX_VALUE_BYTES, KeyState, Proposal, ProposalId
from epoxy.store.keyspace import Keyspace
from epoxy.store.legacy import Imported, LegacyImport, check_pair
from epoxy.store.memory import MemoryStore

ME = 1


def test_an_imported_value_is_committed_and_importing_it_again_changes_nothing() -> None:
    store, importer = MemoryStore(), LegacyImport(ME)
    pairs = [(b"a", b"1"), (b"b", b"2")]
    assert store.transact(lambda tx: importer.write(tx, pairs)) == Imported(written=2)
    assert store.transact(lambda tx: importer.write(tx, [*pairs, (b"c", b"3")])) == Imported(written=1, present=2)
    found = Keyspace(ME).committed(store.newest(), b"a")
    assert found is not None
    assert (found.value, found.version, found.mutable) == (b"1", 0, False)


def test_another_value_is_refused_and_none_of_its_batch_written() -> None:
    store, importer = MemoryStore(), LegacyImport(ME)
    store.transact(lambda tx: importer.write(tx, [(b"a", b"1")]))
    with pytest.raises(InvalidRequest, match="holds another value"):
        store.transact(lambda tx: importer.write(tx, [(b"b", b"2"), (b"a", b"9")]))
    assert Keyspace(ME).committed(store.newest(), b"b") is None


def test_a_key_that_is_being_decided_is_refused() -> None:
    store = MemoryStore()
    store.transact(lambda tx: Keyspace(ME).save(tx, b"a", FRESH, KeyState(promised=Ballot(2, 1))))
    with pytest.raises(InvalidRequest, match="being decided"):
        store.transact(lambda tx: LegacyImport(ME).write(tx, [(b"a", b"1")]))


def test_a_replica_with_committed_writes_is_refused() -> None:
    store = MemoryStore()
    LegacyImport(ME).check(store.newest())
    committed = Proposal(value=b"v", version=1, mutable=False, proposal_id=ProposalId(1, 2))
    store.transact(lambda tx: Keyspace(ME).save(tx, b"a", FRESH, KeyState(committed=committed)))
    with pytest.raises(InvalidRequest, match="has committed writes"):
        LegacyImport(ME).check(store.newest())


@pytest.mark.parametrize(
    ("key", "value"),
    [(b"", b""), (b"k" * (MAX_KEY_BYTES + 1), b""), (FIRST_SYSTEM_KEY, b""), (b"k", bytes(MAX_VALUE_BYTES + 1))],
)
def test_a_pair_beyond_the_limits_is_refused(key: bytes, value: bytes) -> None:
    check_pair(b"k" * MAX_KEY_BYTES, b"")
    with pytest.raises(InvalidRequest):
        check_pair(key, value)
