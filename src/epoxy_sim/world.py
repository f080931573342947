"""Virtual time: one queue of events, one thread."""

import heapq
from collections.abc import Callable

Action = Callable[[], None]


class Event:
    """An action at a time to come, unless it is cancelled."""

    __slots__ = ("action",)

    def __init__(self, action: Action) -> None:
        self.action: Action | None = action

    def cancel(self) -> None:
        self.action = None


class World:
    """Time is in whole microseconds: integers, so that a sum is the same on every machine. Events at the same time
    happen in the order in which they were added."""

    def __init__(self, *, tracing: bool = False) -> None:
        self.now_us = 0
        self.happened = 0
        self.trace: list[str] | None = [] if tracing else None
        self._queue: list[tuple[int, int, Event]] = []
        self._added = 0

    def after(self, delay_us: int, action: Action) -> Event:
        event = Event(action)
        self._added += 1
        heapq.heappush(self._queue, (self.now_us + max(0, delay_us), self._added, event))
        return event

    def run_until(self, finished: Callable[[], bool], deadline_us: int) -> bool:
        """Run events until `finished`. False: the deadline has passed, or no event is left."""
        while not finished():
            if not self._queue or self._queue[0][0] > deadline_us:
                return False
            self.now_us, _, event = heapq.heappop(self._queue)
            if event.action is not None:
                self.happened += 1
                event.action()
        return True

    def begin_here(self) -> None:
        """This moment is time zero: what happened so far was preparation."""
        self._queue = [(at_us - self.now_us, added, event) for at_us, added, event in self._queue]
        self.now_us = 0

    def note(self, text: str) -> None:
        """A line of the trace. Callers of every message test `trace` first: formatting costs more than simulating."""
        if self.trace is not None:
            self.trace.append(f"{self.now_us / 1000:10.3f} ms  {text}")
