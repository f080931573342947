"""What a simulated machine needs of a disk, and a disk of the process that has it open."""

from collections.abc import Callable
from typing import Protocol

from epoxy.ports import StartMark
from epoxy.store.embedded.store import EmbeddedStore
from epoxy.store.memory import MemoryStore

SimStore = MemoryStore | EmbeddedStore


class DiskUser(Protocol):
    def wait_for_disk(self, then: Callable[[], None]) -> None:
        """Call after the virtual time that a sync takes, unless the process has ended by then."""

    def soon(self, then: Callable[[], None]) -> None:
        """Call when the current step of the process is over."""

    def delay(self, then: Callable[[], None]) -> None:
        """Call after the time that commits which are not urgent wait."""

    def disk_error(self) -> OSError | None:
        """What the next sync fails with, if it does. A sync that fails once is not reported again."""

    def disk_failed(self, reason: str) -> None:
        """The store has failed, and the process must end."""


class Disk(Protocol):
    @property
    def mark(self) -> StartMark:
        """Of the directory that the last process opened."""

    def open(self, user: DiskUser) -> SimStore:
        """The store on it, for a new process. Raises StoreRefused, as production does."""

    def crash(self, keep: float) -> None:
        """The power is cut: the process is gone, and all that was not synced, except for about the share `keep`."""

    def image(self) -> "Disk":
        """A copy of the disk at this moment, as a snapshot of a running machine is one: all that is synced."""

    def shorten(self) -> None:
        """The log ends earlier than it did. Only while no process has the disk open."""

    def lie(self) -> None:
        """From now on syncs are reported and not done, until the next crash loses what they should have kept."""
