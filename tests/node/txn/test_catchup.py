"""One of the replicas was away: it learns what it missed page by page, and says so."""

import pytest

from epoxy.model.transactions import Add, Executed, Txn, TxnOutcome, TxnRefused
from epoxy.node.txn import catchup as ordered_catchup
from epoxy.protocol.txn import catchup
from tests.node.txn.test_engine import Cluster, executed, put

PAGE = 4


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is many, in this file."""
    for module in (catchup, ordered_catchup):
        monkeypatch.setattr(module, "MAX_PAGE", PAGE)
    monkeypatch.setattr(ordered_catchup, "LEARNED_AT_ONCE", 2)
    monkeypatch.setattr(ordered_catchup, "FAR_BEHIND", 3 * PAGE)
    monkeypatch.setattr(ordered_catchup, "NEARLY_THERE", 1)


def away(count: int, *, coordinators: tuple[int, ...] = (1, 2)) -> Cluster:
    """The third misses this many commands, one by one."""
    cluster = Cluster()
    executed(cluster.txn(3, put(b"k", b"0")))
    cluster.down.add(3)
    for i in range(count):
        told: list[TxnOutcome] = []
        home = coordinators[i % len(coordinators)]
        cluster.nodes[home].transactions.run(Txn(then=(Add(key=b"n", amount=1),)), told.append)
        cluster.run(100)
        executed(told[0])
    return cluster


def until_heard(cluster: Cluster) -> None:
    """Just after the third was told for the first time how far the others are."""
    catching = cluster.nodes[3].engine.catchup
    while not catching.is_far_behind:
        cluster.run(1)


@pytest.mark.parametrize("restarts", [False, True])
def test_who_was_away_learns_page_by_page_and_orders_nothing_until_then(restarts: bool) -> None:
    cluster = away(5 * PAGE)
    if restarts:
        cluster.restart(3)
    engine = cluster.nodes[3].engine
    said: list[str] = []
    engine.catchup.report = said.append
    told: list[TxnOutcome] = []
    if restarts:
        assert engine.state == "asking", "it may have missed a great deal"
        engine.txn(Txn(reads=(b"n",)), told.append)
    cluster.down.discard(3)
    cluster.nodes[1].transactions.run(put(b"k", b"1"), lambda _: None)
    until_heard(cluster)
    assert engine.state == "catching-up"
    assert not engine.is_open
    assert engine.behind >= 3 * PAGE
    refused: list[TxnOutcome] = []
    engine.txn(Txn(reads=(b"n",)), refused.append)
    assert isinstance(refused[0], TxnRefused), "definitely, and at once"
    assert "missed" in refused[0].reason
    fresh: list[TxnOutcome] = []
    cluster.nodes[3].transactions.run(put(b"fresh", b"1"), fresh.append)
    assert isinstance(fresh[0], TxnRefused), "before its key is claimed"
    cluster.run(5000)
    assert (engine.state, engine.behind, engine.held(b"n").value) == ("open", 0, b"%d" % (5 * PAGE))
    assert engine.catchup.learned >= 5 * PAGE
    assert "behind the others" in said[0]
    assert said[-1].startswith("caught up: ")
    if restarts:
        assert executed(told[0]).found == (b"%d" % (5 * PAGE),), "what was asked for before it knew has waited"
    assert executed(cluster.txn(3, Txn(reads=(b"n",)))).found == (b"%d" % (5 * PAGE),)


def test_another_goes_on_when_the_one_that_told_falls_silent() -> None:
    cluster = away(5 * PAGE)
    cluster.down.discard(3)
    cluster.nodes[1].transactions.run(put(b"k", b"1"), lambda _: None)
    until_heard(cluster)
    engine = cluster.nodes[3].engine
    while engine.catchup.learned < PAGE:
        cluster.run(0.5)
    teacher = engine.replica.others[engine._turn % 2]
    cluster.down.add(teacher)
    cluster.run(500)
    before = engine.catchup.learned
    assert before < 5 * PAGE, "it was in the middle"
    cluster.run(20_000)
    assert (engine.behind, engine.held(b"n").value) == (0, b"%d" % (5 * PAGE))


def test_recoveries_do_not_join_in_while_pages_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every one of them would ask all the others for something that is on its way."""
    cluster = away(5 * PAGE)
    recovered: list[object] = []
    engine = cluster.nodes[3].engine
    monkeypatch.setattr(engine, "rescue", recovered.append)
    cluster.down.discard(3)
    cluster.way_us = 40_000
    cluster.nodes[1].transactions.run(put(b"k", b"1"), lambda _: None)
    until_heard(cluster)
    recovered.clear()
    while engine.behind > PAGE:
        cluster.run(10)
    assert recovered == []
    assert isinstance(cluster.txn(1, put(b"k", b"2")), Executed)
