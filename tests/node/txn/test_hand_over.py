"""Single writes and transactions on the same keys, at several replicas at the same time, some of which are cut off and
come back with their disks: one history, whichever engine a key is in. Faults are planted in each rule of the hand-over,
and the same check finds them.
"""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from epoxy.model.marks import is_owned, mark_of
from epoxy.model.records import Proposal
from epoxy.model.transactions import NO_ROW, Add, Delete, Executed, Import, OrderedValue, Put, Txn, TxnOutcome
from epoxy.model.writes import Committed, ImmutableKey, NothingToDelete, Outcome, Write
from epoxy.node.txn.owned_writes import OwnedWrites
from epoxy.node.txn.transactions import Entry, Transactions
from epoxy.protocol.keys import preconditions
from epoxy.protocol.txn import execution
from epoxy.protocol.txn.execution import ExecutionState
from tests.node.txn.test_engine import Cluster

KEYS = (b"a", b"b")
SEEDS = range(12)


class Story:
    """Clients count at random replicas, alone and in transactions over both keys, and now and then delete. `unsure`:
    additions whose outcome is not known."""

    def __init__(self, seed: int) -> None:
        self.dice = Random(seed)
        self.cluster = Cluster()
        self.versions: dict[bytes, list[tuple[int, int, int]]] = {key: [] for key in KEYS}
        """Of each acknowledged write: when it was asked for, when it was answered, and its version."""
        self.told: dict[bytes, int] = dict.fromkeys(KEYS, 0)
        self.unsure: dict[bytes, int] = dict.fromkeys(KEYS, 0)
        self.answers = 0
        self.wanted = 0

    def play(self) -> None:
        for at_ms in sorted(self.dice.sample(range(2000), k=40)):
            self.cluster.world.after(at_ms * 1000, self._ask)
        away = self.dice.choice((1, 2, 3))
        self.cluster.world.after(self.dice.randrange(2_000_000), lambda: self.cluster.down.add(away))
        self.cluster.run(2_000)
        self.cluster.down.clear()
        self.cluster.restart(away)
        for _ in range(10):
            self._ask()
            self.cluster.run(500)
        self.cluster.run(15_000)

    def _ask(self) -> None:
        node = self.cluster.nodes[self.dice.choice([i for i in self.cluster.nodes if i not in self.cluster.down])]
        begun_us = self.cluster.world.now_us
        self.wanted += 1
        if self.dice.random() < 0.5:
            txn = Txn(then=tuple(Add(key=key, amount=1) for key in KEYS))
            node.transactions.run(txn, lambda outcome: self._executed(begun_us, outcome))
            return
        key = self.dice.choice(KEYS)
        write = Write(key=key, value=None, amount=1, mutable=True)

        def written(outcome: Outcome) -> None:
            if isinstance(outcome, ImmutableKey) and is_owned(outcome.committed):
                owned = OwnedWrites(node.transactions, node.me, node.driver.pending)
                owned.run(write, outcome.committed, lambda told: self._written(key, begun_us, told))
            else:
                self._written(key, begun_us, outcome)

        node.driver.write(write, written)

    def _executed(self, begun_us: int, outcome: TxnOutcome) -> None:
        self.answers += 1
        for place, key in enumerate(KEYS):
            if isinstance(outcome, Executed):
                self._counted(key, begun_us, outcome.done[place].version)
            else:
                self.unsure[key] += 1

    def _written(self, key: bytes, begun_us: int, outcome: Outcome) -> None:
        self.answers += 1
        if isinstance(outcome, Committed):
            self._counted(key, begun_us, outcome.proposal.version)
        else:
            self.unsure[key] += 1

    def _counted(self, key: bytes, begun_us: int, version: int) -> None:
        self.told[key] += 1
        self.versions[key].append((begun_us, self.cluster.world.now_us, version))

    def judge(self) -> None:
        outcome = self.cluster.txn(1, Txn(reads=KEYS))
        assert isinstance(outcome, Executed)
        unanswered = self.wanted - self.answers
        for key, held in zip(KEYS, outcome.reads, strict=True):
            total, most = int(held.value or b"0"), self.told[key] + self.unsure[key] + unanswered
            assert self.told[key] <= total <= most, f"{key!r} is {total} after {self.told[key]} to {most} additions"
            assert held.at == total, "each addition has a version of its own"
            versions = [version for _, _, version in self.versions[key]]
            assert len(set(versions)) == len(versions), "a version is given once"
            for begun_us, _, version in self.versions[key]:
                earlier = [each for _, answered_us, each in self.versions[key] if answered_us < begun_us]
                assert all(each < version for each in earlier), "versions rise in the order of time"


def play_all() -> None:
    for seed in SEEDS:
        story = Story(seed)
        story.play()
        story.judge()


def test_no_write_is_lost_or_done_twice() -> None:
    play_all()


def overwrite(each: Import, state: ExecutionState) -> None:
    state.replace(each.key, each.held)


def forget(_self: Transactions, _key: bytes, _final: Proposal, _entry: Entry) -> None:
    """The coordinator adds no import."""


def without_the_last(committed: Proposal | None) -> bytes:
    """As if the value had been read some time before the mark is made."""
    if committed is None or committed.version < 2:
        return mark_of(None)
    number = int(committed.value or b"0")
    return mark_of(
        Proposal(
            value=b"%d" % (number - 1), version=committed.version - 1, mutable=True, proposal_id=committed.proposal_id
        )
    )


@pytest.mark.pure("plants faults")
@pytest.mark.parametrize(
    ("where", "name", "fault"),
    [
        (Transactions, "_import", forget),
        (preconditions, "mark_of", without_the_last),
    ],
    ids=["import-omitted", "write-before-the-mark-lost"],
)
def test_a_fault_in_the_hand_over_is_found(
    where: Any, name: str, fault: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(where, name, fault)
    with pytest.raises(AssertionError):
        play_all()


def deleted_and_seen(cluster: Cluster) -> OrderedValue:
    """A key is handed over, deleted, and then named by a coordinator that has heard of nothing but the mark."""
    written: list[Outcome] = []
    cluster.nodes[1].driver.write(Write(key=b"a", value=b"v", mutable=True), written.append)
    cluster.run(1000)
    moved = Import(key=b"a", held=OrderedValue(value=b"v", version=1))
    cluster.txn(1, Txn(then=(Delete(key=b"a"),)))
    told: list[TxnOutcome] = []
    cluster.nodes[2].engine.txn(Txn(reads=(b"a",), imports=(moved,)), told.append)
    cluster.run(1000)
    (outcome,) = told
    assert isinstance(outcome, Executed)
    return outcome.reads[0]


def test_a_late_import_does_not_bring_back_what_was_deleted() -> None:
    assert deleted_and_seen(Cluster()) == OrderedValue(value=None, version=2)


def no_row(key: bytes, _before: OrderedValue, state: ExecutionState) -> OrderedValue:
    return state.replace(key, NO_ROW)


@pytest.mark.pure("plants a fault")
@pytest.mark.parametrize(
    ("name", "fault"),
    [("delete", no_row), ("import_value", overwrite)],
    ids=["a deletion that leaves no row", "an import that overwrites"],
)
def test_a_fault_that_brings_it_back_is_found(
    name: str, fault: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execution, name, fault)
    assert deleted_and_seen(Cluster()).value == b"v"


def test_what_was_deleted_alone_is_handed_over_with_its_version() -> None:
    cluster = Cluster()
    told: list[Outcome] = []
    for value in (b"v", None):
        cluster.nodes[1].driver.write(Write(key=b"a", value=value, mutable=True), told.append)
        cluster.run(1000)
    assert not isinstance(told[1], NothingToDelete)
    outcome = cluster.txn(2, Txn(then=(Put(key=b"a", value=b"w"),)))
    assert isinstance(outcome, Executed)
    assert (outcome.done[0].value, outcome.done[0].version) == (None, 3)
