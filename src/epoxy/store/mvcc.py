"""Multi-version reads: an undo log for readers that began before a commit.

A commit adds the values it replaced to a linked list. A reader holds the record that was newest when it began, and
through the links all later ones. The store itself holds the newest record weakly: so it knows whether there is any
reader, keeps no history without one, and readers need not say when they end.
"""

from typing import Generic, TypeVar
from weakref import ref

V = TypeVar("V")


class UndoRecord(Generic[V]):
    """The values one commit replaced. The newest record is empty, and is filled by the next commit."""

    __slots__ = ("__weakref__", "next", "replaced")

    def __init__(self) -> None:
        self.replaced: dict[bytes, V] = {}
        self.next: UndoRecord[V] | None = None


class UndoLog(Generic[V]):
    """Of one store, or of one of its states."""

    __slots__ = ("newest",)

    def __init__(self) -> None:
        self.newest: ref[UndoRecord[V]] | None = None

    def begin_read(self) -> UndoRecord[V]:
        """For a reader that begins now."""
        newest = self.newest() if self.newest is not None else None
        if newest is None:
            newest = UndoRecord()
            self.newest = ref(newest)
        return newest

    def has_readers(self) -> bool:
        if self.newest is not None and self.newest() is None:
            self.newest = None
        return self.newest is not None

    def record(self, replaced: dict[bytes, V]) -> None:
        """A commit replaced these values."""
        newest = self.newest() if self.newest is not None else None
        if newest is not None:
            newest.replaced = replaced
            newest.next = UndoRecord()
            self.newest = ref(newest.next)
