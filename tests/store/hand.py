"""The embedded store on a bench: its threads and the ticks of its loop move when a hand moves them."""

import shutil
import tempfile
import weakref
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from epoxy.model.errors import StoreFailed
from epoxy.store.embedded.io_thread import Post
from epoxy.store.embedded.store import LOG_BYTES, EmbeddedStore

T = TypeVar("T")

# Memory looks like a disk, and these tests bring their own crashes.
FAST = Path("/dev/shm") if Path("/dev/shm").is_dir() else None


class SteppedIoThread:
    """Work and its report are two moments, so a crash can come between them."""

    def __init__(self, _name: str = "", _post: Post | None = None) -> None:
        self.jobs: deque[Callable[[], Callable[[], None]]] = deque()
        self.reports: deque[Callable[[], None]] = deque()

    def submit(
        self,
        job: Callable[[], T],
        done: Callable[[T], None],
        failed: Callable[[Exception], None],
    ) -> None:
        def attempt() -> Callable[[], None]:
            try:
                result = job()
            except Exception as error:
                reason = error
                return lambda: failed(reason)
            return lambda: done(result)

        self.jobs.append(attempt)

    def close(self) -> None:
        self.jobs.clear()

    def work(self) -> bool:
        if not self.jobs:
            return False
        self.reports.append(self.jobs.popleft()())
        return True

    def report(self) -> bool:
        if not self.reports:
            return False
        self.reports.popleft()()
        return True


class EmbeddedBench:
    """`log_bytes` small: every few commits are a generation. A checkpoint moves on by half at every `sync`."""

    is_shared = False

    def __init__(self, kind: type[EmbeddedStore] = EmbeddedStore, log_bytes: int = LOG_BYTES) -> None:
        self._kind = kind
        self._log_bytes = log_bytes
        self.folder = Path(tempfile.mkdtemp(dir=FAST, prefix="epoxy-store-"))
        weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)
        self.failures: list[StoreFailed] = []
        self._open()

    def _open(self) -> None:
        self.ticks: deque[Callable[[], None]] = deque()
        self.delays: deque[Callable[[], None]] = deque()
        self.pauses: deque[Callable[[], None]] = deque()
        threads: list[SteppedIoThread] = []

        def io_thread(name: str, post: Post) -> SteppedIoThread:
            threads.append(SteppedIoThread(name, post))
            return threads[-1]

        self.embedded = self._kind(
            self.folder,
            post=self.ticks.append,
            schedule=self.ticks.append,
            on_failure=self.failures.append,
            delay=self.delays.append,
            pause=self.pauses.append,
            io_thread=io_thread,
            log_bytes=self._log_bytes,
        )
        self.writer, self.checkpointer = threads

    @property
    def store(self) -> EmbeddedStore:
        return self.embedded

    def tick(self) -> bool:
        for _ in range(ticks := len(self.ticks)):
            self.ticks.popleft()()
        return ticks > 0

    def sync(self) -> None:
        if not self.checkpointer.report():
            self.checkpointer.work()
        self.flush()

    def rest(self) -> bool:
        """The pause after a flush is over."""
        if not self.pauses:
            return False
        self.pauses.popleft()()
        return True

    def flush(self) -> None:
        """Let the log come to its end. A checkpoint stays where it is."""
        while self.tick() or self.writer.work() or self.writer.report() or self.rest():
            pass

    def settle(self) -> None:
        """Let everything come to its end, checkpoints too."""
        threads = self.writer, self.checkpointer
        while self.tick() or any(thread.work() or thread.report() for thread in threads) or self.rest():
            pass

    def reopen(self) -> None:
        self.sync()
        self.embedded.close()
        self._open()

    def crash(self) -> None:
        """The process ends here: no job is started, no report is heard. What the jobs wrote is on the disk."""
        self.embedded.close()
        self._open()
