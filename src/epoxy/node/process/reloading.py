"""Files that a process reads again while it runs: the cluster's secrets and its certificates.

On SIGHUP at once; and a few seconds after they have changed, because a tool that renews certificates cannot always send
a signal. A file that cannot be used never ends the process: what was read before stays in force.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from epoxy.model.errors import ConfigError
from epoxy.node.process.file_watch import FileWatch
from epoxy.node.process.logs import LOGGER

LOOK_S = 2.0
"""Between two looks at the files, half a dozen `stat` calls. A change is in force after two or three of them."""

RETRY_LOOKS = 30
"""Looks after which files that could not be used are tried again although they are the same: a certificate may have
begun to be valid meanwhile."""

FAILED = "failed"


class Reloadable(Protocol):
    @property
    def files(self) -> Sequence[Path]: ...

    def reload(self) -> str:
        """What has changed, in words; empty: nothing. ConfigError: nothing, because a file cannot be used."""


class Reloading:
    """`failures`: how often files could not be used."""

    def __init__(self, parts: Mapping[str, Reloadable], at_each_look: Callable[[], None] = lambda: None) -> None:
        """`parts`: by the names they have in the log."""
        self._parts = parts
        self._at_each_look = at_each_look
        self._watches = {name: FileWatch(part.files) for name, part in parts.items()}
        self._told: dict[str, str] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._looks = 0
        self.failures = 0

    def start(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(LOOK_S, self._look)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def reload(self) -> None:
        """All of them, as SIGHUP asks for. The log has one line about it."""
        done = {name: self._reload(name) for name in self._parts}
        LOGGER.info("reloaded", extra={name: words or "unchanged" for name, words in done.items()})

    def _look(self) -> None:
        self.start()
        self._at_each_look()
        due = [name for name, watch in self._watches.items() if watch.has_changed() or self._is_due(name)]
        self._looks += 1
        changed = {name: self._reload(name) for name in due}
        if any(words not in ("", FAILED) for words in changed.values()):
            LOGGER.info("reloaded", extra={name: words or "unchanged" for name, words in changed.items()})

    def _is_due(self, name: str) -> bool:
        """The first look reads all: files may have changed between being read at the start and being watched."""
        return self._looks == 0 or (name in self._told and self._looks % RETRY_LOOKS == 0)

    def _reload(self, name: str) -> str:
        """One reason is logged once, until a reload succeeds."""
        try:
            words = self._parts[name].reload()
        except ConfigError as error:
            self.failures += 1
            reason = str(error)
            if self._told.get(name) != reason:
                self._told[name] = reason
                LOGGER.error(
                    "not reloaded: what was read before stays in force", extra={"part": name, "detail": reason}
                )
            return FAILED
        self._told.pop(name, None)
        return words
