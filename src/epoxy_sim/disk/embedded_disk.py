"""The production store on a simulated disk: data directory, log, memtables and checkpoints as they are, its threads
moved by virtual time."""

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random
from typing import TypeVar

from epoxy.model.errors import StoreError, StoreFailed
from epoxy.ports import StartMark
from epoxy.store.embedded.datadir import DataDir
from epoxy.store.embedded.io_thread import Post
from epoxy.store.embedded.store import EmbeddedStore
from epoxy_sim.disk import damage
from epoxy_sim.disk.port import DiskUser
from epoxy_sim.disk.sim_files import PowerCut, SimFiles
from epoxy_sim.disk.volume import Volume

T = TypeVar("T")

FOLDER = Path("/var/epoxy")

LOG_BYTES = 2048
"""A few dozen rows: runs are short, and must see many checkpoints."""

LONGEST_FUSE = 12
"""More changes of the disk than a start or a checkpoint makes, most of the time."""

CUT_STARTS = 0.2
"""How often a start after a crash is cut short by another."""


class TimedIo:
    """An executor whose jobs take virtual time. A job is done at the beginning of that time, so that a crash finds it
    done and not reported, or at its end."""

    def __init__(self, user: DiskUser, dice: Random) -> None:
        self.under_way: Callable[[], object] | None = None
        """A job that is not done yet; a crash may come in the middle of it."""
        self._user = user
        self._dice = dice
        self._waiting: deque[Callable[[], None]] = deque()
        self._busy = False

    def submit(
        self,
        job: Callable[[], T],
        done: Callable[[T], None],
        failed: Callable[[Exception], None],
    ) -> None:
        self._waiting.append(lambda: self._start(job, done, failed))
        if not self._busy:
            self._next()

    def close(self) -> None:
        self._waiting.clear()

    def _next(self) -> None:
        self._busy = bool(self._waiting)
        if self._waiting:
            self._waiting.popleft()()

    def _start(self, job: Callable[[], T], done: Callable[[T], None], failed: Callable[[Exception], None]) -> None:
        def attempt() -> Callable[[], None]:
            self.under_way = None
            try:
                return partial(done, job())
            except Exception as error:
                return partial(failed, error)

        def report(outcome: Callable[[], None]) -> None:
            self._next()
            outcome()

        if self._dice.random() < 0.5:
            outcome = attempt()
            self._user.wait_for_disk(lambda: report(outcome))
        else:
            self.under_way = job
            self._user.wait_for_disk(lambda: report(attempt()))


class Starting:
    """The user of a disk whose process does not live to do anything."""

    def wait_for_disk(self, then: Callable[[], None]) -> None:
        """Not in this life."""

    def soon(self, then: Callable[[], None]) -> None:
        """Not in this life."""

    def delay(self, then: Callable[[], None]) -> None:
        """Not in this life."""

    def disk_error(self) -> OSError | None:
        return None

    def disk_failed(self, reason: str) -> None:
        raise AssertionError(reason)


class EmbeddedDisk:
    def __init__(self, seed: str, replica: int, volume: Volume | None = None, *, log_bytes: int = LOG_BYTES) -> None:
        self.volume = volume or Volume()
        self.dice = Random(f"disk/{seed}")
        self._seed = seed
        self._replica = replica
        self._log_bytes = log_bytes
        self._files: SimFiles | None = None
        self._store: EmbeddedStore | None = None
        self._executors: list[TimedIo] = []
        self._cut_starts = self._images = 0
        self._folder: DataDir | None = None

    @property
    def mark(self) -> StartMark:
        assert self._folder is not None, "of the process that has opened it"
        return self._folder

    def open(self, user: DiskUser) -> EmbeddedStore:
        """Sometimes the power is cut while a process starts, and the next one finds what that left."""
        if self._files is not None:
            self._cut_power(1.0)  # Of a process that did not start because of what it read.
        while self._cut_starts:
            self._cut_starts -= 1
            starting = Starting()
            self._files = SimFiles(self.volume, starting.disk_error)
            self._files.fuse = self._draw_fuse()
            with suppress(PowerCut, StoreError):
                self._start(self._files, starting)
            self._cut_power(self.dice.random())
        self._files = SimFiles(self.volume, user.disk_error)
        try:
            self._store = self._start(self._files, user)
        finally:
            if self._store is None:
                self._cut_power(1.0)
        return self._store

    def crash(self, keep: float) -> None:
        """If all is kept, only the process has ended: what it wrote is in the page cache, and still not synced."""
        assert self._files is not None, "a crash ends a process"
        for executor in self._executors:
            if executor.under_way is not None:
                self._files.fuse = self._draw_fuse()
                with suppress(PowerCut, Exception):
                    executor.under_way()
        self._cut_power(keep)
        self._cut_starts = int(self.dice.random() < CUT_STARTS)

    def image(self) -> "EmbeddedDisk":
        self._images += 1
        return EmbeddedDisk(
            f"{self._seed}/{self._images}", self._replica, self.volume.image(), log_bytes=self._log_bytes
        )

    def shorten(self) -> None:
        damage.shorten(self.volume.folder(FOLDER), self.dice)

    def lie(self) -> None:
        self.volume.lying = True

    def _start(self, files: SimFiles, user: DiskUser) -> EmbeddedStore:
        self._executors = []

        def io_thread(_name: str, _post: Post) -> TimedIo:
            self._executors.append(TimedIo(user, self.dice))
            return self._executors[-1]

        self._folder = DataDir.open(FOLDER, replica=self._replica, name="simulated", files=files)
        return EmbeddedStore(
            FOLDER,
            post=user.soon,
            schedule=user.soon,
            delay=user.delay,
            pause=user.delay,  # No rule depends on how long it is.
            on_failure=partial(tell, user),
            io_thread=io_thread,
            log_bytes=self._log_bytes,
            files=files,
        )

    def _draw_fuse(self) -> int:
        """Mostly short: a frame of the log is one change of the disk."""
        return int(LONGEST_FUSE * self.dice.random() ** 3)

    def _cut_power(self, keep: float) -> None:
        assert self._files is not None
        self._files.end()
        if keep == 1.0 and not self.volume.lying:
            self.volume.locked.clear()
        else:
            self.volume.cut_power(keep, self.dice)
        if self._store is not None:
            self._store.close()
        self._files = self._store = None


def tell(user: DiskUser, error: StoreFailed) -> None:
    user.disk_failed(str(error))
