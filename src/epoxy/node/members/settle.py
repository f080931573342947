"""Finds out with a quorum what became of keys, several at a time, and learns it here."""

from collections.abc import Callable
from functools import partial

from epoxy.model.errors import StoreFailed
from epoxy.model.members import Unsettled
from epoxy.model.records import Proposal
from epoxy.model.writes import Consistency, ReadFailed, ReadOutcome
from epoxy.node.keys.driver import Driver

SETTLED_AT_ONCE = 32
"""Keys that are settled at the same time: they share round trips, and leave room for clients' writes."""


class Settling:
    """`done` is called once, with whether all keys were settled."""

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
        """Not durable yet; the status that says this replica is synced leaves only when it is. An exception here must
        not end the callback: the flow that waits for `done` would wait for ever."""
        try:
            self._driver.replica.learn(key, committed)
        except StoreFailed:
            raise
        except Exception as error:
            self._driver.failures.ended("learner", error, self._give_up)
