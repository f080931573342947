"""Optimistic concurrency: what was committed since a transaction began, and whether it had read any of it.

Every commit fills the newest `Change` with the values it replaced and links a fresh one behind it. A reader keeps the
change that was newest when it began, and so, through the links, all that came later. A change that no reader keeps is
dropped by reference counting the moment the next one takes its place: history costs something only while somebody
needs it, and nobody has to be told when a reader goes away.
"""

from collections.abc import Collection, Iterable, Mapping

Values = Mapping[bytes, bytes | None]
"""Keys with their values; None: absent."""


class Change:
    """One commit, as those who began before it see it. The newest is empty, and waits for the next commit."""

    __slots__ = ("before", "next")

    def __init__(self) -> None:
        self.before: Values = {}
        self.next: Change | None = None

    def record(self, before: Values) -> "Change":
        """Become the commit that replaced these values, and name the next newest."""
        assert self.next is None, "history is written once"
        self.before = before
        self.next = Change()
        return self.next


class Since:
    """What was committed after a moment, each key with the value it had then."""

    __slots__ = ("_changed", "_newest")

    def __init__(self, newest: Change) -> None:
        self._newest = newest
        self._changed: dict[bytes, bytes | None] = {}

    @property
    def changed(self) -> Values:
        change = self._newest
        while change.next is not None:
            for key, value in change.before.items():
                self._changed.setdefault(key, value)
            change = change.next
        self._newest = change
        return self._changed


def overlaps(keys: set[bytes], ranges: Iterable[tuple[bytes, bytes]], changed: Collection[bytes]) -> bool:
    """Whether a transaction that read these keys and ranges must run again.

    Only reads can lose: two transactions that write one key blindly are in order whichever comes first.
    """
    if not changed:
        return False
    return not keys.isdisjoint(changed) or any(begin <= key < end for begin, end in ranges for key in changed)
