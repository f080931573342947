"""Values of the first layout, imported into a replica that is not running.

The original system left them as raw rows, `kv/{key}/committed_value`. A key with such a value counts as committed,
version 0 and immutable, for reads and for the acceptor alike. A replica that has committed writes is refused: another
replica may have decided a key that this one has not learned yet, and the import would give it a second value.
"""

from collections.abc import Sequence

from msgspec import Struct

from epoxy.codec.quoting import pack_bytes
from epoxy.codec.tuple import pack
from epoxy.model.ballot import NO_BALLOT
from epoxy.model.cluster import FIRST_SYSTEM_KEY
from epoxy.model.errors import InvalidRequest
from epoxy.model.members import NO_STAMP
from epoxy.model.records import MAX_KEY_BYTES, MAX_VALUE_BYTES
from epoxy.ports import Snapshot, Transaction
from epoxy.store.keyspace import KV, LEGACY_COMMITTED, LEGACY_LAYOUT, Keyspace

Pair = tuple[bytes, bytes]


class Imported(Struct, frozen=True, kw_only=True):
    """The number of values written, and of those that were there already with the same bytes."""

    written: int = 0
    present: int = 0

    def plus(self, other: "Imported") -> "Imported":
        return Imported(written=self.written + other.written, present=self.present + other.present)


class LegacyImport:
    def __init__(self, replica_id: int) -> None:
        self._keyspace = Keyspace(replica_id)
        self._rows = pack((LEGACY_LAYOUT, replica_id, KV))

    def check(self, view: Snapshot) -> None:
        """Refuse a replica that has committed a client's write."""
        if self._keyspace.changelog(view, None, 1) or self._keyspace.truncated(view) != NO_STAMP:
            raise InvalidRequest(
                "this replica has committed writes; values of the first layout are imported before it first serves, "
                "into every member alike"
            )

    def write(self, tx: Transaction, pairs: Sequence[Pair]) -> Imported:
        """All of these or, by an exception, none. Repeating it is harmless: equal values are left as they are."""
        written = [pair for pair in pairs if self._write_one(tx, *pair)]
        return Imported(written=len(written), present=len(pairs) - len(written))

    def _write_one(self, tx: Transaction, key: bytes, value: bytes) -> bool:
        check_pair(key, value)
        state = self._keyspace.load(tx, key)
        row = self._rows + pack_bytes(key) + LEGACY_COMMITTED
        # The keyspace checks once whether there is anything of the first layout; this transaction may be the first.
        known = state.committed.value if state.committed is not None else tx.get(row)
        if known is not None:
            if known != value:
                raise InvalidRequest(f"key {key!r} holds another value here")
            return False
        if state.promised != NO_BALLOT or state.vote is not None:
            raise InvalidRequest(f"key {key!r} is being decided: this replica holds a promise or a vote for it")
        tx.set(row, value)
        return True


def check_pair(key: bytes, value: bytes) -> None:
    if not 1 <= len(key) <= MAX_KEY_BYTES:
        raise InvalidRequest(f"a key of {len(key)} bytes; allowed: 1 to {MAX_KEY_BYTES}")
    if key >= FIRST_SYSTEM_KEY:
        raise InvalidRequest(f"key {key!r} belongs to the cluster")
    if len(value) > MAX_VALUE_BYTES:
        raise InvalidRequest(f"key {key!r}: a value of {len(value):,} bytes; allowed: {MAX_VALUE_BYTES:,}")
