"""The last transactions of a node, kept while a client looks."""

import pytest

from epoxy.model.api_txn import MAX_WATCHED
from epoxy.model.transactions import Compare, Executed, Put, Txn, TxnOutcome, TxnRefused, TxnUnknown, WrongEngine
from epoxy.model.writes import Path
from epoxy.node.txn.watch import MAX_WATCHED_KEYS, WATCHED_MS, TransactionWatch, words_of
from tests.node.bench import HandClock
from tests.node.txn.test_engine import Cluster
from tests.node.txn.test_transactions import DONE, Door


def puts(*keys: bytes) -> Txn:
    return Txn(then=tuple(Put(key=key, value=b"v") for key in keys))


def test_nothing_is_kept_while_no_one_looks() -> None:
    door = Door()
    door.run(b"k")
    door.engine.taken[0][1](DONE)
    assert not door.transactions.watch.on
    assert door.transactions.watch.look()[0] == []
    assert door.engine.taken[0][0].footprint == {b"k": True}


def test_a_transaction_is_followed_to_its_outcome() -> None:
    door = Door()
    clock = door.driver.clock
    door.transactions.watch.look()
    clock.advance(5)
    door.run(b"a", b"b")
    (under_way,), _ = door.transactions.watch.look()
    assert (under_way.outcome, under_way.keys, under_way.writes) == (None, (b"a", b"b"), True)
    clock.advance(70)
    door.engine.taken[0][1](DONE)
    (kept,), since_ms = door.transactions.watch.look()
    assert (kept.outcome, kept.took_ms, kept.arrived_ms - since_ms) == ("committed", 70.0, 5.0)
    assert door.told == [DONE]


def test_the_watch_ends_when_no_one_looks_any_more_and_takes_its_memory_along() -> None:
    clock = HandClock()
    watch = TransactionWatch(clock)
    watch.look()
    watch.follow(puts(b"k"), lambda _: None)
    clock.advance(WATCHED_MS - 1)
    assert len(watch.look()[0]) == 1
    clock.advance(WATCHED_MS - 1)
    assert watch.on, "it was looked at"
    clock.advance(2)
    assert not watch.on
    assert watch.look()[0] == []


def test_stop_leaves_no_timer() -> None:
    clock = HandClock()
    watch = TransactionWatch(clock)
    watch.look()
    watch.stop()
    assert (watch.on, clock.pending) == (False, [])


def test_what_is_kept_is_bounded() -> None:
    watch = TransactionWatch(HandClock())
    watch.look()
    for number in range(MAX_WATCHED + 5):
        watch.follow(puts(*[b"%d/%d" % (number, key) for key in range(MAX_WATCHED_KEYS + 3)]), lambda _: None)
    kept, _ = watch.look()
    assert len(kept) == MAX_WATCHED
    assert kept[0].keys[0] == b"%d/0" % (MAX_WATCHED + 4), "the newest first"
    assert (len(kept[0].keys), kept[0].key_count) == (MAX_WATCHED_KEYS, MAX_WATCHED_KEYS + 3)


def test_a_refusal_of_the_node_is_kept_with_its_reason() -> None:
    door = Door()
    door.transactions.watch.look()
    door.transactions.refuse(puts(b"k"), door.told.append, TxnRefused(reason="no quorum"))
    ((kept,), _) = door.transactions.watch.look()
    assert (kept.outcome, kept.reason, kept.path) == ("refused", "no quorum", None)
    assert door.told == [TxnRefused(reason="no quorum")]


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        (Executed(succeeded=True), ("committed", "")),
        (Executed(succeeded=False), ("condition_failed", "")),
        (TxnRefused(reason="full"), ("refused", "full")),
        (TxnUnknown(reason="late"), ("unknown", "late")),
    ],
)
def test_outcomes_in_a_word(outcome: TxnOutcome, words: tuple[str, str]) -> None:
    assert words_of(outcome) == words


def test_too_long_a_value_is_a_refusal_that_names_no_key() -> None:
    word, reason = words_of(WrongEngine(keys=(b"secret",)))
    assert word == "refused"
    assert "too long" in reason
    assert "secret" not in reason


def test_the_engine_tells_the_path_and_when_the_command_began() -> None:
    cluster = Cluster(3)
    watch = cluster.nodes[1].transactions.watch
    watch.look()
    cluster.txn(1, puts(b"a"))
    cluster.txn(1, Txn(compares=(Compare(key=b"a", values=(b"other",)),), then=(Put(key=b"a", value=b"w"),)))
    kept, _ = watch.look()
    assert [(each.outcome, each.path) for each in kept] == [("condition_failed", Path.FAST), ("committed", Path.FAST)]
    first = kept[-1]
    assert first.begun_ms is not None
    assert first.took_ms is not None
    claimed_ms = first.begun_ms - first.arrived_ms
    assert 0 < claimed_ms < first.took_ms, "its key was given to transactions first"
    second = kept[0]
    assert second.begun_ms == second.arrived_ms
