"""Random histories of interleaved transactions, against a model too simple to be wrong: a dict, copied at every begin.

A commit that succeeds must be as if the whole transaction had run at that moment: every remembered read, made again on
the committed state, gives what it gave. A commit that fails must have read something that was written since it began.
Between the two lies what drivers may decide for themselves.
"""

from collections.abc import Callable, Mapping

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from msgspec import Struct

from epoxy.model.errors import Conflict
from epoxy.ports import KeyValue, Snapshot, Transaction
from tests.store.conformance import Bench, rows

Contents = Mapping[bytes, bytes]

STAMPED = b"~"
MAX_OPEN = 2

# Few keys and wide ranges, so that transactions meet.
KEYS = st.sampled_from([b"a", b"b", b"b\x00"])
BEGINS = st.sampled_from([b"", b"a", b"a\x00", b"b", STAMPED])
ENDS = st.sampled_from([b"b", b"b\x00", b"bb", STAMPED, b"\xff"])
REMEMBER = st.sampled_from([True, True, False])
NUMBERS = st.integers(-3, 3) | st.sampled_from([(1 << 63) - 1, -(1 << 63)])
VALUES = NUMBERS.map(lambda number: number.to_bytes(8, "little", signed=True))
WHICH = st.integers(0, MAX_OPEN - 1)


def take(contents: Contents, begin: bytes, end: bytes, limit: int, reverse: bool) -> list[KeyValue]:
    return sorted((row for row in contents.items() if begin <= row[0] < end), reverse=reverse)[:limit]


def add(contents: dict[bytes, bytes], key: bytes, delta: int) -> None:
    total = int.from_bytes(contents.get(key, b""), "little") + delta
    contents[key] = (total % (1 << 64)).to_bytes(8, "little")


def clear_range(contents: dict[bytes, bytes], begin: bytes, end: bytes) -> None:
    for key in [key for key in contents if begin <= key < end]:
        del contents[key]


class Seen(Struct):
    """A read that must still hold at the commit: where it looked, on top of how many own writes, and what it found."""

    begin: bytes
    end: bytes
    read: Callable[[Contents], object]
    after: int
    answer: object


class Write(Struct):
    """What it touches, what it asks of a transaction, and what that does to a dict."""

    begin: bytes
    end: bytes
    ask: Callable[[Transaction], None]
    apply: Callable[[dict[bytes, bytes]], None]


def setting(key: bytes, value: bytes) -> Write:
    return Write(key, key + b"\x00", lambda tx: tx.set(key, value), lambda contents: contents.update({key: value}))


def clearing(key: bytes) -> Write:
    end = key + b"\x00"
    return Write(key, end, lambda tx: tx.clear(key), lambda contents: clear_range(contents, key, end))


def clearing_range(begin: bytes, end: bytes) -> Write:
    return Write(begin, end, lambda tx: tx.clear_range(begin, end), lambda contents: clear_range(contents, begin, end))


def adding(key: bytes, delta: int) -> Write:
    return Write(key, key + b"\x00", lambda tx: tx.add(key, delta), lambda contents: add(contents, key, delta))


WRITES = (
    st.builds(setting, KEYS, VALUES)
    | st.builds(clearing, KEYS)
    | st.builds(clearing_range, BEGINS, ENDS)
    | st.builds(adding, KEYS, NUMBERS)
)


class Open:
    """A transaction, and what the model knows of it."""

    def __init__(self, tx: Transaction, contents: Contents) -> None:
        self.tx = tx
        self.began_with = contents
        self.writes: list[Write] = []
        self.stamped: list[bytes] = []
        self.seen: list[Seen] = []
        self.others_wrote: list[Write] = []

    def write(self, write: Write) -> None:
        write.ask(self.tx)
        if write.begin < write.end:
            self.writes.append(write)

    def on(self, contents: Contents, after: int | None = None) -> dict[bytes, bytes]:
        """These contents with the transaction's own writes, or the first so many of them."""
        result = dict(contents)
        for write in self.writes[:after]:
            write.apply(result)
        return result

    def look(
        self, answer: object, read: Callable[[Contents], object], begin: bytes, end: bytes, remember: bool
    ) -> None:
        assert answer == read(self.on(self.began_with))
        if remember:
            self.seen.append(Seen(begin, end, read, len(self.writes), answer))

    def must_lose(self, contents: Contents) -> bool:
        return any(seen.read(self.on(contents, seen.after)) != seen.answer for seen in self.seen)

    def may_lose(self) -> bool:
        return any(
            seen.begin < write.end and write.begin < seen.end for seen in self.seen for write in self.others_wrote
        )


class StoreMachine(RuleBasedStateMachine):
    def __init__(self, bench: Bench) -> None:
        super().__init__()
        self.bench = bench
        self.committed: Contents = {}
        self.durable: Contents = {}
        self.unsynced = False
        self.open = [self.fresh() for _ in range(MAX_OPEN)]
        self.asked = 0
        self.waiting: list[int] = []
        self.told: list[int] = []
        self.heard: list[int] = []

    def fresh(self) -> Open:
        return Open(self.bench.store.begin(), self.committed)

    @rule(which=WHICH, key=KEYS, remember=REMEMBER)
    def get(self, which: int, key: bytes, remember: bool) -> None:
        it = self.open[which]
        view: Snapshot = it.tx if remember else it.tx.snapshot
        it.look(view.get(key), lambda contents: contents.get(key), key, key + b"\x00", remember)

    @rule(which=WHICH, begin=BEGINS, end=ENDS, limit=st.integers(1, 4), reverse=st.booleans(), remember=REMEMBER)
    def range(self, which: int, begin: bytes, end: bytes, limit: int, reverse: bool, remember: bool) -> None:
        it = self.open[which]
        view: Snapshot = it.tx if remember else it.tx.snapshot
        answer = list(view.range(begin, end, limit=limit, reverse=reverse))
        it.look(answer, lambda contents: take(contents, begin, end, limit, reverse), begin, end, remember)

    @rule(which=WHICH, write=WRITES)
    def write(self, which: int, write: Write) -> None:
        self.open[which].write(write)

    @rule(which=WHICH, value=VALUES)
    def set_stamped(self, which: int, value: bytes) -> None:
        it = self.open[which]
        it.tx.set_stamped(STAMPED, b"", value)
        it.stamped.append(value)

    @rule(which=WHICH)
    def commit(self, which: int) -> None:
        """The place of a finished transaction is taken by a new one."""
        it = self.open[which]
        try:
            it.tx.commit()
        except Conflict:
            assert it.may_lose(), "a conflict with nothing that was read"
        else:
            self.settle(it)
        self.open[which] = self.fresh()

    @rule(write=WRITES)
    def commit_at_once(self, write: Write) -> None:
        it = self.fresh()
        it.write(write)
        it.tx.commit()
        self.settle(it)

    def settle(self, it: Open) -> None:
        """Take a commit over into the model, and learn from the store which stamps it gave."""
        if not (it.writes or it.stamped):
            return
        assert not it.must_lose(self.committed), "what was read had changed"
        if it.stamped and self.bench.is_shared:
            self.bench.sync()
        earlier = {key for key in self.committed if key.startswith(STAMPED)}
        stamped = [row for row in rows(self.bench.store.begin(), STAMPED) if row[0] not in earlier]
        assert [value for _, value in stamped] == it.stamped
        assert all(key > max(earlier, default=b"") for key, _ in stamped), "a stamp below an earlier one"
        self.committed = {**it.on(self.committed), **dict(stamped)}
        self.unsynced = True
        if it.stamped and self.bench.is_shared:
            self.synced()
        for other in self.open:
            other.others_wrote += it.writes
            if stamped:
                other.others_wrote.append(clearing_range(STAMPED, b"\xff"))

    @rule(what=st.sampled_from(["ask", "ask", "ask", "sync", "sync", "crash"]))
    def disk(self, what: str) -> None:
        match what:
            case "ask":
                self.when_durable()
            case "sync":
                self.sync()
            case _:
                self.crash()

    def when_durable(self) -> None:
        self.asked += 1
        (self.waiting if self.unsynced or self.bench.is_shared else self.told).append(self.asked)
        self.bench.store.when_durable(lambda asked=self.asked: self.heard.append(asked))  # type: ignore[misc]

    def sync(self) -> None:
        self.bench.sync()
        self.synced()

    def synced(self) -> None:
        self.durable, self.unsynced = self.committed, False
        self.told += self.waiting
        self.waiting = []

    def crash(self) -> None:
        self.bench.crash()
        self.committed, self.unsynced, self.waiting = self.durable, False, []
        self.open = [self.fresh() for _ in range(MAX_OPEN)]

    @invariant()
    def everybody_sees_what_was_committed(self) -> None:
        assert dict(rows(self.bench.store.begin())) == self.committed

    @invariant()
    def what_was_synced_is_durable_and_nothing_else(self) -> None:
        assert dict(rows(self.bench.store.durable())) == self.durable

    @invariant()
    def those_who_waited_were_told_in_order(self) -> None:
        assert self.heard == self.told

    def teardown(self) -> None:
        self.bench.store.close()


def check_random_histories(open_bench: Callable[[], Bench], budget: settings) -> None:
    class Machine(StoreMachine):
        def __init__(self) -> None:
            super().__init__(open_bench())

    run_state_machine_as_test(Machine, settings=budget)
