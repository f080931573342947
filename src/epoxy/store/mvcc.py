"""Earlier states for those who still look at them.

A commit that changes something under a reader's eyes leaves the values it replaced in a list, and a reader keeps the
element that was newest when it began: through the links, all that came later. The store itself holds that element only
weakly. So it knows whether there is any reader, writes history for nobody, and need not be told when one goes away.
"""

from typing import Generic, TypeVar
from weakref import ref

V = TypeVar("V")


class UndoRecord(Generic[V]):
    """One commit, as those who began before it see it. The newest is empty, and waits for the next commit."""

    __slots__ = ("__weakref__", "before", "next")

    def __init__(self) -> None:
        self.before: dict[bytes, V] = {}
        self.next: UndoRecord[V] | None = None


class UndoLog(Generic[V]):
    """Of one store, or of one of its states."""

    __slots__ = ("newest",)

    def __init__(self) -> None:
        self.newest: ref[UndoRecord[V]] | None = None

    def join(self) -> UndoRecord[V]:
        """For a reader that begins now."""
        past = self.newest() if self.newest is not None else None
        if past is None:
            past = UndoRecord()
            self.newest = ref(past)
        return past

    def any(self) -> bool:
        if self.newest is not None and self.newest() is None:
            self.newest = None
        return self.newest is not None

    def record(self, before: dict[bytes, V]) -> None:
        """A commit replaced these values."""
        past = self.newest() if self.newest is not None else None
        if past is not None:
            past.before = before
            past.next = UndoRecord()
            self.newest = ref(past.next)
