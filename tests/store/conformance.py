"""What every driver of the `Store` port must do. A driver's test names a class after it and brings the bench:

    class TestMemoryStore(StoreConformance):
        def open_bench(self) -> Bench: ...

The suite judges only what the port promises. Where drivers may differ (how eagerly they report conflicts that only
look like one), it accepts both.
"""

from collections.abc import Callable, Iterator
from typing import Protocol

import pytest

from epoxy.model.errors import Conflict, InvalidRequest, StoreFailed, TooManyConflicts, TransactionTooLarge
from epoxy.ports import KeyValue, Snapshot, Store, StoreCut, Transaction
from epoxy.store.limits import MAX_ROW_KEY_BYTES, MAX_ROW_VALUE_BYTES, MAX_TRANSACTION_BYTES

LAST = b"\xff"
EVERYTHING = 10_000
"""More rows than any of these tests writes."""


class Bench(Protocol):
    """A store whose disk waits for us."""

    @property
    def store(self) -> Store: ...

    @property
    def is_shared(self) -> bool:
        """Whether other nodes write to the same disk. Then a sync gives the stamps, so that stamped rows are seen after
        it, and `when_durable` always waits for one."""

    def sync(self) -> None:
        """Let the disk finish: everything committed so far is durable afterwards."""

    def reopen(self) -> None:
        """Close in good order and open again."""

    def crash(self) -> None:
        """Lose everything that is not durable and open again."""


def rows(view: Snapshot, begin: bytes = b"", end: bytes = LAST) -> list[KeyValue]:
    return list(view.range(begin, end, limit=EVERYTHING))


def put(store: Store, *keys: bytes, value: bytes = b"v") -> None:
    """A transaction of its own that writes these keys."""
    tx = store.begin()
    for key in keys:
        tx.set(key, value)
    tx.commit()


def number(value: bytes | None) -> int:
    assert value is not None
    assert len(value) == 8
    return int.from_bytes(value, "little", signed=True)


def loses(tx: Transaction) -> bool:
    try:
        tx.commit()
    except Conflict:
        return True
    return False


def show_stamped(bench: Bench) -> None:
    """The rows stamped so far can be read from here on."""
    if bench.is_shared:
        bench.sync()


def sync_until(bench: Bench, condition: Callable[[], bool]) -> None:
    """A checkpoint takes several syncs."""
    for _ in range(8):
        bench.sync()
        if condition():
            return
    raise AssertionError("it never came")


def raised(error: Exception) -> None:
    raise error


class StoreConformance:
    def open_bench(self) -> Bench:
        raise NotImplementedError

    @pytest.fixture
    def bench(self) -> Iterator[Bench]:
        bench = self.open_bench()
        yield bench
        bench.store.close()

    # Cuts.

    def test_a_cut_has_all_that_was_committed_before_it_and_nothing_by_halves(self, bench: Bench) -> None:
        put(bench.store, b"a", b"b", value=b"1")
        cuts: list[StoreCut] = []
        bench.store.cut(cuts.append)
        assert not cuts, "it is not durable yet"
        sync_until(bench, lambda: bool(cuts))
        put(bench.store, b"a", b"b", b"c", value=b"2")
        bench.sync()
        found: list[list[KeyValue]] = []
        cuts[0].read(rows, found.append, raised)
        sync_until(bench, lambda: bool(found))
        assert found == [[(b"a", b"1"), (b"b", b"1")]]

    def test_cuts_of_one_moment_are_read_apart(self, bench: Bench) -> None:
        put(bench.store, b"a")
        cuts: list[StoreCut] = []
        bench.store.cut(cuts.append)
        bench.store.cut(cuts.append)
        sync_until(bench, lambda: len(cuts) == 2)
        cuts[0].close()
        found: list[list[KeyValue]] = []
        errors: list[Exception] = []
        cuts[0].read(rows, found.append, errors.append)
        cuts[1].read(rows, found.append, raised)
        sync_until(bench, lambda: bool(found))
        assert (found[0], len(errors)) == ([(b"a", b"v")], 1)

    # Order and ranges.

    def test_absent_keys_are_none(self, bench: Bench) -> None:
        put(bench.store, b"a")
        tx = bench.store.begin()
        assert (tx.get(b"a"), tx.get(b"b"), tx.get(b"a\x00")) == (b"v", None, None)

    def test_an_empty_value_is_not_an_absent_one(self, bench: Bench) -> None:
        put(bench.store, b"a", value=b"")
        assert rows(bench.store.begin()) == [(b"a", b"")]
        assert bench.store.begin().get(b"a") == b""

    def test_keys_sort_as_unsigned_bytes(self, bench: Bench) -> None:
        keys = [b"\x00", b"\x00\x00", b"\x00\xff", b"\x01", b"a", b"a\x00", b"aa", b"b", b"\x7f", b"\x80", b"\xfe\xff"]
        put(bench.store, *reversed(keys))
        assert [key for key, _ in rows(bench.store.begin())] == sorted(keys)

    def test_a_range_takes_its_begin_and_not_its_end(self, bench: Bench) -> None:
        put(bench.store, b"a", b"b", b"c", b"d")
        tx = bench.store.begin()
        assert [key for key, _ in rows(tx, b"b", b"d")] == [b"b", b"c"]
        assert [key for key, _ in rows(tx, b"aa", b"cc")] == [b"b", b"c"]
        assert rows(tx, b"c", b"c") == rows(tx, b"d", b"b") == []

    def test_limits_in_both_directions(self, bench: Bench) -> None:
        put(bench.store, b"a", b"b", b"c", b"d", b"e")
        tx = bench.store.begin()
        assert [key for key, _ in tx.range(b"b", b"e", limit=2)] == [b"b", b"c"]
        assert [key for key, _ in tx.range(b"b", b"e", limit=2, reverse=True)] == [b"d", b"c"]
        assert [key for key, _ in tx.range(b"b", b"e", limit=9, reverse=True)] == [b"d", b"c", b"b"]

    def test_cleared_keys_leave_the_order(self, bench: Bench) -> None:
        put(bench.store, b"a", b"b", b"c", b"d", b"e")
        tx = bench.store.begin()
        tx.clear(b"a")
        tx.clear(b"absent")
        tx.clear_range(b"c", b"e")
        tx.commit()
        assert [key for key, _ in rows(bench.store.begin())] == [b"b", b"e"]
        put(bench.store, b"c")
        assert [key for key, _ in rows(bench.store.begin())] == [b"b", b"c", b"e"]

    # A transaction sees its own writes.

    def test_own_writes_are_seen_and_nobody_else_sees_them(self, bench: Bench) -> None:
        put(bench.store, b"a", b"c")
        tx = bench.store.begin()
        tx.set(b"b", b"mine")
        tx.clear(b"c")
        assert (tx.get(b"b"), tx.get(b"c")) == (b"mine", None)
        assert rows(tx) == rows(tx.snapshot) == [(b"a", b"v"), (b"b", b"mine")]
        assert tx.snapshot.get(b"b") == b"mine"
        assert rows(bench.store.begin()) == [(b"a", b"v"), (b"c", b"v")]

    def test_the_last_write_of_a_key_counts(self, bench: Bench) -> None:
        tx = bench.store.begin()
        tx.set(b"a", b"1")
        tx.set(b"a", b"2")
        tx.set(b"b", b"1")
        tx.clear(b"b")
        tx.clear(b"c")
        tx.set(b"c", b"3")
        assert rows(tx) == [(b"a", b"2"), (b"c", b"3")]
        tx.commit()
        assert rows(bench.store.begin()) == [(b"a", b"2"), (b"c", b"3")]

    def test_a_cleared_range_hides_what_came_before_it_alone(self, bench: Bench) -> None:
        put(bench.store, b"a", b"b", b"c", b"d")
        tx = bench.store.begin()
        tx.set(b"bb", b"before")
        tx.add(b"bc", 1)
        tx.clear_range(b"b", b"d")
        tx.set(b"c", b"after")
        tx.add(b"cc", 7)
        expected = [(b"a", b"v"), (b"c", b"after"), (b"cc", (7).to_bytes(8, "little")), (b"d", b"v")]
        assert [tx.get(key) for key in (b"b", b"bb", b"bc")] == [None, None, None]
        assert rows(tx) == expected
        assert tx.range(b"", LAST, limit=2) == expected[:2]
        assert tx.range(b"", LAST, limit=3, reverse=True) == expected[:0:-1]
        tx.commit()
        assert rows(bench.store.begin()) == expected

    def test_limited_ranges_reach_past_own_clears(self, bench: Bench) -> None:
        put(bench.store, *(b"%02d" % index for index in range(40)))
        tx = bench.store.begin()
        tx.clear_range(b"01", b"30")
        tx.clear(b"30")
        assert [key for key, _ in tx.range(b"", LAST, limit=3)] == [b"00", b"31", b"32"]
        assert [key for key, _ in tx.range(b"", b"32", limit=3, reverse=True)] == [b"31", b"00"]

    # Atomic add.

    def test_add_starts_at_zero_counts_and_wraps(self, bench: Bench) -> None:
        for delta in (5, -7, (1 << 63) - 1, 3):
            bench.store.transact(lambda tx, delta=delta: tx.add(b"n", delta))  # type: ignore[misc]
        wrapped = (5 - 7 + (1 << 63) - 1 + 3) - (1 << 64)
        assert number(bench.store.begin().get(b"n")) == wrapped
        bench.store.transact(lambda tx: tx.add(b"n", -wrapped + (1 << 70)))
        assert bench.store.begin().get(b"n") == bytes(8)

    def test_add_layers_with_the_other_writes(self, bench: Bench) -> None:
        bench.store.transact(lambda tx: tx.add(b"n", 10))
        tx = bench.store.begin()
        tx.add(b"n", 1)
        assert number(tx.get(b"n")) == number(rows(tx)[0][1]) == 11
        tx.set(b"n", (100).to_bytes(8, "little"))
        tx.add(b"n", 1)
        assert number(tx.get(b"n")) == 101
        tx.clear(b"n")
        tx.add(b"n", 2)
        tx.add(b"n", 3)
        assert number(tx.get(b"n")) == 5
        tx.commit()
        assert number(bench.store.begin().get(b"n")) == 5

    def test_adds_do_not_conflict_and_none_is_lost(self, bench: Bench) -> None:
        bench.store.transact(lambda tx: tx.add(b"n", 1))
        first, second = bench.store.begin(), bench.store.begin()
        first.add(b"n", 10)
        second.add(b"n", 100)
        assert [loses(first), loses(second)] == [False, False]
        assert number(bench.store.begin().get(b"n")) == 111

    def test_reading_a_number_before_adding_to_it_conflicts(self, bench: Bench) -> None:
        first, second = bench.store.begin(), bench.store.begin()
        for tx in (first, second):
            tx.add(b"n", 1)
            assert number(tx.get(b"n")) == 1
        assert [loses(first), loses(second)] == [False, True]

    def test_what_is_no_number_is_not_added_to(self, bench: Bench) -> None:
        put(bench.store, b"a", value=b"not eight bytes")
        tx = bench.store.begin()
        tx.set(b"b", b"v")
        tx.add(b"a", 1)
        with pytest.raises(InvalidRequest):
            tx.commit()
        assert rows(bench.store.begin()) == [(b"a", b"not eight bytes")]

    # Stamps.

    def test_stamps_rise_in_the_order_of_commits(self, bench: Bench) -> None:
        """Three transactions begin and write in one order and commit in another. A reader follows with a cursor."""
        seen: list[bytes] = []

        def follow() -> list[bytes]:
            after = b"log/" + seen[-1] + b"\x00" if seen else b"log/"
            fresh = rows(bench.store.begin(), after, b"log0")
            assert all(len(key) == len(b"log/") + 10 + len(b"/x") and key.endswith(b"/x") for key, _ in fresh)
            seen.extend(key[4:] for key, _ in fresh)
            return [value for _, value in fresh]

        first, second, third = (bench.store.begin() for _ in range(3))
        for tx, name in ((first, b"1"), (second, b"2"), (third, b"3")):
            tx.set_stamped(b"log/", b"/x", name)
        for tx, name in ((third, b"3"), (first, b"1"), (second, b"2")):
            tx.commit()
            show_stamped(bench)
            assert follow() == [name]

    def test_stamps_rise_within_a_commit_too(self, bench: Bench) -> None:
        tx = bench.store.begin()
        for value in (b"1", b"2", b"3"):
            tx.set_stamped(b"log/", b"", value)
        assert rows(tx) == []
        tx.commit()
        put_later = bench.store.begin()
        put_later.set_stamped(b"log/", b"", b"4")
        put_later.commit()
        show_stamped(bench)
        assert [value for _, value in rows(bench.store.begin())] == [b"1", b"2", b"3", b"4"]

    def test_stamped_bytes_are_counted_once(self, bench: Bench) -> None:
        opened = bench.store.stamped_bytes()
        bench.store.transact(lambda tx: tx.set_stamped(b"log/", b"/x", b"12"))
        bench.store.put({b"a": b"1", b"b": None}, (b"log/", b"", b"123"))
        bench.store.put({b"a": b"2"}, None)
        loser = bench.store.begin()
        loser.get(b"a")
        loser.set_stamped(b"log/", b"", b"never")
        put(bench.store, b"a")
        assert loses(loser)
        show_stamped(bench)
        found = rows(bench.store.begin(), b"log/", b"log0")
        assert bench.store.stamped_bytes() - opened == sum(len(key) + len(value) for key, value in found) == 18 + 17

    def test_stamps_go_on_rising_after_a_restart(self, bench: Bench) -> None:
        stamps = []
        for restart in (bench.reopen, bench.crash, bench.reopen):
            bench.store.transact(lambda tx: tx.set_stamped(b"log/", b"", b"v"))
            show_stamped(bench)
            ((key, _),) = rows(bench.store.begin(), b"log/", b"log0")
            stamps.append(key)
            # Even if no row is left to tell how far they had come.
            bench.store.transact(lambda tx: tx.clear_range(b"log/", b"log0"))
            bench.sync()
            restart()
        assert stamps == sorted(set(stamps))

    # Isolation.

    def test_a_transaction_reads_the_state_it_began_with(self, bench: Bench) -> None:
        put(bench.store, b"a", b"b", b"c")
        early = bench.store.begin()
        put(bench.store, b"a", b"aa", value=b"new")
        bench.store.transact(lambda tx: tx.clear_range(b"b", b"d"))
        middle = bench.store.begin()
        put(bench.store, b"b", value=b"newer")
        before = [(b"a", b"v"), (b"b", b"v"), (b"c", b"v")]
        assert rows(early) == rows(early.snapshot) == before
        assert [early.get(key) for key in (b"a", b"aa", b"b", b"c")] == [b"v", None, b"v", b"v"]
        assert early.snapshot.get(b"a") == b"v"
        assert early.range(b"", LAST, limit=2, reverse=True) == before[:0:-1]
        assert rows(middle) == [(b"a", b"new"), (b"aa", b"new")]
        assert rows(bench.store.begin()) == [(b"a", b"new"), (b"aa", b"new"), (b"b", b"newer")]

    def test_old_state_and_own_writes_together(self, bench: Bench) -> None:
        put(bench.store, b"a", b"b", b"c")
        tx = bench.store.begin()
        bench.store.transact(lambda other: other.clear(b"a"))
        put(bench.store, b"b", b"bb", value=b"theirs")
        tx.set(b"b", b"mine")
        tx.clear(b"c")
        tx.add(b"d", 1)
        expected = [(b"a", b"v"), (b"b", b"mine"), (b"d", (1).to_bytes(8, "little"))]
        assert rows(tx) == expected
        assert tx.range(b"", LAST, limit=9, reverse=True) == expected[::-1]

    def test_a_dropped_transaction_leaves_no_trace(self, bench: Bench) -> None:
        tx = bench.store.begin()
        tx.set(b"a", b"v")
        del tx
        assert rows(bench.store.begin()) == []

    def test_a_body_that_raises_writes_nothing(self, bench: Bench) -> None:
        def body(tx: Transaction) -> None:
            tx.set(b"a", b"v")
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            bench.store.transact(body)
        assert rows(bench.store.begin()) == []

    # Conflicts.

    def test_a_key_read_and_changed_conflicts(self, bench: Bench) -> None:
        put(bench.store, b"a")
        for change in (b"new", None):
            tx = bench.store.begin()
            tx.get(b"a")
            tx.set(b"b", b"mine")
            bench.store.transact(lambda other, change=change: write(other, b"a", change))  # type: ignore[misc]
            assert loses(tx)
            assert bench.store.begin().get(b"b") is None

    def test_an_absent_key_read_and_written_conflicts(self, bench: Bench) -> None:
        tx = bench.store.begin()
        assert tx.get(b"a") is None
        put(bench.store, b"a")
        tx.set(b"a", b"mine")
        assert loses(tx)
        assert bench.store.begin().get(b"a") == b"v"

    def test_a_change_since_the_begin_conflicts_even_before_the_read(self, bench: Bench) -> None:
        tx = bench.store.begin()
        put(bench.store, b"a")
        assert tx.get(b"a") is None
        tx.set(b"b", b"mine")
        assert loses(tx)

    def test_a_phantom_conflicts(self, bench: Bench) -> None:
        put(bench.store, b"a", b"c")
        tx = bench.store.begin()
        assert len(rows(tx, b"a", b"d")) == 2
        put(bench.store, b"b")
        tx.set(b"z", b"mine")
        assert loses(tx)

    def test_changes_within_a_range_read_conflict(self, bench: Bench) -> None:
        changes: list[Callable[[Transaction], None]] = [
            lambda tx: tx.set(b"b", b"new"),
            lambda tx: tx.clear(b"b"),
            lambda tx: tx.clear_range(b"aa", b"bb"),
            lambda tx: tx.add(b"bn", 1),
            lambda tx: tx.set_stamped(b"b", b"", b"v"),
        ]
        for change in changes:
            put(bench.store, b"a", b"b", b"c")
            for reverse in (False, True):
                tx = bench.store.begin()
                tx.range(b"a", b"c", limit=9, reverse=reverse)
                tx.set(b"z", b"mine")
                put(bench.store, b"a", b"b", b"c")
                bench.store.transact(change)
                show_stamped(bench)
                assert loses(tx)

    def test_an_empty_range_read_conflicts_with_what_fills_it(self, bench: Bench) -> None:
        tx = bench.store.begin()
        assert rows(tx, b"a", b"c") == []
        tx.set(b"z", b"mine")
        put(bench.store, b"b")
        assert loses(tx)

    def test_rows_beyond_a_limit_were_not_read(self, bench: Bench) -> None:
        put(bench.store, b"b", b"d", b"f", b"h")
        for reverse, beyond, within in ((False, b"e", b"c"), (True, b"e", b"g")):
            for key, conflict in ((beyond, False), (within, True)):
                tx = bench.store.begin()
                tx.range(b"a", b"z", limit=2, reverse=reverse)
                tx.set(b"zz", b"mine")
                put(bench.store, key)
                assert loses(tx) is conflict
                bench.store.transact(lambda other, key=key: other.clear(key))  # type: ignore[misc]

    def test_the_last_row_of_a_limited_range_was_read(self, bench: Bench) -> None:
        put(bench.store, b"b", b"d", b"f")
        for reverse in (False, True):
            tx = bench.store.begin()
            tx.range(b"a", b"z", limit=2, reverse=reverse)
            tx.set(b"zz", b"mine")
            put(bench.store, b"d", value=b"new")
            assert loses(tx)

    def test_blind_writes_do_not_conflict(self, bench: Bench) -> None:
        first, second = bench.store.begin(), bench.store.begin()
        first.set(b"a", b"1")
        second.set(b"a", b"2")
        second.clear_range(b"b", b"c")
        assert second.get(b"a") == b"2", "known without looking at the store"
        assert [loses(first), loses(second)] == [False, False]
        assert rows(bench.store.begin()) == [(b"a", b"2")]

    def test_other_keys_do_not_conflict(self, bench: Bench) -> None:
        tx = bench.store.begin()
        tx.get(b"b")
        tx.range(b"d", b"f", limit=9)
        tx.set(b"b", b"mine")
        put(bench.store, b"a", b"bb", b"c", b"f")
        assert not loses(tx)

    def test_earlier_commits_do_not_conflict(self, bench: Bench) -> None:
        put(bench.store, b"a")
        tx = bench.store.begin()
        tx.get(b"a")
        tx.set(b"a", b"mine")
        assert not loses(tx)

    def test_snapshot_reads_do_not_conflict(self, bench: Bench) -> None:
        put(bench.store, b"a")
        tx = bench.store.begin()
        tx.snapshot.get(b"a")
        rows(tx.snapshot)
        tx.set(b"b", b"mine")
        put(bench.store, b"a", b"aa", value=b"new")
        assert not loses(tx)

    def test_explicit_read_conflicts_do(self, bench: Bench) -> None:
        for key, conflict in ((b"a", True), (b"b", True), (b"c", False)):
            tx = bench.store.begin()
            tx.snapshot.get(key)
            tx.add_read_conflict(b"a", b"c")
            tx.set(b"z", b"mine")
            put(bench.store, key)
            assert loses(tx) is conflict

    def test_write_skew_is_prevented(self, bench: Bench) -> None:
        """Two on call; each leaves if the other stays."""
        put(bench.store, b"ann", b"bob")
        first, second = bench.store.begin(), bench.store.begin()
        for tx, name in ((first, b"ann"), (second, b"bob")):
            assert len(rows(tx)) == 2
            tx.clear(name)
        assert [loses(first), loses(second)] == [False, True]
        assert rows(bench.store.begin()) == [(b"bob", b"v")]

    # Retries.

    def test_a_body_runs_again_until_it_commits(self, bench: Bench) -> None:
        seen: list[bytes | None] = []

        def body(tx: Transaction) -> int:
            seen.append(tx.get(b"a"))
            tx.set(b"b", b"%d" % len(seen))
            if len(seen) < 3:
                put(bench.store, b"a", value=b"%d" % len(seen))
            return len(seen)

        assert bench.store.transact(body) == 3
        assert seen == [None, b"1", b"2"]
        assert rows(bench.store.begin()) == [(b"a", b"2"), (b"b", b"3")]

    def test_a_body_that_never_wins_is_given_up(self, bench: Bench) -> None:
        attempts = 0

        def body(tx: Transaction) -> None:
            nonlocal attempts
            attempts += 1
            assert attempts < 1000, "retries have a limit"
            tx.get(b"a")
            tx.set(b"b", b"mine")
            put(bench.store, b"a", value=b"%d" % attempts)

        with pytest.raises(TooManyConflicts):
            bench.store.transact(body)
        assert attempts > 1
        assert bench.store.begin().get(b"b") is None

    def test_a_body_may_look_through_another_transaction(self, bench: Bench) -> None:
        put(bench.store, b"a")

        def body(tx: Transaction) -> bytes | None:
            tx.set(b"a", b"mine")
            return bench.store.begin().get(b"a")

        assert bench.store.transact(body) == b"v"
        assert bench.store.begin().get(b"a") == b"mine"

    def test_a_body_sees_one_state_even_if_it_commits_something_else(self, bench: Bench) -> None:
        """What it saw in the attempt that counts is one moment; its own rows come after those it let through."""
        put(bench.store, b"a", b"b")
        seen: list[tuple[bytes | None, bytes | None]] = []

        def body(tx: Transaction) -> None:
            first = tx.snapshot.get(b"a")
            put(bench.store, b"a", b"b", value=b"%d" % len(seen))
            seen.append((first, tx.snapshot.get(b"b")))
            tx.set(b"c", b"mine")

        bench.store.transact(body)
        assert seen[-1][0] == seen[-1][1]
        assert rows(bench.store.begin()) == [
            (b"a", b"%d" % (len(seen) - 1)),
            (b"b", b"%d" % (len(seen) - 1)),
            (b"c", b"mine"),
        ]

    def test_a_body_that_raises_leaves_what_others_committed_alone(self, bench: Bench) -> None:
        def body(tx: Transaction) -> None:
            tx.set(b"a", b"mine")
            tx.clear(b"b")
            tx.set_stamped(b"log/", b"", b"mine")
            put(bench.store, b"b")
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            bench.store.transact(body)
        assert rows(bench.store.begin()) == [(b"b", b"v")]

    def test_a_body_reads_through_all_its_writes(self, bench: Bench) -> None:
        put(bench.store, b"a", b"b", b"c", b"d")

        def body(tx: Transaction) -> list[KeyValue]:
            tx.add_read_conflict(b"a", b"z")
            tx.clear(b"a")
            tx.clear_range(b"c", b"e")
            tx.set(b"d", b"mine")
            tx.add(b"n", 3)
            tx.set_stamped(b"log/", b"", b"mine")
            assert [tx.get(key) for key in (b"a", b"c", b"d")] == [None, None, b"mine"]
            assert number(tx.get(b"n")) == 3
            assert rows(tx, b"log/", b"log0") == rows(tx.snapshot, b"log/", b"log0") == []
            return rows(tx)

        inside = bench.store.transact(body)
        show_stamped(bench)
        assert inside == [(b"b", b"v"), (b"d", b"mine"), (b"n", (3).to_bytes(8, "little"))]
        assert [row for row in rows(bench.store.begin()) if not row[0].startswith(b"log/")] == inside
        assert [value for _, value in rows(bench.store.begin(), b"log/", b"log0")] == [b"mine"]

    def test_a_view_from_before_a_body_does_not_see_it(self, bench: Bench) -> None:
        put(bench.store, b"a", b"b")
        bench.sync()
        open_before, durable_before = bench.store.begin(), bench.store.durable()

        def body(tx: Transaction) -> None:
            tx.set(b"a", b"new")
            tx.clear(b"b")
            tx.set(b"c", b"new")

        bench.store.transact(body)
        for _ in range(2):
            for view in (open_before, durable_before):
                assert rows(view) == [(b"a", b"v"), (b"b", b"v")]
                assert [view.get(key) for key in (b"a", b"b", b"c")] == [b"v", b"v", None]
            bench.sync()
        assert rows(bench.store.durable()) == [(b"a", b"new"), (b"c", b"new")]

    # Limits.

    def test_what_is_too_large_is_refused_and_writes_nothing(self, bench: Bench) -> None:
        largest = bytes(MAX_ROW_VALUE_BYTES)

        def many(tx: Transaction) -> None:
            for index in range(MAX_TRANSACTION_BYTES // len(largest) + 1):
                tx.set(b"%d" % index, largest)

        too_large: list[Callable[[Transaction], None]] = [
            lambda tx: tx.set(bytes(MAX_ROW_KEY_BYTES + 1), b""),
            lambda tx: tx.set(b"b", largest + b"x"),
            many,
            lambda tx: tx.set_stamped(bytes(MAX_ROW_KEY_BYTES - 9), b"", b""),
        ]
        for body in too_large:
            with pytest.raises(TransactionTooLarge):
                bench.store.transact(body)
        assert rows(bench.store.begin()) == []

    def test_the_largest_row_fits(self, bench: Bench) -> None:
        key, value = b"k" * MAX_ROW_KEY_BYTES, b"v" * MAX_ROW_VALUE_BYTES
        put(bench.store, key, value=value)
        assert bench.store.begin().get(key) == value

    def test_the_keys_of_the_store_are_not_ours(self, bench: Bench) -> None:
        bodies: list[Callable[[Transaction], None]] = [
            lambda tx: tx.set(b"", b"v"),
            lambda tx: tx.set(b"\xff", b"v"),
            lambda tx: tx.clear(b"\xffx"),
            lambda tx: tx.clear(b""),
            lambda tx: tx.set_stamped(b"\xff", b"", b"v"),
            lambda tx: tx.add(b"\xff/sequence", 1),
            lambda tx: tx.clear_range(b"a", b"\xff\x00"),
        ]
        for body in bodies:
            with pytest.raises(InvalidRequest):
                bench.store.transact(body)

    # Durability.

    def test_durability_is_announced_in_order_and_not_before(self, bench: Bench) -> None:
        told: list[str] = []
        bench.store.when_durable(lambda: told.append("nothing to wait for"))
        assert bool(told) is not bench.is_shared
        if bench.is_shared:
            bench.sync()
        assert told == ["nothing to wait for"]
        put(bench.store, b"a")
        bench.store.when_durable(lambda: told.append("a"))
        put(bench.store, b"b")
        bench.store.when_durable(lambda: told.append("b"))
        bench.store.when_durable(lambda: told.append("still b"))
        assert told == ["nothing to wait for"]
        bench.sync()
        assert told == ["nothing to wait for", "a", "b", "still b"]

    def test_a_reader_of_unsynced_writes_waits_for_them(self, bench: Bench) -> None:
        told: list[bytes | None] = []
        put(bench.store, b"a")
        value = bench.store.transact(lambda tx: tx.get(b"a"))
        bench.store.when_durable(lambda: told.append(value))
        assert told == []
        bench.sync()
        assert told == [b"v"]

    def test_those_told_may_commit_and_wait_again(self, bench: Bench) -> None:
        told: list[str] = []

        def again() -> None:
            told.append("first")
            put(bench.store, b"b")
            bench.store.when_durable(lambda: told.append("second"))

        put(bench.store, b"a")
        bench.store.when_durable(again)
        bench.store.when_durable(lambda: told.append("beside"))
        bench.sync()
        assert told == ["first", "beside", "second"]

    def test_durable_hides_what_is_not_synced(self, bench: Bench) -> None:
        put(bench.store, b"a")
        bench.sync()
        put(bench.store, b"b")
        put(bench.store, b"a", value=b"new")
        assert bench.store.durable().get(b"a") == b"v"
        assert rows(bench.store.durable()) == [(b"a", b"v")]
        held = bench.store.durable()
        bench.sync()
        assert rows(held) == [(b"a", b"v")]
        assert rows(bench.store.durable()) == [(b"a", b"new"), (b"b", b"v")]

    def test_a_crash_loses_what_nobody_was_told_of_and_no_more(self, bench: Bench) -> None:
        told: list[str] = []
        put(bench.store, b"a")
        bench.sync()
        put(bench.store, b"b")
        bench.store.when_durable(lambda: told.append("b"))
        bench.crash()
        assert told == []
        assert rows(bench.store.begin()) == rows(bench.store.durable()) == [(b"a", b"v")]

    def test_a_reopened_store_holds_everything(self, bench: Bench) -> None:
        put(bench.store, b"a", b"b")
        bench.store.transact(lambda tx: tx.clear(b"a"))
        bench.reopen()
        assert rows(bench.store.begin()) == rows(bench.store.durable()) == [(b"b", b"v")]

    def test_the_position_rises_with_every_sync_and_stays(self, bench: Bench) -> None:
        store, seen = bench.store, [bench.store.position()]
        for key in (b"a", b"b"):
            put(store, key)
            assert store.position() == seen[-1], "not durable yet"
            bench.sync()
            seen.append(store.position())
        assert seen == sorted(set(seen))
        put(store, b"lost")
        bench.crash()
        assert bench.store.position() == seen[-1]

    def test_what_is_remembered_is_durable_and_does_not_raise_the_position(self, bench: Bench) -> None:
        put(bench.store, b"a")
        bench.sync()
        position = bench.store.position()
        bench.store.remember({b"noted": b"1"})
        bench.sync()
        assert bench.store.position() == position
        bench.crash()
        assert bench.store.durable().get(b"noted") == b"1"
        assert bench.store.position() >= position
        put(bench.store, b"b")
        bench.store.remember({b"noted": b"2"})
        bench.sync()
        assert bench.store.position() > position, "together with something else it rises"

    def test_a_closed_store_refuses_and_acknowledges_nothing(self, bench: Bench) -> None:
        told: list[str] = []
        open_before = bench.store.begin()
        open_before.set(b"b", b"v")
        put(bench.store, b"a")
        bench.store.when_durable(lambda: told.append("a"))
        bench.store.close()
        bench.store.when_durable(lambda: told.append("late"))
        for use in (bench.store.begin, bench.store.durable, open_before.commit):
            with pytest.raises(StoreFailed):
                use()
        with pytest.raises(StoreFailed):
            bench.store.transact(lambda tx: tx.get(b"a"))
        bench.sync()
        assert told == []


def write(tx: Transaction, key: bytes, value: bytes | None) -> None:
    if value is None:
        tx.clear(key)
    else:
        tx.set(key, value)
