"""The store whose rows rot: as the embedded one it raises, reports, and heals by being written."""

import pytest

from epoxy.model.errors import RottenRow
from epoxy.store.embedded.scrub import ScrubPage
from epoxy.store.memory import MemoryStore
from epoxy_sim.disk.rot import RottingStore
from tests.node.bench import Disk


def test_every_read_of_the_row_raises_and_is_reported() -> None:
    store = RottingStore(MemoryStore(), set())
    store.put({b"a": b"1", b"b": b"2"}, None)
    store.rot([b"b", b"absent"])
    seen: list[bytes] = []
    store.on_rot = seen.append
    for read in (
        lambda: store.newest().get(b"b"),
        lambda: store.durable().range(b"a", b"z", limit=9),
        lambda: store.transact(lambda tx: tx.get(b"b")),
        lambda: store.transact(lambda tx: tx.snapshot.get(b"b")),
    ):
        with pytest.raises(RottenRow) as caught:
            read()
        assert caught.value.key == b"b"
    assert seen == [b"b"] * 4
    assert store.newest().range(b"a", b"b", limit=9) == [(b"a", b"1")]


def test_it_heals_when_it_was_written_durably() -> None:
    disk, rotten = Disk(), set[bytes]()
    store = RottingStore(MemoryStore(disk.flush), rotten)
    store.put({b"a": b"1", b"b": b"1", b"c": b"1"}, None)
    disk.sync()
    store.rot([b"a", b"b", b"c"])
    store.transact(lambda tx: tx.set(b"a", b"2"))
    store.transact(lambda tx: tx.clear(b"b"))
    store.remember({b"c": b"2"})
    assert [store.newest().get(key) for key in (b"a", b"b", b"c")] == [b"2", None, b"2"]
    with pytest.raises(RottenRow):
        store.durable().get(b"a")
    assert rotten == {b"a", b"b", b"c"}
    disk.sync()
    assert store.durable().get(b"a") == b"2"
    assert rotten == set()


def test_a_row_that_rots_while_it_is_being_replaced_heals_with_that() -> None:
    disk, rotten = Disk(), set[bytes]()
    store = RottingStore(MemoryStore(disk.flush), rotten)
    store.put({b"a": b"1", b"b": b"1", b"c": b"1"}, None)
    disk.sync()
    store.put({b"a": b"2", b"b": None}, None)
    store.rot([b"a", b"b", b"c"])
    assert [store.newest().get(key) for key in (b"a", b"b")] == [b"2", None]
    with pytest.raises(RottenRow):
        store.durable().get(b"b")
    disk.sync()
    assert store.durable().get(b"a") == b"2"
    assert rotten == {b"c"}


def test_a_row_that_is_gone_when_the_store_is_opened_is_not_rotten() -> None:
    rotten = {b"a", b"b"}
    RottingStore(MemoryStore(contents={b"a": b"1"}), rotten)
    assert rotten == {b"a"}


def test_a_scrub_goes_through_all_rows() -> None:
    store = RottingStore(MemoryStore(), set())
    store.put({b"%d" % i: b"" for i in range(5)}, None)
    store.rot([b"3"])
    pages: list[ScrubPage] = []
    store.scrub(b"", 3, pages.append)
    store.scrub(b"2", 3, pages.append)
    assert [(page.rows, page.rotten, page.last) for page in pages] == [(3, (), b"2"), (2, (b"3",), None)]
