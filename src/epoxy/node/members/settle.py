"""Finds out with a quorum what became of keys, several at a time, and learns it here."""

from collections.abc import Callable
from functools import partial

from epoxy.model.errors import StoreFailed
from epoxy.model.members import Unsettled
from epoxy.model.records import ChangelogEntry
from epoxy.model.writes import Consistency, ReadFailed, ReadOutcome, ReadResult
from epoxy.node.keys.driver import Driver
from epoxy.ports import Transaction

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
        if isinstance(outcome, ReadResult) and outcome.committed is not None:
            self._learn(ChangelogEntry(key=key, committed=outcome.committed))
        else:
            if isinstance(outcome, ReadFailed):
                self._give_up()
            self._ended()

    def _give_up(self) -> None:
        self._succeeded = False
        self._left.clear()

    def _learn(self, entry: ChangelogEntry) -> None:
        """An exception here must not end the callback: the flow that waits for `done` would wait for ever."""
        try:
            self._driver.replica.learn_owned((entry,), nothing_beside, lambda _: self._ended())
        except StoreFailed:
            raise
        except Exception as error:
            self._driver.failures.ended("learner", error, self._give_up)
            self._ended()

    def _ended(self) -> None:
        self._under_way -= 1
        self.go_on()


def nothing_beside(_tx: Transaction) -> None:
    """What is written in the transaction that learns."""
