"""Optimistic concurrency: whether a transaction had read what was committed since it began."""

from collections.abc import Collection, Iterable, Mapping

Values = Mapping[bytes, bytes | None]
"""Keys with their values; None: absent."""


def overlaps(keys: set[bytes], ranges: Iterable[tuple[bytes, bytes]], changed: Collection[bytes]) -> bool:
    """Whether a transaction that read these keys and ranges must run again.

    Only reads can lose: two transactions that write one key blindly are in order whichever comes first.
    """
    if not changed:
        return False
    return not keys.isdisjoint(changed) or any(begin <= key < end for begin, end in ranges for key in changed)
