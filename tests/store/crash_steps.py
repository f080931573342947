"""Crashes at every step of the embedded store: before a write, in the middle of one, after it and before anybody heard
of it, inside a checkpoint and around it.

The model is the list of states, one after each commit. What a crash leaves must be one of them, whole: not older than
the newest that was acknowledged, and, since stamps are among the rows, with stamps that go on rising.
"""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from unittest.mock import patch

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from epoxy.ports import Transaction
from epoxy.store.embedded import tree as tree_module
from epoxy.store.embedded.files import SystemFiles
from epoxy.store.embedded.log import WriteAheadLog, segments
from epoxy.store.embedded.store import EmbeddedStore
from tests.store.conformance import rows
from tests.store.hand import EmbeddedBench

LOG_BYTES = 64
"""Every other flush begins a generation."""

# A long key too: its stems come and go with it.
KEYS = st.sampled_from([b"a", b"b", b"c", b"d" * 600])
WRITES = st.lists(st.tuples(KEYS, st.none() | st.sampled_from([b"1", b"2", b"3" * 600])), min_size=1, max_size=3)

STAMPED = b"~"

State = dict[bytes, bytes]


class Crash(BaseException):
    """The process is gone. Nothing in the store may catch this."""


class CrashMachine(RuleBasedStateMachine):
    def __init__(self, bench: EmbeddedBench) -> None:
        super().__init__()
        self.bench = bench
        self.states: list[State] = [{}]
        self.acknowledged = 0

    @rule(writes=WRITES)
    def commit_and_flush(self, writes: list[tuple[bytes, bytes | None]]) -> None:
        self.commit(writes, stamped=False)
        self.bench.flush()

    @rule(writes=WRITES, stamped=st.booleans())
    def commit(self, writes: list[tuple[bytes, bytes | None]], stamped: bool) -> None:
        self.bench.store.transact(lambda tx: apply(tx, writes, stamped))
        self.states.append(dict(rows(self.bench.store.begin())))
        newest = len(self.states) - 1
        assert stamps(self.states[newest])[: -1 if stamped else None] == stamps(self.states[newest - 1])
        self.bench.store.when_durable(lambda: self.acknowledge(newest))

    def acknowledge(self, state: int) -> None:
        assert state > self.acknowledged, "acknowledged in disorder"
        self.acknowledged = state

    @rule(step=st.sampled_from(["tick", "write", "hear", "flush", "flush", "checkpoint", "hear of it", "settle"]))
    def move(self, step: str) -> None:
        bench = self.bench
        moves: dict[str, Callable[[], object]] = {
            "tick": bench.tick,
            "write": bench.writer.work,
            "hear": bench.writer.report,
            "flush": bench.flush,
            "checkpoint": bench.checkpointer.work,
            "hear of it": bench.checkpointer.report,
            "settle": bench.settle,
        }
        moves[step]()

    @rule()
    def crash(self) -> None:
        self.bench.crash()
        self.judge()

    @rule(cut=st.integers(0, 200))
    def crash_inside_a_write(self, cut: int) -> None:
        """The last bytes of what the writer's next job appends are lost."""
        self.bench.tick()
        _, newest = segments(self.bench.folder / "log")[-1]
        before = newest.read_bytes()
        self.bench.writer.work()
        tear(newest, before, cut)
        self.crash()

    @rule(place=st.sampled_from(["rows", "more rows", "log"]))
    def crash_inside_a_checkpoint(self, place: str) -> None:
        """Before its rows are in the tree, after some of them, or after all of them and before the log goes."""
        deaths = {
            "rows": patch.object(tree_module, "write", dies_after(0, tree_module.write)),
            "more rows": patch.object(tree_module, "write", dies_after(1, tree_module.write)),
            "log": patch.object(WriteAheadLog, "drop", dies_after(0, WriteAheadLog.drop)),
        }
        with deaths[place], suppress(Crash):
            self.bench.checkpointer.work()
        self.crash()

    @rule(function=st.sampled_from(["write", "rename"]))
    def crash_at_the_start_too(self, function: str) -> None:
        """The start itself is cut short, before or after its segment has a name; the next one finds what is left."""
        with patch.object(SystemFiles, function, dies_after(0, getattr(SystemFiles, function))), suppress(Crash):
            self.bench.crash()
        self.crash()

    def judge(self) -> None:
        left = dict(rows(self.bench.store.begin()))
        possible = [index for index in range(self.acknowledged, len(self.states)) if self.states[index] == left]
        assert possible, f"{left} is no state since the last that was acknowledged"
        self.states = [left]
        self.acknowledged = 0

    @invariant()
    def the_newest_state_is_visible(self) -> None:
        assert dict(rows(self.bench.store.begin())) == self.states[-1]

    @invariant()
    def what_is_durable_was_acknowledged(self) -> None:
        assert dict(rows(self.bench.store.durable())) == self.states[self.acknowledged]

    def teardown(self) -> None:
        self.bench.store.close()


def stamps(state: State) -> list[bytes]:
    return sorted(key for key in state if key.startswith(STAMPED))


def apply(tx: Transaction, writes: list[tuple[bytes, bytes | None]], stamped: bool) -> None:
    for key, value in writes:
        if value is None:
            tx.clear(key)
        else:
            tx.set(key, value)
    if stamped:
        tx.set_stamped(STAMPED, b"", b"s")


def tear(path: Path, before: bytes, cut: int) -> None:
    """Put the last `cut` bytes that changed in this file back to what they were."""
    after = path.read_bytes()
    before = before.ljust(len(after), b"\x00")
    end = max((place + 1 for place in range(len(after)) if after[place] != before[place]), default=0)
    kept = max(end - cut, 0)
    path.write_bytes(after[:kept] + before[kept:])


def dies_after(calls: int, real: Callable[..., None]) -> Callable[..., None]:
    left = calls

    def dying(*arguments: object) -> None:
        nonlocal left
        if not left:
            raise Crash
        left -= 1
        real(*arguments)

    return dying


def check_crashes(kind: type[EmbeddedStore], budget: settings) -> None:
    class Machine(CrashMachine):
        def __init__(self) -> None:
            super().__init__(EmbeddedBench(kind, LOG_BYTES))

    run_state_machine_as_test(Machine, settings=budget)
