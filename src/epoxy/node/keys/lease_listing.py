"""Pages of the values that end, in the order of their keys.

They are read from the indexes that a start counts from, so a page costs as many rows as it has, however many values
end. What a count says, this replica's clock says: no other replica is asked.
"""

from collections.abc import Callable

from msgspec import Struct

from epoxy.model.cluster import FIRST_SYSTEM_KEY
from epoxy.model.records import Expiry, Proposal
from epoxy.model.sessions import session_key
from epoxy.model.writes import ReadResult
from epoxy.node.keys.leases import Leases


class ListedLease(Struct, frozen=True, kw_only=True):
    """`remaining_ms` None: its session is not known here. `committed`: None, if its row cannot be read now."""

    key: bytes
    version: int
    expiry: Expiry
    remaining_ms: int | None
    is_over: bool
    committed: Proposal | None


class LeaseListing:
    """`peek`: what this replica knows of a key."""

    def __init__(self, leases: Leases, peek: Callable[[bytes], ReadResult | None]) -> None:
        self._leases = leases
        self._peek = peek

    def page(self, prefix: bytes, after: bytes | None, limit: int) -> tuple[list[ListedLease], bytes | None]:
        """The next values of clients that end, beyond `after`, and the key to go on from; None: the end. There may be
        fewer than `limit` on a page that is not the last: rows that no count belongs to are left out."""
        keys = self._keys(prefix, after, limit)
        more = keys[-1] if len(keys) == limit else None
        return [listed for key in keys if (listed := self._listed(key)) is not None], more

    def _keys(self, prefix: bytes, after: bytes | None, limit: int) -> list[bytes]:
        """Of the rows of all indexes the first: a key may be in two of them."""
        found: set[bytes] = set()
        for index in self._leases.indexes:
            first, beyond = start_of(prefix, after)
            if first is not None and self._leases.counts(first):
                found.add(first)
            found.update(key for key, _ in index(beyond, limit) if key.startswith(prefix) and key < FIRST_SYSTEM_KEY)
        return sorted(found)[:limit]

    def _listed(self, key: bytes) -> ListedLease | None:
        known = self._leases.counted(key)
        if known is None:
            return None
        here = self._peek(key)
        committed = here.committed if here is not None else None
        session = known.expiry.session
        return ListedLease(
            key=key,
            version=known.version,
            expiry=known.expiry,
            remaining_ms=self._leases.left_ms(session_key(session) if session else key),
            is_over=self._leases.has_run_out(known),
            committed=committed,
        )


def start_of(prefix: bytes, after: bytes | None) -> tuple[bytes | None, bytes | None]:
    """An index answers what is beyond a key. The first key that may begin with the prefix is the prefix itself: it is
    looked at, and then what is beyond it."""
    if after is not None and after >= prefix:
        return None, after
    return prefix or None, prefix or None
