"""`epoxy worker run --reload`: watches source files, and replaces the process of a worker when one changes.

The new process is started first. When it is connected, the old one drains into it; so actors are away for no longer
than a move takes. Code that ends before it is connected changes nothing: the old one goes on until the next change.
"""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType

import click

POLL_S = 0.5
"""Between two looks. A thousand files take about 5 ms."""

MAX_FILES = 20_000
"""More are no application's own, and reading their times would take too long."""

LEFT_OUT = {"__pycache__", "node_modules", "site-packages", "venv"}
"""Folders of files that are not written by hand; and those whose name begins with a dot."""

Times = dict[str, int]


def source_times(folders: Sequence[Path]) -> Times:
    """When each Python file below the folders was changed last. Raises UsageError."""
    found: Times = {}
    for path in (each for folder in folders for each in sources(folder)):
        try:
            found[path] = os.stat(path).st_mtime_ns
        except OSError:
            continue  # deleted meanwhile
        if len(found) > MAX_FILES:
            raise click.UsageError(f"more than {MAX_FILES:,} Python files to watch; --watch names a smaller folder")
    return found


def sources(folder: Path) -> Iterator[str]:
    for at, below, files in os.walk(folder):
        below[:] = [name for name in below if name not in LEFT_OUT and not name.startswith(".")]
        yield from (os.path.join(at, name) for name in files if name.endswith(".py"))


def changed(before: Times, now: Times) -> list[str]:
    return sorted({path for path, _ in before.items() ^ now.items()})


class WorkerProcess:
    """In a process group of its own: Ctrl-C in a terminal is for this process, which drains it."""

    def __init__(self, command: Sequence[str]) -> None:
        self._ours, theirs = socket.socketpair()
        self._ours.setblocking(False)
        number = theirs.fileno()
        # Python takes a source that changed twice in a second and kept its size from its cache of compiled ones.
        environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
        words = [*command, "--supervised", str(number)]
        self._process = subprocess.Popen(words, pass_fds=(number,), start_new_session=True, env=environment)
        theirs.close()
        self.connected = False

    @property
    def status(self) -> int | None:
        """None: it runs."""
        return self._process.poll()

    def look(self) -> None:
        if not self.connected:
            with suppress(BlockingIOError):
                self.connected = self._ours.recv(1) == b"\n"

    def drain(self) -> None:
        if self.status is None:
            self._process.send_signal(signal.SIGTERM)

    def close(self) -> None:
        self._ours.close()


class Reloader:
    """`command` starts a worker."""

    def __init__(self, folders: Sequence[Path], command: Sequence[str]) -> None:
        self._folders = folders
        self._command = command
        self._times = source_times(folders)
        self._current: WorkerProcess | None = None
        self._next: WorkerProcess | None = None
        self._draining: list[WorkerProcess] = []
        self.stopping = False

    def step(self) -> None:
        """One look at the files and the processes."""
        now = source_times(self._folders)
        if not self.stopping and (which := changed(self._times, now)):
            tell(f"{os.path.relpath(which[0])} has changed" + (f", and {len(which) - 1} more" if which[1:] else ""))
            self._times = now
            self.start()
        self._look_at_next()
        self._look_at_current()
        for each in [each for each in self._draining if each.status is not None]:
            each.close()
            self._draining.remove(each)

    def start(self) -> None:
        """One that has not connected yet gives way to the newer one."""
        if self._next is not None:
            self._retire(self._next)
        self._next = WorkerProcess(self._command)

    def stop(self) -> None:
        """Asked again, the actors that are left are cancelled."""
        if not self.stopping:
            self.stopping = True
            self._draining += [each for each in (self._current, self._next) if each is not None]
            self._current = self._next = None
        for each in self._draining:
            each.drain()

    @property
    def is_over(self) -> bool:
        return self.stopping and not self._draining

    def _look_at_next(self) -> None:
        coming = self._next
        if coming is None:
            return
        coming.look()
        if coming.status is not None:
            coming.close()
            self._next = None
            goes_on = (
                "the code before it goes on" if self._current is not None else "it is started with the next change"
            )
            tell(f"it ended with status {coming.status}; {goes_on}")
        elif coming.connected or self._current is None:
            if self._current is not None:
                self._retire(self._current)
            self._current, self._next = coming, None

    def _look_at_current(self) -> None:
        """It ended by itself: it is started with the next change, as a debugger's user would expect."""
        if self._current is not None and self._current.status is not None:
            tell(f"the worker ended with status {self._current.status}; it is started with the next change")
            self._current.close()
            self._current = None

    def _retire(self, process: WorkerProcess) -> None:
        process.drain()
        self._draining.append(process)


def tell(words: str) -> None:
    click.echo(f"epoxy worker: {words}", err=True)


def supervise(folders: Sequence[Path], command: Sequence[str]) -> int:
    """Until SIGTERM or SIGINT, and then until the processes have drained."""
    reloader = Reloader(folders, command)
    signals: list[int] = []

    def note(number: int, _frame: FrameType | None) -> None:
        """Handled between two steps: a handler may run in the middle of one."""
        signals.append(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, note)
    reloader.start()
    while not reloader.is_over:
        while signals:
            signals.pop()
            reloader.stop()
        reloader.step()
        time.sleep(POLL_S)
    return 0
