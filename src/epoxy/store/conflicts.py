"""Optimistic concurrency control: whether a transaction has read what others committed since it began."""

from collections.abc import Collection, Iterable, Mapping

Values = Mapping[bytes, bytes | None]
"""Keys with their values; None: absent."""


def overlaps(keys: set[bytes], ranges: Iterable[tuple[bytes, bytes]], changed: Collection[bytes]) -> bool:
    """Whether a transaction that read these keys and ranges must run again.

    Only reads conflict: two transactions that write one key without reading it are serializable in either order.
    """
    if not changed:
        return False
    return not keys.isdisjoint(changed) or any(begin <= key < end for begin, end in ranges for key in changed)
