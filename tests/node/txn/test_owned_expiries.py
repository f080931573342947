"""Values of transactions that end: counted anew after a restart of all replicas, and by a newcomer that copied them."""

from collections.abc import Callable

import pytest

from epoxy.model.marks import OWNED, is_owned
from epoxy.model.members import ValuesRead
from epoxy.model.transactions import NO_ROW, Add, Executed, Put, Txn, TxnOutcome
from epoxy.model.writes import Committed, Outcome, Write
from epoxy.node.keys.leases import Leases
from epoxy.node.txn.owned_writes import OwnedWrites
from epoxy.protocol.members.effects import Span
from epoxy.store import keyspace, txn_rows
from epoxy.store.txn_pages import ValueSpace
from tests.node.txn.test_engine import Cluster, Node, executed

KEY, TTL = b"k", 10_000


def ends(node: Node) -> None:
    OwnedWrites(node.transactions, node.me, node.driver.pending).end_with(node.driver.leases)


def cluster_of(n: int = 3) -> Cluster:
    cluster = Cluster(n)
    for node in cluster.nodes.values():
        ends(node)
    return cluster


def restart_all(cluster: Cluster) -> None:
    """With their disks; the timers of the processes before are gone."""
    cluster.run(1_000)
    for i in cluster.stores:
        cluster.nodes[i].driver.leases._due.clear()
        cluster.restart(i)
        ends(cluster.nodes[i])
        cluster.nodes[i].driver.leases.load()


def held(cluster: Cluster) -> set[bytes | None]:
    marks = [node.replica.newest(KEY) for node in cluster.nodes.values()]
    return {
        node.transactions.held(KEY, mark).value
        for node, mark in zip(cluster.nodes.values(), marks, strict=True)
        if is_owned(mark)
    }


def ends_one_ttl_after_a_restart(cluster: Cluster) -> None:
    restart_all(cluster)
    cluster.run(TTL - 1_000)
    assert held(cluster) == {b"v"}, "early"
    cluster.run(3_000)
    assert held(cluster) == {None}, "it does not end"
    assert all(not len(node.driver.leases) for node in cluster.nodes.values())


def written_in_a_transaction() -> None:
    cluster = cluster_of()
    executed(cluster.txn(1, Txn(then=(Put(key=KEY, value=b"v", ttl_ms=TTL),))))
    ends_one_ttl_after_a_restart(cluster)


def handed_over_and_not_executed() -> None:
    """The mark is decided, and the transaction that was to follow is not."""
    cluster, told = cluster_of(), list[Outcome]()
    driver = cluster.nodes[1].driver
    driver.write(Write(key=KEY, value=b"v", mutable=True, ttl_ms=TTL), told.append)
    cluster.run(100)
    driver.write(Write(key=KEY, value=OWNED, mutable=False), told.append)
    cluster.run(100)
    assert [type(each) for each in told] == [Committed, Committed]
    ends_one_ttl_after_a_restart(cluster)


STORIES = [written_in_a_transaction, handed_over_and_not_executed]


@pytest.mark.parametrize("story", STORIES)
def test_a_restart_of_all_replicas_counts_anew(story: Callable[[], None]) -> None:
    story()


@pytest.mark.pure("plants a fault in the index")
@pytest.mark.parametrize(("story", "module"), [(STORIES[0], txn_rows), (STORIES[1], keyspace)])
def test_an_index_that_is_not_written_is_found(
    story: Callable[[], None], module: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "index_value", lambda _: None)
    with pytest.raises(AssertionError, match="it does not end"):
        story()


def test_what_a_key_was_handed_over_with_does_not_count_once_it_has_a_row() -> None:
    """The first value had an expiry, the last one has none. The index of the mark stays."""
    cluster, told = cluster_of(), list[Outcome]()
    cluster.nodes[1].driver.write(Write(key=KEY, value=b"1", mutable=True, ttl_ms=TTL), told.append)
    cluster.run(100)
    executed(cluster.txn(2, Txn(then=(Put(key=KEY, value=b"v"),))))
    assert cluster.nodes[1].replica.expiring(None, 9) != []
    restart_all(cluster)
    assert all(not len(node.driver.leases) for node in cluster.nodes.values())
    cluster.run(2 * TTL)
    assert held(cluster) == {b"v"}


def test_an_end_that_a_kept_expiry_overtook_is_proposed_again() -> None:
    """The addition is under way when the count runs out, and there is no other replica."""
    cluster = cluster_of(1)
    executed(cluster.txn(1, Txn(then=(Put(key=KEY, value=b"1", ttl_ms=TTL),))))
    node, told = cluster.nodes[1], list[TxnOutcome]()
    leases = node.driver.leases
    found = leases._counts[KEY]
    node.transactions.run(Txn(then=(Add(key=KEY, amount=1),)), told.append)
    found.ends_ms = node.now_ms()
    leases._due.clear()
    leases._end(KEY, found, node.now_ms())
    cluster.run(1_000)
    assert [type(each) for each in told] == [Executed]
    cluster.run(1_000)
    assert held(cluster) == {None}
    assert len(leases) == 0


def test_a_newcomer_counts_what_it_copied() -> None:
    cluster = cluster_of()
    executed(cluster.txn(1, Txn(then=(Put(key=KEY, value=b"v", ttl_ms=TTL), Put(key=b"other", value=b"w")))))
    newcomer = Cluster(4).nodes[4]
    ends(newcomer)
    store, space = newcomer._cluster.stores[4], ValueSpace(4)
    page = ValueSpace(1).page(cluster.stores[1].newest(), ValuesRead(epoch=0, after=None, held=()))
    changed = store.transact(lambda tx: space.replace(tx, [Span(None, None)], page.pairs))
    assert sorted(changed) == [KEY, b"other"]
    newcomer.engine.terms.copied(changed)
    (entry,) = newcomer.engine.replica.expiring(None, 9)
    assert (entry[0], entry[1].expiry) == (KEY, changed[KEY].expiry)
    assert newcomer.driver.leases.counts(KEY)
    assert not newcomer.driver.leases.counts(b"other")
    again = Leases(newcomer.driver)
    again.indexes.append(newcomer.engine.replica.expiring)
    again.load()
    assert again.counts(KEY), "after a restart"
    gone = store.transact(lambda tx: space.replace(tx, [Span(None, None)], ()))
    newcomer.engine.terms.copied(gone)
    assert gone[KEY] == NO_ROW
    assert (len(newcomer.driver.leases), newcomer.engine.replica.expiring(None, 9)) == (0, [])
