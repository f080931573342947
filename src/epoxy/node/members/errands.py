"""Longer errands of a member: a flow on its way, and many keys at a time."""

from collections.abc import Callable
from functools import partial
from typing import Generic, TypeVar

from epoxy.model.errors import StoreFailed
from epoxy.model.members import Unsettled
from epoxy.model.records import Proposal
from epoxy.model.writes import Consistency, ReadFailed, ReadOutcome
from epoxy.node.keys.driver import Driver
from epoxy.protocol.members.effects import Effect, Flow
from epoxy.runtime.flow_failures import FlowFailures

SETTLED_AT_ONCE = 32
"""Keys a replica finds out about at the same time: they share its round trips without standing in the way of writes."""

T = TypeVar("T")
Perform = Callable[[Effect, Callable[[object], None]], None]


class Errand(Generic[T]):
    """One flow on its way. Results that come while it is running wait, so it is never re-entered.

    `finished` is called once, also if the flow raises; `broken` is its result then."""

    def __init__(
        self,
        failures: FlowFailures,
        name: str,
        perform: Perform,
        flow: Flow[T],
        broken: T,
        finished: Callable[[T], None],
    ) -> None:
        self._failures = failures
        self._name = name
        self._perform = perform
        self._flow = flow
        self._broken = broken
        self._finished = finished
        self._results: list[object] = []
        self._running = False
        self._over = False

    def start(self) -> None:
        self._feed(None)

    def _feed(self, result: object) -> None:
        """What was asked for before a flow raised may still come back: to one that is over it means nothing."""
        self._results.append(result)
        if self._running or self._over:
            return
        self._running = True
        try:
            while self._results:
                self._perform(self._flow.send(self._results.pop()), self._feed)
        except StopIteration as stop:
            self._finish(stop.value)
        except StoreFailed:
            raise
        except Exception as error:
            self._failures.ended(self._name, error, partial(self._finish, self._broken))
        finally:
            self._running = False

    def _finish(self, result: T) -> None:
        self._over = True
        self._finished(result)


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
            self._give_up()
        elif outcome.committed is not None:
            self._learn(key, outcome.committed)
        self.go_on()

    def _give_up(self) -> None:
        self._succeeded = False
        self._left.clear()

    def _learn(self, key: bytes, committed: Proposal) -> None:
        """Whoever is told that this replica is synced is told after it is durable. What raises here is no part of the
        flow that waits for the result, which would wait for ever."""
        try:
            self._driver.replica.learn(key, committed)
        except StoreFailed:
            raise
        except Exception as error:
            self._driver.failures.ended("learner", error, self._give_up)
