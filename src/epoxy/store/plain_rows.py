"""The rows of plain requests (`codec.plain_requests`): what `keyspace` says of states, for records that are encoded."""

from epoxy.codec.quoting import pack_bytes
from epoxy.ports import Snapshot
from epoxy.store.keyspace import BALLOT, CACHE, VALUE, Keyspace, Rows, Stamped


class PlainRows:
    def __init__(self, keyspace: Keyspace) -> None:
        self._keyspace = keyspace
        self._keys, self._votes, _ = keyspace.rows()

    def read(self, view: Snapshot, key: bytes) -> tuple[bytes | None, bytes | None] | None:
        """What is committed, and the vote. None: that need not be all. There may be a promise, or a value of the first
        layout."""
        packed = pack_bytes(key)
        row = self._keys + packed
        record = view.get(row + VALUE)
        if view.get(row + BALLOT) is not None or (record is None and self._keyspace.any_legacy(view)):
            return None
        return record, view.get(self._votes + packed)

    def voted(self, key: bytes, vote: bytes) -> Rows:
        return {self._votes + pack_bytes(key): vote}

    def decided(self, view: Snapshot, key: bytes, record: bytes, logged: bytes, *, voted: bool) -> tuple[Rows, Stamped]:
        """Of a decision whose value does not end, nor did the one before it. `voted`: there is a vote to delete."""
        packed = pack_bytes(key)
        row = self._keys + packed
        rows: Rows = {row + VALUE: record}
        if self._keyspace.any_cached(view):
            rows[row + CACHE] = None
        if voted:
            rows[self._votes + packed] = None
        return rows, self._keyspace.logged(logged)
