"""The in-memory store: the port's suite, and what only this store offers: a disk to hold back, and crashes."""

import gc
from collections.abc import Callable

import pytest
from hypothesis import settings

from epoxy.model.errors import Conflict, StoreFailed
from epoxy.store.memory import POSITION_ROW, SEQUENCE_ROW, MemoryStore
from epoxy.store.mvcc import UndoRecord
from tests.store.bench import MemoryBench
from tests.store.conformance import Bench, StoreConformance, put, rows
from tests.store.model import check_random_histories


class TestMemoryStore(StoreConformance):
    def open_bench(self) -> Bench:
        return MemoryBench()

    def test_random_histories_match_a_plain_dict(self) -> None:
        check_random_histories(self.open_bench, settings(max_examples=100, stateful_step_count=40))


def left(store: MemoryStore, keep: int = 0) -> dict[bytes, bytes]:
    """The rows that a crash leaves."""
    return {row: value for row, value in store.survivors(keep).items() if row != POSITION_ROW}


def held() -> tuple[MemoryStore, list[Callable[[], None]]]:
    """A store, and the flushes it has started."""
    flushes: list[Callable[[], None]] = []
    return MemoryStore(flushes.append), flushes


def test_without_a_flush_everything_is_durable_at_once() -> None:
    store, told = MemoryStore(), list[str]()
    put(store, b"a")
    store.when_durable(lambda: told.append("a"))
    assert told == ["a"]
    assert store.pending == 0
    assert rows(store.durable()) == [(b"a", b"v")]
    assert left(store) == {b"a": b"v"}


def test_a_flush_covers_what_was_committed_before_it_began() -> None:
    store, flushes = held()
    told: list[bytes] = []
    for key in (b"a", b"b", b"c"):
        put(store, key)
        store.when_durable(lambda key=key: told.append(key))  # type: ignore[misc]
    assert (len(flushes), store.pending, told) == (1, 3, [])
    flushes[0]()
    assert (len(flushes), store.pending, told) == (2, 2, [b"a"])
    put(store, b"d")
    flushes[1]()
    assert (len(flushes), store.pending, told) == (3, 1, [b"a", b"b", b"c"])
    assert [key for key, _ in rows(store.durable())] == [b"a", b"b", b"c"]
    flushes[2]()
    assert (len(flushes), store.pending) == (3, 0)


def test_commits_of_those_told_share_one_flush() -> None:
    store, flushes = held()
    put(store, b"a")
    for key in (b"b", b"c"):
        store.when_durable(lambda key=key: put(store, key))  # type: ignore[misc]
    flushes[0]()
    assert (len(flushes), store.pending) == (2, 2)
    flushes[1]()
    assert (len(flushes), store.pending) == (2, 0)


def test_a_commit_that_is_not_urgent_waits_for_another_or_for_the_delay() -> None:
    flushes, delays, told = list[Callable[[], None]](), list[Callable[[], None]](), list[bytes]()
    store = MemoryStore(flushes.append, delay=delays.append)
    for key in (b"a", b"b"):
        store.put({key: b"v"}, None, urgent=False)
        store.when_durable(lambda key=key: told.append(key), urgent=False)  # type: ignore[misc]
    assert (len(flushes), len(delays), store.pending) == (0, 1, 2)
    store.when_durable(lambda: told.append(b"waited for"))
    assert len(flushes) == 1
    store.put({b"c": b"v"}, None, urgent=False)
    flushes[0]()
    assert (len(flushes), told, store.pending) == (1, [b"a", b"b", b"waited for"], 1)
    delays[0]()
    assert (len(flushes), len(delays)) == (1, 2)
    delays[1]()
    flushes[1]()
    assert (store.pending, rows(store.durable())[-1]) == (0, (b"c", b"v"))


def test_a_disk_that_answers_at_once() -> None:
    store, told = MemoryStore(lambda done: done()), list[str]()
    put(store, b"a")
    store.when_durable(lambda: told.append("a"))
    put(store, b"b")
    store.when_durable(lambda: told.append("b"))
    assert (store.pending, told) == (0, ["a", "b"])


def test_reads_start_no_flush() -> None:
    store, flushes = held()
    assert store.transact(lambda tx: tx.get(b"a")) is None
    assert (len(flushes), store.pending) == (0, 0)


def test_a_flush_that_never_ends_acknowledges_nothing() -> None:
    store, _ = held()
    told: list[str] = []
    for _ in range(100):
        put(store, b"a")
        store.when_durable(lambda: told.append("a"))
    assert told == []
    assert rows(store.durable()) == []
    assert store.begin().get(b"a") == b"v"


def test_a_disk_that_refuses_the_flush() -> None:
    def full(_: Callable[[], None]) -> None:
        raise StoreFailed("no space left on the disk")

    store, told = MemoryStore(full), list[str]()
    with pytest.raises(StoreFailed):
        put(store, b"a")
    store.when_durable(lambda: told.append("a"))
    put(store, b"b")
    assert (told, store.pending, store.survivors()) == ([], 2, {})


def test_a_flush_that_ends_after_the_close_changes_nothing() -> None:
    store, flushes = held()
    put(store, b"a")
    store.close()
    flushes[0]()
    assert (store.pending, store.survivors()) == (1, {})


def test_a_flush_that_ends_twice_is_a_bug() -> None:
    store, flushes = held()
    put(store, b"a")
    put(store, b"b")
    flushes[0]()
    with pytest.raises(AssertionError, match="once"):
        flushes[0]()


def test_a_crash_leaves_a_prefix_of_the_commits() -> None:
    store, flushes = held()
    put(store, b"a", b"b")
    flushes[0]()
    store.transact(lambda tx: tx.clear(b"a"))
    put(store, b"c")
    put(store, b"a", value=b"new")
    assert [left(store, keep) for keep in range(4)] == [
        {b"a": b"v", b"b": b"v"},
        {b"b": b"v"},
        {b"b": b"v", b"c": b"v"},
        {b"a": b"new", b"b": b"v", b"c": b"v"},
    ]
    with pytest.raises(AssertionError):
        store.survivors(4)


def test_survivors_are_a_copy() -> None:
    store, _ = held()
    put(store, b"a")
    survivors = store.survivors(1)
    again = MemoryStore(contents=survivors)
    survivors.clear()
    put(again, b"b")
    assert [key for key, _ in rows(again.begin())] == [b"a", b"b"]
    assert store.survivors() == {}


@pytest.mark.parametrize("keep", [0, 1, 2, 3])
def test_stamps_rise_above_all_that_survived(keep: int) -> None:
    store, _ = held()
    for value in (b"1", b"2", b"3"):
        store.transact(lambda tx, value=value: tx.set_stamped(b"log/", b"", value))  # type: ignore[misc]
    again = MemoryStore(contents=store.survivors(keep))
    again.transact(lambda tx: tx.set_stamped(b"log/", b"", b"new"))
    survived = [b"1", b"2", b"3"][:keep]
    assert [value for _, value in rows(again.begin())] == [*survived, b"new"]
    assert int.from_bytes(again.survivors()[SEQUENCE_ROW], "big") == keep + 1


def test_a_conflict_draws_no_stamp() -> None:
    store = MemoryStore()
    loser = store.begin()
    loser.get(b"a")
    loser.set_stamped(b"log/", b"", b"lost")
    put(store, b"a")
    with pytest.raises(Conflict):
        loser.commit()
    assert SEQUENCE_ROW not in store.survivors()


def test_a_late_write_does_not_reach_what_was_committed() -> None:
    store, flushes = held()
    tx = store.begin()
    tx.set(b"a", b"v")
    tx.commit()
    tx.set(b"a", b"late")
    with pytest.raises(AssertionError, match="once"):
        tx.commit()
    flushes[0]()
    assert left(store) == {b"a": b"v"}


def undo_records() -> int:
    return sum(type(thing) is UndoRecord for thing in gc.get_objects())


def test_history_lives_as_long_as_somebody_reads_it() -> None:
    gc.collect()
    store, before = MemoryStore(), undo_records()
    for _ in range(10):
        put(store, b"a")
    assert undo_records() == before
    reader = store.begin()
    for _ in range(10):
        put(store, b"a", value=b"new")
    assert undo_records() == before + 11
    assert reader.get(b"a") == b"v"
    assert undo_records() == before + 1, "the reader has taken what it needs"
    del reader
    assert undo_records() == before
