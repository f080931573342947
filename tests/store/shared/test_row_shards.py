"""The shards of rows, by the layouts of all that writes rows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epoxy.actors import directory
from epoxy.codec.tuple import pack, strinc
from epoxy.model.cluster import CONFIG_KEY
from epoxy.model.shards import SYSTEM_SHARD, shard_of
from epoxy.protocol.placement import rows as placement_rows
from epoxy.store import keyspace, member_rows, txn_rows
from epoxy.store.buffer import stamp
from epoxy.store.keyspace import Keyspace
from epoxy.store.shared.row_shards import CHANGELOG_SHARD, RowShards, shard_of_row
from epoxy.store.txn_rows import OrderedSpace

REPLICA = 300
SHARDS = RowShards(REPLICA)
KEYS = st.binary(min_size=1, max_size=12)
CHANGELOG = pack((keyspace.LAYOUT, REPLICA, keyspace.CHANGELOG)) + keyspace.VERSIONSTAMP


@given(KEYS)
def test_all_rows_of_a_key_have_its_shard(key: bytes) -> None:
    space = Keyspace(REPLICA)
    expiry, _ = space.expiry_row(NoRows(), key)
    legacy = [pack((keyspace.LEGACY_LAYOUT, REPLICA, keyspace.KV, key, field)) for field in (0, 1)]
    assert {SHARDS.of(row) for row in (*space.rows_of(key), expiry, *legacy)} == {shard_of(key)}


@pytest.mark.parametrize("longer", [b"a\x00", b"a\x00b", b"ab", b"a\xff", b"a\x00\xff"])
def test_a_key_that_begins_like_the_one_before_has_its_own_shard(longer: bytes) -> None:
    """The shard of the last key is remembered."""
    space, shards = Keyspace(REPLICA), RowShards(REPLICA)
    assert shard_of(longer) != shard_of(b"a")
    for key in (b"a", longer, b"a"):
        assert [shards.of(row) for row in space.rows_of(key)] == [shard_of(key)] * len(space.rows_of(key))


@given(KEYS)
def test_values_of_transactions_are_the_systems(key: bytes) -> None:
    space = OrderedSpace(REPLICA)
    ending, _ = space.index_row(NoRows(), key)
    assert {SHARDS.of(row) for row in (space.held_row(key), space.raw_row(key), ending)} == {SYSTEM_SHARD}


@pytest.mark.parametrize(
    "row",
    [
        Keyspace(REPLICA).value_row(CONFIG_KEY),
        *[pack((keyspace.LAYOUT, REPLICA, code)) for code in (keyspace.TRUNCATED, keyspace.CACHES)],
        *[pack((keyspace.LAYOUT, REPLICA, code)) for code in (member_rows.START, member_rows.MEASURED)],
        pack((keyspace.LAYOUT, REPLICA, member_rows.SIGHTINGS, 2)),
        pack((keyspace.LEGACY_LAYOUT, REPLICA, txn_rows.INSTANCES, 1, 2, 3, 0)),
        pack((placement_rows.ROOT, placement_rows.CLOCK)),
        directory.ACTOR + pack((b"id",)),
        pack((keyspace.LAYOUT, REPLICA + 1, keyspace.KV, b"key", 0)),
    ],
)
def test_everything_else_is_the_systems(row: bytes) -> None:
    assert SHARDS.of(row) == shard_of_row(row, REPLICA) == SYSTEM_SHARD
    assert SHARDS.within_system(row, row + b"\x00")


def test_rows_of_the_changelog_are_no_owners() -> None:
    row = CHANGELOG + stamp(7, 0) + keyspace.USER_VERSION
    assert SHARDS.of(row) == shard_of_row(row, REPLICA) == CHANGELOG_SHARD
    assert not SHARDS.within_system(row, row + b"\x00")


@given(KEYS)
def test_a_range_with_a_row_of_a_key_is_not_the_systems_alone(key: bytes) -> None:
    for row in Keyspace(REPLICA).rows_of(key):
        of_system = SHARDS.of(row) == SYSTEM_SHARD
        assert SHARDS.within_system(row, row + b"\x00") is of_system
        if not of_system:
            assert not SHARDS.within_system(b"", b"\xff")
            assert not SHARDS.within_system(row[:1], strinc(row[:1]))


def test_the_systems_ranges_are_known() -> None:
    for root in (pack((3,)), pack((4,)), pack((keyspace.LEGACY_LAYOUT, REPLICA, txn_rows.INSTANCES))):
        assert SHARDS.within_system(root, strinc(root))
    votes = pack((keyspace.LAYOUT, REPLICA, keyspace.VOTES))
    assert not SHARDS.within_system(votes, strinc(votes))


class NoRows:
    """A view without rows."""

    def get(self, _key: bytes) -> bytes | None:
        return None

    def range(
        self,
        begin: bytes,  # noqa: ARG002
        end: bytes,  # noqa: ARG002
        *,
        limit: int,  # noqa: ARG002
        reverse: bool = False,  # noqa: ARG002
    ) -> list[tuple[bytes, bytes]]:
        return []


@given(st.lists(KEYS, min_size=1, max_size=5), st.binary(max_size=4))
def test_rows_of_a_shard_are_within_its_ranges(keys: list[bytes], rest: bytes) -> None:
    space = Keyspace(REPLICA)
    found = [row for key in keys for row in space.rows_of(key)]
    found += [space.value_row(CONFIG_KEY), CHANGELOG + stamp(1, 0), pack((keyspace.LAYOUT, REPLICA, 90)) + rest]
    for row in found:
        shard = SHARDS.of(row)
        assert any(begin <= row < end for begin, end in SHARDS.ranges_of(shard))
        is_of_keys = any(begin <= row < end for begin, end in SHARDS.ranges_of(1))
        assert is_of_keys is (shard != SYSTEM_SHARD)
