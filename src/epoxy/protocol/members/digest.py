"""Digests of stretches of keys, which two replicas compare instead of the keys themselves.

A digest covers the keys of a stretch in their order, each with all of its committed proposal, the value too. It leaves
out what may differ between replicas that hold the same decisions: lineage, promises and votes.
"""

from collections.abc import Sequence
from hashlib import blake2b

from epoxy.model.members import DIGEST_BYTES, Pair, Stretch
from epoxy.model.records import ChangelogEntry


def stretch(entries: Sequence[ChangelogEntry], until: bytes | None) -> Stretch:
    return Stretch(until=until, count=len(entries), digest=digest(entries))


def digest(entries: Sequence[ChangelogEntry]) -> bytes:
    return blake2b(b"".join(map(fingerprint, entries)), digest_size=DIGEST_BYTES).digest()


def fingerprint(entry: ChangelogEntry) -> bytes:
    """Lengths first, so that different sequences of entries never give the same bytes."""
    key, committed = entry.key, entry.committed
    value, proposal_id = committed.value, committed.proposal_id
    return b"%d %d %d %d %d %d %b%b" % (
        len(key),
        -1 if value is None else len(value),
        committed.version,
        committed.mutable,
        proposal_id.replica_id,
        proposal_id.nonce,
        key,
        value or b"",
    )


NOTHING = stretch((), None)
"""Of a reader that did not summarise what it holds: send all there is."""


def pairs_digest(pairs: Sequence[Pair]) -> bytes:
    """Of the ordered engine, by the records of its keys."""
    rows = [b"%d %d %b%b" % (len(pair.key), len(pair.value), pair.key, pair.value) for pair in pairs]
    return blake2b(b"".join(rows), digest_size=DIGEST_BYTES).digest()


def pairs_stretch(pairs: Sequence[Pair], until: bytes | None) -> Stretch:
    return Stretch(until=until, count=len(pairs), digest=pairs_digest(pairs))
