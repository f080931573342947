"""An election from the first primary on: who leads, who votes, and what we added to the original text."""

import pytest
from msgspec.structs import replace

from epoxy.protocol.elect.config import ElectConfig
from epoxy.protocol.elect.messages import Announce, Heartbeat, Role
from epoxy.protocol.elect.terms import Fence, Follow, Mode
from tests.protocol.elect.bench import TIMING, Table


def test_a_primary_whose_server_is_gone_makes_way_at_once() -> None:
    table = Table("abc").begin()
    table["a"].report = replace(table["a"].report, alive=False, mode=Mode.FENCED)
    table.run(200)
    assert table.writing() == ["b"]


def test_a_server_that_merely_does_not_answer_is_waited_for() -> None:
    table = Table("abc").begin()
    table["a"].report = replace(table["a"].report, alive=False, mode=Mode.OPEN)
    table["a"].until_ms = 0
    table["a"].elector.report(table["a"].report, table.now_ms)
    table.absent.add("a")
    table.run(TIMING.down_after_ms - 200)
    assert table.writing() == []
    table.run(600)
    assert table.writing() == ["b"]


def test_an_epoch_that_vanished_from_the_data_is_marked_again() -> None:
    table = Table("abc").begin()
    orders = len(table["a"].orders)
    table["a"].has(0, 5)
    table["a"].until_ms += 10_000
    table.run(300)
    assert table["a"].report.position.history == 1
    assert len(table["a"].orders) > orders


@pytest.mark.parametrize("field", ["epoch", "leader_epoch"])
def test_an_impossible_epoch_is_ignored(field: str) -> None:
    """One heartbeat would end elections for ever: there is no epoch above the last one."""
    table = Table("abc").begin()
    (said,) = [m for to, m in table["c"].sent if to == "b" and isinstance(m, Heartbeat)][-1:]
    for name in "ab":
        table[name].receive(replace(said, **{field: 2**64 - 1}))
    assert [table[name].elector.implausible for name in "ab"] == [1, 1]
    assert table["b"].elector.highest_epoch == 1
    table.absent.add("a")
    table["a"].report = replace(table["a"].report, alive=False)
    table.run(3_000)
    assert table.writing() == ["b"]
    assert table["b"].elector.record.leader_epoch == 2


def test_a_message_of_an_unknown_node_is_ignored() -> None:
    table = Table("abc").begin()
    before = table["b"].elector.record
    table["b"].receive(Announce(epoch=50, node="mallory", address="m:1"))
    assert table["b"].elector.record == before


def test_a_tick_is_due_when_something_ends_and_at_the_next_heartbeat_at_the_latest() -> None:
    table = Table("abc").begin()
    for name in "abc":
        assert table.now_ms < table[name].elector.due_ms(table.now_ms) <= table.now_ms + TIMING.hb_interval_ms * 1.05
    table.isolate("a")
    elector = table["a"].elector
    while elector.due_ms(table.now_ms) != elector.lease_end_ms:
        table.run(20)
    assert elector.lease_end_ms - table.now_ms <= TIMING.hb_interval_ms


def test_an_order_that_was_not_carried_out_is_given_again() -> None:
    table = Table("abc").begin()
    table["b"].report = replace(table["b"].report, mode=Mode.FENCED, leader="")
    table.run(400)
    assert table["b"].report.mode is Mode.FOLLOWING
    assert table["b"].orders.count(Follow("a")) == 2


def test_one_node_alone_leads_itself() -> None:
    table = Table("a").begin()
    table.run(5_000)
    assert table.writing() == ["a"]


def test_a_replica_is_fenced_from_the_start() -> None:
    table = Table("abc")
    assert isinstance(table["b"].elector.order, Fence)
    assert table["b"].elector.role is Role.REPLICA
    assert isinstance(table.config, ElectConfig)
