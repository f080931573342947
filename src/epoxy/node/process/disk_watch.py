"""Lines in a node's log about its own disk: when syncs begin to take long and when that is over, and when little room
is left. Without them the log of a node whose disk hangs is silent, and only its peers say that it does not answer."""

from collections.abc import Callable

from epoxy.model.api import DiskUsage
from epoxy.node.process.logs import LOGGER

SLOW_SYNC_MS = 1000.0
"""After so long a round of the others gives up on this node."""

LOW_FREE_BYTES = 1 << 30
LEAST_FREE_BYTES = 300 << 20
"""As `epoxy doctor` has them: the log alone may take 256 MiB, in a minute of many commits."""

SPACE_LOOKS = 30
"""Looks of which one asks for the room that is left: a few system calls, once a minute."""


class DiskWatch:
    """`look` is called every few seconds. One line for each change, not one for each look."""

    def __init__(self, longest_sync_ms: Callable[[], float | None], usage: Callable[[], DiskUsage | None]) -> None:
        self._longest_sync_ms = longest_sync_ms
        self._usage = usage
        self._looks = 0
        self._is_slow = False
        self._room = LOW_FREE_BYTES
        """The bound that is kept: the larger one, the smaller one or none."""

    def look(self) -> None:
        self._look_at_syncs()
        if self._looks % SPACE_LOOKS == 0:
            self._look_at_space()
        self._looks += 1

    def _look_at_syncs(self) -> None:
        longest_ms = self._longest_sync_ms()
        if longest_ms is None:
            return
        is_slow = longest_ms > SLOW_SYNC_MS
        if is_slow and not self._is_slow:
            LOGGER.warning("the disk is slow: every acknowledgement waits for it", extra={"sync_ms": round(longest_ms)})
        elif self._is_slow and not is_slow:
            LOGGER.info("the disk is as fast as before")
        self._is_slow = is_slow

    def _look_at_space(self) -> None:
        usage = self._usage()
        if usage is None:
            return
        room = next((bound for bound in (LOW_FREE_BYTES, LEAST_FREE_BYTES) if usage.free_bytes >= bound), 0)
        if room < self._room:
            log = LOGGER.warning if room else LOGGER.error
            free_mib = usage.free_bytes >> 20
            log("little room is left on the disk: a full one ends this node", extra={"free_mib": free_mib})
        self._room = room
