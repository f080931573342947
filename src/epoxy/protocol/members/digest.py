"""What two replicas compare instead of what they hold.

The digest is over the keys of a stretch in their order, each with what is committed for it: the whole of it, the value
too. It leaves out what may differ between replicas that hold the same: lineage, promises and votes.
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
    """Lengths first, so that no two sequences of entries look the same."""
    key, committed = entry.key, entry.committed
    value, name = committed.value, committed.proposal_id
    return b"%d %d %d %d %d %d %b%b" % (
        len(key),
        -1 if value is None else len(value),
        committed.version,
        committed.mutable,
        name.replica_id,
        name.nonce,
        key,
        value or b"",
    )


NOTHING = stretch((), None)
"""Said by a reader that has not looked: send all there is."""


def pairs_digest(pairs: Sequence[Pair]) -> bytes:
    """Of the ordered engine, whose values have no versions."""
    told = [b"%d %d %b%b" % (len(pair.key), len(pair.value), pair.key, pair.value) for pair in pairs]
    return blake2b(b"".join(told), digest_size=DIGEST_BYTES).digest()


def pairs_stretch(pairs: Sequence[Pair], until: bytes | None) -> Stretch:
    return Stretch(until=until, count=len(pairs), digest=pairs_digest(pairs))
