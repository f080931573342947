"""A disk without files: the rows of a MemoryStore that are durable."""

from collections.abc import Callable, Mapping

from epoxy.model.errors import StoreRefused
from epoxy.store.memory import MemoryStore
from epoxy_sim.disk.port import DiskUser


class MemoryMark:
    is_marked = False

    def mark(self) -> bool:
        self.is_marked = True
        return True

    def unmark(self) -> None:
        self.is_marked = False


class MemoryDisk:
    """What a crash leaves is a prefix of the transactions, at least all that are durable."""

    def __init__(self, contents: Mapping[bytes, bytes] | None = None) -> None:
        self._contents = dict(contents or {})
        self._store: MemoryStore | None = None
        self._before_lies: dict[bytes, bytes] | None = None
        self._shortened = False
        self.mark = MemoryMark()

    def open(self, user: DiskUser) -> MemoryStore:
        if self._shortened:
            raise StoreRefused("the log is shorter than it was made")

        def synced(done: Callable[[], None]) -> None:
            error = user.disk_error()
            if error is not None:
                user.disk_failed(str(error.strerror))
            else:
                done()

        self._store = MemoryStore(
            lambda done: user.wait_for_disk(lambda: synced(done)), contents=self._contents, delay=user.delay
        )
        return self._store

    def crash(self, keep: float) -> None:
        assert self._store is not None, "a crash ends a process"
        kept = self._store.survivors(int(self._store.pending * keep))
        self._contents = kept if self._before_lies is None else self._before_lies
        self._before_lies = None
        self._store.close()
        self._store = None

    def image(self) -> "MemoryDisk":
        copy = MemoryDisk(self._contents if self._store is None else self._store.survivors())
        copy._shortened = self._shortened
        copy.mark.is_marked = self.mark.is_marked
        return copy

    def shorten(self) -> None:
        """As the embedded store, this one refuses such a log."""
        self._shortened = True

    def lie(self) -> None:
        if self._before_lies is None:
            self._before_lies = self.image()._contents
