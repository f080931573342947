"""The mark of a key that belongs to transactions: its value in the per-key engine, immutable, and so decided for ever.

A key that had been written by itself is handed over with what it held: the mark names its version and expiry, and has
its value. So the hand-over is one decision, and no write can come between the value and the mark.
"""

import re
from typing import TypeGuard

from epoxy.model.records import Expiry, Proposal
from epoxy.model.transactions import NO_ROW, OrderedValue

OWNED = b"\xff/ordered"
"""The mark of a key that was never written, and the beginning of every other. No text begins with this byte."""

HANDED_OVER = re.compile(re.escape(OWNED) + rb" (\d{1,20}) (\d{1,20}) (\d{1,20}) ([0-9a-f]*) ([01])\n(.*)", re.DOTALL)
"""Version, time to live, the version at which that was given, the session, whether there is a value, and the value."""


def mark_of(committed: Proposal | None) -> bytes:
    """What a write of `OWNED` makes of this version."""
    if committed is None:
        return OWNED
    expiry = committed.expiry
    ttl_ms, since, session = (expiry.ttl_ms, expiry.since, expiry.session) if expiry is not None else (0, 0, b"")
    head = b" %d %d %d %b %d\n" % (
        committed.version,
        ttl_ms,
        since,
        session.hex().encode(),
        committed.value is not None,
    )
    return OWNED + head + (committed.value or b"")


def is_owned(committed: Proposal | None) -> TypeGuard[Proposal]:
    if committed is None or committed.mutable or committed.value is None or not committed.value.startswith(OWNED):
        return False
    return committed.value == OWNED or HANDED_OVER.fullmatch(committed.value) is not None


def handed_over(mark: bytes) -> OrderedValue:
    """What the key held when it was handed over."""
    found = HANDED_OVER.fullmatch(mark)
    if found is None:
        return NO_ROW
    version, ttl_ms, since = [int(found[group]) for group in (1, 2, 3)]
    session = bytes.fromhex(found[4].decode())
    value = found[6] if found[5] == b"1" else None
    expiry = Expiry(ttl_ms=ttl_ms, since=since, session=session) if ttl_ms or session else None
    return OrderedValue(value=value, version=version, expiry=expiry)
