"""Alarms of actors, by unix time. Each is at least once: its actor is told when it is due, when a generation of it
starts, and again after a while, until a save sets another or none.

One timer looks at an index by time. Wall clocks are set back and forth, so it never waits long: an alarm is late by at
most `LOOK_MS` after the clock was set, and one that the clock was set back before waits for its time again.
"""

from collections.abc import Callable

from epoxy.actors import listing
from epoxy.ports import Clock, Store, Timer

LOOK_MS = 1_000
"""The longest that the timer waits."""

AGAIN_MS = 30_000
"""After which an actor that runs is told again: its code may have failed, or the message was lost."""

AT_ONCE = 64
"""Alarms in one turn of the event loop."""


class Alarms:
    """`ring` wakes or tells one actor whose alarm is to be looked at, and takes it off that place of the index."""

    def __init__(
        self, store: Store, clock: Clock, wall_ms: Callable[[], int], ring: Callable[[bytes, int, int], None]
    ) -> None:
        self._store = store
        self._clock = clock
        self._wall_ms = wall_ms
        self._ring = ring
        self._timer: Timer | None = None
        self._wait_until_ms = 0.0

    def start(self) -> None:
        self._look()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def expect(self, due_ms: int) -> None:
        """An alarm was set: look at it in time."""
        self._wait(max(0, due_ms - self._wall_ms()))

    def _look(self) -> None:
        self._timer = None
        now_ms = self._wall_ms()
        due = listing.due_alarms(self._store.newest(), now_ms, AT_ONCE)
        for due_ms, actor_id in due:
            self._ring(actor_id, due_ms, now_ms)
        following = listing.next_alarm(self._store.newest())
        self._wait(LOOK_MS if following is None else max(0, following - now_ms))

    def _wait(self, wait_ms: float) -> None:
        """Unless the timer that runs is due sooner."""
        wait_ms = min(wait_ms, LOOK_MS)
        until_ms = self._clock.now_ms() + wait_ms
        if self._timer is not None:
            if self._wait_until_ms <= until_ms:
                return
            self._timer.cancel()
        self._wait_until_ms = until_ms
        self._timer = self._clock.call_later(wait_ms, self._look)
