"""Pages and counts of the keys that a replica holds."""

from collections.abc import Callable
from itertools import islice

from epoxy.model.marks import OWNED, is_owned
from epoxy.model.records import Proposal
from epoxy.node.keys.replica import Replica
from epoxy.ports import Store

Shown = Callable[[bytes, Proposal], Proposal]
"""What a reader sees of a key whose row holds this."""

PAGE_BYTES = 4 << 20
"""Values on a page of keys, as much as the largest message between peers; the last of them may exceed it."""


class Listing:
    """`owned`: of keys that belong to transactions; `lasting`: of values that may be over."""

    def __init__(self, replica: Replica, store: Store, owned: Shown, lasting: Shown) -> None:
        self._replica = replica
        self._store = store
        self._owned = owned
        self._lasting = lasting

    def page(self, prefix: bytes, after: bytes | None, limit: int) -> list[tuple[bytes, Proposal]]:
        """Fewer than `limit` if these are the last, or if their values come to PAGE_BYTES. A value that is over by this
        replica's count is absent."""
        found: list[tuple[bytes, Proposal]] = []
        size = 0
        rows = self._replica.keyspace.clients_keys(self._store.durable(), prefix, after)
        for key, committed in islice(rows, limit):
            shown = self._owned(key, committed) if is_owned(committed) else committed
            found.append((key, self._lasting(key, shown)))
            size += len(shown.value or b"")
            if size >= PAGE_BYTES:
                break
        return found

    def count(self, after: bytes | None, rows: int, prefix: bytes = b"") -> tuple[int, bytes | None]:
        """How many of the next `rows` rows after a key are living keys, and the last key among them; None: the end."""
        keys, named, last = self._replica.keyspace.living(self._store.durable(), after, rows, OWNED, prefix)
        return keys + sum([self._lives(key) for key in named]), last

    def _lives(self, key: bytes) -> bool:
        """For a key whose row says that it belongs to transactions."""
        here = self._replica.peek(key, use_cache=False)
        if here is None or not is_owned(here.committed):
            return here is not None
        return not self._owned(key, here.committed).is_tombstone
