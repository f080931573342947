"""The progress of a backup in words: its phase, then keys, bytes and the rate."""

import time
from typing import Self

import click

from epoxy.cli.progress import ProgressBar
from epoxy.model.api_backups import BackupState

WORDS = {
    "settling": "settling open votes and comparing commits with the other members",
    "executing": "executing transactions the others know",
    "cutting": "cutting",
}


class BackupProgress:
    """On stderr: a bar on a terminal; elsewhere a line for each phase, and one now and then while blocks are copied."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._bar: ProgressBar | None = None
        self._phase = ""
        self._keys = self._bytes = 0
        self._began = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def gathering(self, state: BackupState) -> None:
        if self._quiet:
            return
        if state.phase != self._phase:
            self._begin(state.phase, WORDS[state.phase], None)
        assert self._bar is not None
        of_all = f" of about {state.keys:,}" if state.keys else ""
        self._bar.tell(state.compared, f"{state.compared:,}{of_all} keys" if state.phase == "settling" else "")

    def copying(self, state: BackupState, records: int, size: int) -> None:
        self._keys += records
        self._bytes += size
        if self._quiet:
            return
        if self._phase != state.phase:
            self._begin(state.phase, "copying", state.keys or None)
        assert self._bar is not None
        rate = self._bytes / max(1e-6, time.monotonic() - self._began)
        told = f"{self._keys:,} records, {self._bytes / 1e6:,.0f} MB, {rate / 1e6:,.1f} MB/s"
        self._bar.tell(min(self._keys, state.keys) if state.keys else self._keys, told)

    def _begin(self, phase: str, words: str, total: int | None) -> None:
        self._end()
        self._phase, self._began = phase, time.monotonic()
        self._bar = ProgressBar(words, total)
        self._bar.__enter__()
        if not self._bar.is_live:
            click.echo(f"{words} ...", err=True)

    def _end(self) -> None:
        if self._bar is not None:
            self._bar.__exit__(None, None, None)
            self._bar = None
