"""What a node's process keeps its rows in."""

import asyncio
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from threading import Timer
from typing import Protocol

from epoxy.model.api import DiskUsage
from epoxy.model.errors import StoreFailed
from epoxy.node.process.config import Settings
from epoxy.node.process.logs import ProgressLog
from epoxy.ports import StartMark, Store
from epoxy.store.embedded.datadir import DataDir
from epoxy.store.embedded.store import DELAY_MS, PAUSE_MS, EmbeddedStore

CLOSE_S = 10.0
"""For what the disk is doing when the store is closed: a flush, or a checkpoint of a generation, which take a second at
most. A disk that takes longer hangs, and would hold the process for ever."""


class Storage(Protocol):
    @property
    def store(self) -> Store: ...

    @property
    def cluster(self) -> str:
        """The id of the cluster that the rows belong to; empty: it has none."""

    @property
    def is_new(self) -> bool:
        """Whether nothing was ever stored here before this start."""

    def longest_sync_ms(self) -> float | None: ...

    def disk_usage(self) -> DiskUsage | None: ...

    def close(self) -> None: ...


class EmbeddedStorage:
    """A data directory of its own, with the embedded store."""

    def __init__(
        self, settings: Settings, loop: asyncio.AbstractEventLoop, on_failure: Callable[[StoreFailed], None]
    ) -> None:
        node = settings.node
        self._data_dir = DataDir.open(
            node.data_dir,
            replica=node.id,
            name=f"{node.datacenter} (replica {node.id})",
            cluster=settings.cluster.id,
            make=settings.cluster.join or not settings.cluster.id,
            tell=ProgressLog("the data directory is migrated"),
        )
        self.on_rot: Callable[[bytes], None] = ignore
        self._on_failure = on_failure
        self._closed = False
        self.cluster, self.is_new = self._data_dir.cluster, self._data_dir.is_new
        # An exception below must leave no thread behind: it would write to a log of an interpreter that has ended.
        with ExitStack() as undo:
            undo.callback(self._data_dir.close)
            self.store = EmbeddedStore(
                node.data_dir,
                post=loop.call_soon_threadsafe,
                schedule=loop.call_soon,
                delay=partial(loop.call_later, DELAY_MS / 1000),
                pause=partial(loop.call_later, PAUSE_MS / 1000),
                readers=loop,
                on_failure=on_failure,
                on_rot=lambda key: self.on_rot(key),
            )
            undo.pop_all()
        self.longest_sync_ms, self.disk_usage = self.store.longest_sync_ms, self.store.disk_usage
        self.mark: StartMark = self._data_dir

    def close(self, *, is_clean: bool = False) -> None:
        """If the disk hangs the process ends as if it had failed: what was not durable was never acknowledged.
        `is_clean`: no replica holds votes for proposals of this one that are not known here."""
        if not self._closed:
            self._closed = True
            stuck = StoreFailed(f"the disk has not ended what was under way for {CLOSE_S:.0f} s")
            timer = Timer(CLOSE_S, self._on_failure, (stuck,))
            timer.daemon = True
            timer.start()
            self.store.close()
            timer.cancel()
            with suppress(OSError):  # the mark stays
                if is_clean:
                    self._data_dir.unmark()
            self._data_dir.close()


def ignore(_key: bytes) -> None:
    """Of a row that rots before there is a node: it is found again when it is read."""
