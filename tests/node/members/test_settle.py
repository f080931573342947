"""Keys that are settled with a quorum: how many at a time, and how it ends."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from epoxy.model.errors import StoreFailed
from epoxy.model.members import Unsettled
from epoxy.model.records import ChangelogEntry
from epoxy.model.writes import Consistency, ReadFailed, ReadOutcome, ReadResult, Source
from epoxy.node.members.settle import SETTLED_AT_ONCE, Settling
from epoxy.runtime.flow import FlowFailures
from tests.protocol.keys.harness import prop

VALUE = prop(b"v")


class FakeDriver:
    """Reads are answered when a test says so."""

    def __init__(self) -> None:
        self.replica: Any = self
        self.failures = FlowFailures(print)
        self.reading: dict[bytes, Callable[[ReadOutcome], None]] = {}
        self.versions: dict[bytes, int] = {}
        self.learned: list[bytes] = []
        self.error: Exception | None = None

    def version(self, key: bytes) -> int:
        return self.versions.get(key, 0)

    def read(self, key: bytes, consistency: Consistency, answered: Callable[[ReadOutcome], None]) -> None:
        assert consistency is Consistency.LINEARIZABLE
        self.reading[key] = answered

    def learn_owned(self, entries: Sequence[ChangelogEntry], _: object, done: Callable[[int], None]) -> None:
        if self.error is not None:
            raise self.error
        self.learned += [entry.key for entry in entries]
        done(1)

    def answer(self, key: bytes, outcome: ReadOutcome) -> None:
        self.reading.pop(key)(outcome)

    def find(self, key: bytes) -> None:
        self.answer(key, ReadResult(committed=VALUE, source=Source.QUORUM))


def settling(count: int) -> tuple[FakeDriver, list[object]]:
    driver, done = FakeDriver(), list[object]()
    keys = tuple(Unsettled(key=b"%d" % i, version=1) for i in range(count))
    Settling(driver, keys, done.append).go_on()  # type: ignore[arg-type]
    return driver, done


def test_keys_are_settled_a_few_at_a_time_and_learned() -> None:
    driver, done = settling(SETTLED_AT_ONCE + 1)
    assert len(driver.reading) == SETTLED_AT_ONCE
    driver.find(next(iter(driver.reading)))
    assert len(driver.reading) == SETTLED_AT_ONCE, "the next one begins"
    while driver.reading:
        assert done == []
        driver.find(next(iter(driver.reading)))
    assert done == [True]
    assert len(driver.learned) == SETTLED_AT_ONCE + 1


def test_a_key_of_which_nothing_was_chosen_is_settled_and_not_learned() -> None:
    driver, done = settling(1)
    driver.answer(b"0", ReadResult(committed=None, source=Source.QUORUM))
    assert (done, driver.learned) == ([True], [])


def test_a_key_that_has_the_version_meanwhile_is_not_asked_for() -> None:
    driver, done = FakeDriver(), list[object]()
    driver.versions[b"k"] = 1
    Settling(driver, (Unsettled(key=b"k", version=1),), done.append).go_on()  # type: ignore[arg-type]
    assert (done, driver.reading) == ([True], {})


def test_one_read_without_a_quorum_gives_up_those_that_have_not_begun() -> None:
    driver, done = settling(SETTLED_AT_ONCE + 5)
    first, *rest = driver.reading
    driver.answer(first, ReadFailed(reason="no quorum"))
    assert set(driver.reading) == set(rest)
    assert done == []
    for key in rest:
        driver.find(key)
    assert done == [False]


def test_a_bug_while_learning_ends_it_and_is_counted() -> None:
    driver, done = settling(2)
    driver.failures.report = lambda *_: None
    driver.error = RuntimeError("a bug")
    driver.find(b"0")
    driver.find(b"1")
    assert done == [False]
    assert driver.failures.count["learner"] == 2


def test_a_failed_store_passes_through() -> None:
    driver, done = settling(1)
    driver.error = StoreFailed("fsync failed")
    with pytest.raises(StoreFailed):
        driver.find(b"0")
    assert done == []
