"""Longer errands of a member: a flow on its way, and many keys at a time."""

from collections.abc import Callable
from functools import partial
from typing import Generic, TypeVar

from epoxy.membership.effects import Effect, Flow
from epoxy.model.membership import Unsettled
from epoxy.model.records import Proposal
from epoxy.model.writes import Consistency, ReadFailed, ReadOutcome
from epoxy.node.driver import Driver

SETTLED_AT_ONCE = 32
"""Keys a replica finds out about at the same time: they share its round trips without standing in the way of writes."""

T = TypeVar("T")
Perform = Callable[[Effect, Callable[[object], None]], None]


class Errand(Generic[T]):
    """One flow on its way. Results that come while it is running wait, so it is never re-entered."""

    def __init__(self, perform: Perform, flow: Flow[T], finished: Callable[[T], None]) -> None:
        self._perform = perform
        self._flow = flow
        self._finished = finished
        self._results: list[object] = []
        self._running = False

    def feed(self, result: object) -> None:
        self._results.append(result)
        if self._running:
            return
        self._running = True
        try:
            while self._results:
                self._perform(self._flow.send(self._results.pop()), self.feed)
        except StopIteration as stop:
            self._finished(stop.value)
        finally:
            self._running = False


class Settling:
    """Finds out with a quorum what became of keys, several at a time, and learns it here."""

    def __init__(self, driver: Driver, keys: tuple[Unsettled, ...], done: Callable[[object], None]) -> None:
        self._driver = driver
        self._left = list(keys)
        self._under_way = 0
        self._succeeded = True
        self._done: Callable[[object], None] | None = done

    def go_on(self) -> None:
        while self._left and self._under_way < SETTLED_AT_ONCE:
            unsettled = self._left.pop()
            if self._driver.replica.version(unsettled.key) < unsettled.version:
                self._under_way += 1
                self._driver.read(unsettled.key, Consistency.LINEARIZABLE, partial(self._found, unsettled.key))
        if not self._left and not self._under_way and self._done is not None:
            done, self._done = self._done, None
            done(self._succeeded)

    def _found(self, key: bytes, outcome: ReadOutcome) -> None:
        self._under_way -= 1
        if isinstance(outcome, ReadFailed):
            self._succeeded = False
            self._left.clear()
        elif outcome.committed is not None:
            self._learn(key, outcome.committed)
        self.go_on()

    def _learn(self, key: bytes, committed: Proposal) -> None:
        """Whoever is told that this replica is synced is told after it is durable."""
        self._driver.replica.learn(key, committed)
