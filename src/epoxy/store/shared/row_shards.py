"""The shard that a row belongs to, by its key."""

from collections.abc import Sequence
from itertools import chain

from epoxy.codec.quoting import pack_bytes
from epoxy.codec.tuple import pack, strinc
from epoxy.model.cluster import CONFIG_KEY, FIRST_SYSTEM_KEY
from epoxy.model.shards import SYSTEM_SHARD, shard_of
from epoxy.store.buffer import stamp
from epoxy.store.keyspace import CHANGELOG, EXPIRIES, KV, LAYOUT, LEGACY_LAYOUT, VERSIONSTAMP, VOTES, Keyspace, key_of

CHANGELOG_SHARD = -1
"""Of the changelog's rows: every session adds to it with its batches, and it is read from the database."""

LAST_ROW = b"\xff"
"""No row begins with this byte."""


class RowShards:
    """The layout of one replica's rows, as far as it decides about shards: rows of a client's key, whichever kind they
    are, have the shard of that key."""

    def __init__(self, replica: int) -> None:
        self._changelog = pack((LAYOUT, replica, CHANGELOG)) + VERSIONSTAMP
        self.config_row = Keyspace(replica).value_row(CONFIG_KEY)
        roots = ((LAYOUT, KV), (LAYOUT, VOTES), (LAYOUT, EXPIRIES), (LEGACY_LAYOUT, KV))
        self._keyed = tuple([pack((layout, replica, kind)) for layout, kind in roots])
        self._last_key, self._last_shard = b"\xff", SYSTEM_SHARD
        """Packed: rows of one key are asked for together."""
        # The cluster's own keys come last among the keys.
        last = pack_bytes(FIRST_SYSTEM_KEY)[:-1]
        self._elsewhere = (
            (self._changelog, strinc(self._changelog)),
            *[(root, root + last) for root in self._keyed],
        )

    def of(self, row: bytes) -> int:
        for root in self._keyed:
            if row.startswith(root):
                rest, last = row[len(root) :], self._last_key
                # Where a zero byte is followed by ff, the key goes on.
                if not rest.startswith(last) or rest[len(last) : len(last) + 1] == b"\xff":
                    key = key_of(row, root)
                    self._last_key, self._last_shard = pack_bytes(key), shard_of(key)
                return self._last_shard
        return CHANGELOG_SHARD if row.startswith(self._changelog) else SYSTEM_SHARD

    def ranges_of(self, shard: int) -> Sequence[tuple[bytes, bytes]]:
        """Where rows of this shard can be, and perhaps of others: those of the system shard lie between the others."""
        if shard != SYSTEM_SHARD:
            return self._elsewhere
        borders = [b"", *chain.from_iterable(sorted(self._elsewhere)), LAST_ROW]
        return list(zip(borders[::2], borders[1::2], strict=True))

    def within_changelog(self, begin: bytes, end: bytes) -> bool:
        return self._changelog <= begin and end <= strinc(self._changelog)

    def changelog_after(self, commit: int) -> bytes:
        """Where the changelog's rows of later commits begin."""
        return self._changelog + stamp(commit + 1, 0)

    def within_system(self, begin: bytes, end: bytes) -> bool:
        """Whether every row of this range is of the system shard."""
        return all(end <= first or last <= begin for first, last in self._elsewhere)


def shard_of_row(row: bytes, replica: int) -> int:
    return RowShards(replica).of(row)
