"""How far long work has come: a bar on a terminal, a plain line now and then elsewhere. Always on stderr, so that what
is piped away is the result alone."""

import time
from types import TracebackType

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from epoxy.cli.sim.results import hours_per_minute
from epoxy_sim.campaign import Campaign, S, Summary, Tally
from epoxy_sim.worker_pool import WorkerDied

PLAIN_SECONDS = 10.0
"""Between two plain lines: a log of an hour stays readable."""


class ProgressBar:
    """Is told what was done so far. `total` None: nobody knows how much there will be."""

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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if self._console.is_terminal:
            self._bar.stop()

    def __call__(self, tally: Tally, seconds: float) -> None:
        self.tell(tally.runs, words(tally, seconds))

    def tell(self, done: int, told: str) -> None:
        if self._console.is_terminal:
            self._bar.update(self._task, completed=done, told=told, refresh=True)
        elif time.monotonic() - self._last_line >= PLAIN_SECONDS:
            self._last_line = time.monotonic()
            so_far = f"{done:,} of {self._total:,}, " if self._total is not None else ""
            click.echo(f"{self._title}: {so_far}{told}", err=True)


def words(tally: Tally, seconds: float) -> str:
    rate = tally.runs / seconds if seconds else 0.0
    hours = hours_per_minute(tally, seconds)
    failures = "no failure" if not tally.failures else f"{tally.failures:,} failed"
    return f"{tally.runs:,} runs, {rate:,.0f} a second, {failures}, {hours:,.1f} virtual hours a minute"


def watched(title: str, campaign: Campaign[S]) -> Summary[S]:
    """Run it, and tell how far it has come."""
    total = campaign.end - campaign.first if campaign.minutes is None else None
    try:
        with ProgressBar(title, total) as watch:
            campaign.listener = watch
            return campaign.run()
    except WorkerDied as died:
        raise click.ClickException(str(died)) from died
