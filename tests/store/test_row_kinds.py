"""Every row of a data directory has a kind, and every kind a remedy."""

import inspect
import re

import pytest

from epoxy.actors import directory
from epoxy.codec.tuple import pack
from epoxy.model.cluster import CONFIG_KEY
from epoxy.protocol.placement import rows as placement_rows
from epoxy.store import keyspace, member_rows, scrub_rows, txn_rows
from epoxy.store.row_kinds import ACTOR_RECORD, ACTORS, REMEDIES, Remedy, Row, RowKind, row_of

ME, KEY, STAMP = 7, b"user/\x00ada", bytes(range(10))
L1, L2 = keyspace.LEGACY_LAYOUT, keyspace.LAYOUT
CHANGE = pack((L2, ME, keyspace.CHANGELOG)) + keyspace.VERSIONSTAMP + STAMP + keyspace.USER_VERSION

ROWS = {
    pack((L2, ME, keyspace.KV, KEY)) + keyspace.VALUE: Row(RowKind.VALUE, KEY),
    pack((L2, ME, keyspace.KV, KEY)) + keyspace.BALLOT: Row(RowKind.BALLOT, KEY),
    pack((L2, ME, keyspace.KV, KEY)) + keyspace.CACHE: Row(RowKind.CACHE, KEY),
    pack((L2, ME, keyspace.KV, CONFIG_KEY)) + keyspace.VALUE: Row(RowKind.CONFIGURATION, CONFIG_KEY),
    pack((L1, ME, keyspace.KV, KEY)) + keyspace.LEGACY_COMMITTED: Row(RowKind.VALUE, KEY),
    pack((L1, ME, keyspace.KV, KEY)) + keyspace.LEGACY_VALUE: Row(RowKind.VALUE, KEY),
    pack((L2, ME, keyspace.VOTES, KEY)): Row(RowKind.VOTE, KEY),
    pack((L2, ME, keyspace.EXPIRIES, KEY)): Row(RowKind.EXPIRY, KEY),
    pack((L2, ME, keyspace.CACHES)): Row(RowKind.CACHES),
    pack((L2, ME, keyspace.TRUNCATED)): Row(RowKind.TRUNCATED),
    CHANGE: Row(RowKind.CHANGELOG, STAMP),
    pack((L2, ME, member_rows.PROGRESS, 3)): Row(RowKind.PROGRESS),
    pack((L2, ME, member_rows.IDENTITY)): Row(RowKind.IDENTITY),
    pack((L2, ME, member_rows.NOTED, 3)): Row(RowKind.IDENTITY),
    pack((L2, ME, member_rows.START)): Row(RowKind.START),
    pack((L2, ME, member_rows.SIGHTINGS, 3)): Row(RowKind.SIGHTING),
    pack((L2, ME, member_rows.REFUSED)): Row(RowKind.REFUSED),
    pack((L2, ME, member_rows.MEASURED)): Row(RowKind.MEASURED),
    pack((L2, ME, scrub_rows.SCRUB)): Row(RowKind.SCRUB),
    pack((L1, ME, txn_rows.VALUES, KEY)): Row(RowKind.TXN_VALUE, KEY),
    pack((L1, ME, txn_rows.ENDING, KEY)): Row(RowKind.TXN_EXPIRY, KEY),
    pack((L1, ME, txn_rows.TERM)): Row(RowKind.TERM),
    pack((L1, ME, txn_rows.INSTANCES, 0, 2, 9)) + txn_rows.COMMAND: Row(RowKind.INSTANCE),
    pack((L1, ME, txn_rows.INSTANCES, 0, 2, 9)) + txn_rows.STATE: Row(RowKind.INSTANCE),
    pack((L1, ME, txn_rows.EXECUTED, 0, 2, 9)): Row(RowKind.EXECUTED),
    pack((L1, ME, txn_rows.FORGOTTEN, 0, 2)): Row(RowKind.EXECUTED),
    directory.ACTOR + pack((b"id",)): Row(RowKind.ACTOR),
    directory.NAME + pack(("ns", "name", "key")): Row(RowKind.ACTOR_INDEX),
    directory.PENDING + pack(("ns", "pool", b"id")): Row(RowKind.ACTOR_INDEX),
    pack((placement_rows.ROOT, placement_rows.ENVOY, "ns", "envoy")) + placement_rows.VERSION: Row(RowKind.ENVOY),
}


@pytest.mark.parametrize(("key", "row"), ROWS.items(), ids=lambda value: getattr(value, "kind", ""))
def test_the_kind_follows_from_the_key(key: bytes, row: Row) -> None:
    assert row_of(key, ME) == row


def test_every_kind_has_an_example_here_and_a_remedy() -> None:
    assert {row.kind for row in ROWS.values()} | {RowKind.UNKNOWN} == set(RowKind)
    assert set(REMEDIES) == set(RowKind)


def codes_of(module: object) -> dict[str, int]:
    """The constants that number kinds of rows: the assignment under the comment that they are unchangeable."""
    source = inspect.getsource(module)  # type: ignore[arg-type]
    names = re.search(r"never renumber.*\n(?:LEGACY_LAYOUT.*\n)?(.*) =|unchangeable\.\n(.*) =", source)
    assert names is not None
    return {name: getattr(module, name) for name in (names[1] or names[2]).split(", ")}


@pytest.mark.parametrize(
    ("module", "layout"), [(keyspace, L2), (member_rows, L2), (scrub_rows, L2), (txn_rows, L1)], ids=str
)
def test_every_code_of_the_layouts_is_decided(module: object, layout: int) -> None:
    """One that is added without a remedy would end the node: safe, but perhaps not needed."""
    for name, code in codes_of(module).items():
        begins = pack((layout, ME, code))
        assert any(key.startswith(begins) for key in ROWS), name


def test_actors_rows_are_those_of_the_directory() -> None:
    assert (directory.ROOT, pack((ACTORS, ACTOR_RECORD))) == (ACTORS, directory.ACTOR)


@pytest.mark.parametrize(
    "key",
    [
        b"\xff/position",
        b"\x01never ended",
        pack((L2, ME + 1, keyspace.VOTES, KEY)),
        pack((L2, ME, 63)),
        pack((L2, ME, keyspace.KV, KEY, 9)),
        pack((L2, ME, keyspace.TRUNCATED, KEY)),
        pack((L2, ME, member_rows.PROGRESS, KEY)),
        pack((L1, ME, txn_rows.EXECUTED, 0, 2)),
        CHANGE[:-1],
        CHANGE + b"\x00",
        pack((9,)),
    ],
    ids=repr,
)
def test_a_row_that_is_none_of_ours_ends_the_node(key: bytes) -> None:
    """Its key may be what was changed, and then another row is missing: perhaps a vote."""
    row = row_of(key, ME)
    assert (row.kind, row.remedy) == (RowKind.UNKNOWN, Remedy.END)


@pytest.mark.parametrize("kind", [RowKind.BALLOT, RowKind.VOTE, RowKind.IDENTITY, RowKind.INSTANCE, RowKind.EXECUTED])
def test_what_only_this_replica_knew_is_not_forgiven(kind: RowKind) -> None:
    assert REMEDIES[kind] is Remedy.END
