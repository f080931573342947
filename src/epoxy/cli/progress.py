"""The progress of long work: a bar on a terminal, a plain line now and then elsewhere. Always on stderr, so that a pipe
carries only the result."""

import time

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

PLAIN_SECONDS = 10.0
"""Between two plain lines, so that the log of an hour stays readable."""


class ProgressBar:
    """`total` None: the amount of work is not known."""

    def __init__(self, title: str, total: int | None) -> None:
        self._title = title
        self._total = total
        self._console = Console(stderr=True)
        self._bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[told]}"),
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
            auto_refresh=False,  # a thread of rich's would make it unsafe to fork workers
        )
        self._task = self._bar.add_task(title, total=total, told="")
        self._last_line = time.monotonic()

    def __enter__(self) -> "ProgressBar":
        if self._console.is_terminal:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._console.is_terminal:
            self._bar.stop()

    @property
    def is_live(self) -> bool:
        """On a terminal."""
        return self._console.is_terminal

    def tell(self, done: int, told: str) -> None:
        if self._console.is_terminal:
            self._bar.update(self._task, completed=done, told=told, refresh=True)
        elif time.monotonic() - self._last_line >= PLAIN_SECONDS:
            self._last_line = time.monotonic()
            so_far = f"{done:,} of {self._total:,}, " if self._total is not None else ""
            click.echo(f"{self._title}: {so_far}{told}", err=True)
