"""Functions as transactions: run again when they have to be."""

import pytest

from epoxy.model.errors import StoreFailed, TooManyConflicts
from epoxy.ports import Transaction
from epoxy.store.limits import MAX_ATTEMPTS
from epoxy.store.memory import MemoryStore


def test_a_function_runs_once_and_an_exception_commits_nothing() -> None:
    store, runs = MemoryStore(), list[int]()

    def body(tx: Transaction) -> str:
        runs.append(1)
        tx.set(b"a", b"1")
        return "done"

    assert store.transact(body) == "done"
    assert len(runs) == store.commits == 1

    def broken(tx: Transaction) -> None:
        tx.set(b"a", b"2")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        store.transact(broken)
    assert store.newest().get(b"a") == b"1"


def test_a_function_that_commits_something_else_is_run_again() -> None:
    store, seen = MemoryStore(), list[bytes | None]()

    def body(tx: Transaction) -> None:
        seen.append(tx.get(b"a"))
        if len(seen) == 1:
            store.transact(lambda other: other.set(b"a", b"1"))
        tx.set(b"b", tx.get(b"a") or b"old")

    store.transact(body)
    assert seen == [None, b"1"]
    assert store.newest().get(b"b") == b"1"


def test_a_function_that_always_conflicts_is_given_up() -> None:
    store, runs = MemoryStore(), list[int]()

    def body(tx: Transaction) -> None:
        runs.append(1)
        tx.get(b"a")
        tx.set(b"b", b"x")
        store.transact(lambda other: other.set(b"a", b"%d" % len(runs)))

    with pytest.raises(TooManyConflicts):
        store.transact(body)
    assert len(runs) == 1 + MAX_ATTEMPTS


def test_callbacks_wait_for_the_commits_before_them() -> None:
    flushes, told = list[object](), list[str]()
    store = MemoryStore(flushes.append)
    store.when_durable(lambda: told.append("at once"))
    store.put({b"a": b"1"}, None)
    store.when_durable(lambda: told.append("later"))
    assert told == ["at once"]
    flushes.pop()()  # type: ignore[operator]
    assert told == ["at once", "later"]
    store.close()
    store.when_durable(lambda: told.append("never"))
    assert told == ["at once", "later"]
    with pytest.raises(StoreFailed):
        store.begin()
