"""The in-memory store on a bench."""

from collections.abc import Callable

from epoxy.ports import Store
from epoxy.store.memory import MemoryStore


class MemoryBench:
    """The disk ends a flush when it is told to."""

    is_shared = False

    def __init__(self, kind: type[MemoryStore] = MemoryStore) -> None:
        self._kind = kind
        self._flushes: list[Callable[[], None]] = []
        self._memory = kind(self._flushes.append)

    @property
    def store(self) -> Store:
        return self._memory

    def sync(self) -> None:
        while self._flushes:
            self._flushes.pop(0)()

    def reopen(self) -> None:
        self.sync()
        self._memory.close()
        self.crash()

    def crash(self) -> None:
        self._flushes = []
        self._memory = self._kind(self._flushes.append, contents=self._memory.survivors())
