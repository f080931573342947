"""How the keys of a datacenter are split among its nodes."""

from zlib import crc32

from epoxy.model.cluster import FIRST_SYSTEM_KEY

SYSTEM_SHARD = 0
"""Everything that is not of a client's key: the configuration, members, the ordered engine, the actors' directory."""

KEY_SHARDS = 256
"""Enough for an even spread over dozens of nodes, and few enough that the table of their owners is read as a whole."""

ALL_SHARDS = range(KEY_SHARDS + 1)


def shard_of(key: bytes) -> int:
    """The shard of a key. The cluster's own keys belong to the system shard."""
    return SYSTEM_SHARD if key >= FIRST_SYSTEM_KEY else 1 + crc32(key) % KEY_SHARDS
