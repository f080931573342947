"""How keys are split into shards. The hash is part of the format: rows in databases have these numbers."""

from collections import Counter

from epoxy.model.cluster import CONFIG_KEY, FIRST_SYSTEM_KEY
from epoxy.model.shards import ALL_SHARDS, KEY_SHARDS, SYSTEM_SHARD, shard_of


def test_the_clusters_own_keys_are_of_the_system_shard() -> None:
    assert shard_of(CONFIG_KEY) == SYSTEM_SHARD
    assert shard_of(FIRST_SYSTEM_KEY) == SYSTEM_SHARD
    assert shard_of(FIRST_SYSTEM_KEY[:-1]) != SYSTEM_SHARD


def test_keys_are_spread_over_all_other_shards() -> None:
    counts = Counter(shard_of(b"user/%d" % i) for i in range(100_000))
    assert set(counts) == set(ALL_SHARDS) - {SYSTEM_SHARD}
    assert max(counts.values()) < 1.5 * 100_000 / KEY_SHARDS


def test_the_shard_of_a_key_never_changes() -> None:
    assert [shard_of(key) for key in (b"", b"a", b"user/1", b"\x00\xff")] == [1, 68, 151, 115]
