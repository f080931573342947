"""An election from the first primary on: who leads, who votes, and what we added to the original text."""

import pytest
from msgspec.structs import replace

from epoxy.protocol.elect import candidacy, heartbeats
from epoxy.protocol.elect.config import ElectConfig
from epoxy.protocol.elect.messages import Announce, Heartbeat, Offer, Role, ServerState
from epoxy.protocol.elect.terms import Fence, Follow, Mode, ReplicationPosition
from tests.protocol.elect.bench import TIMING, Table, accepts, config_of, leaderless, offer, record_of


def test_a_new_cluster_begins_with_the_primary_of_its_config() -> None:
    table = Table("abc").begin()
    assert [seat.report.leader for seat in table.seats.values()] == ["", "a", "a"]
    assert table["b"].disk == record_of("abc", leader="a")


def test_a_new_cluster_needs_no_election_however_late_its_connections_are() -> None:
    """Whoever has met everybody waits for the first primary, which must see for itself that all are new."""
    table = Table("abc")
    table.cut |= {("b", "a"), ("c", "a")}
    table.run(500)
    assert table.writing() == []
    table.cut.clear()
    table.begin()
    assert {seat.elector.record.epoch for seat in table.seats.values()} == {1}


def test_a_new_cluster_takes_no_writes_before_everybody_remembers_its_primary() -> None:
    """Else the first primary could die and leave behind somebody who has never heard of it and so may not vote."""
    table = Table("abc")
    table.cut.add(("a", "c"))
    table.run(900)
    assert table["a"].elector.leading
    assert table["c"].elector.fresh
    assert table.writing() == []
    table.cut.clear()
    while not table.writing():
        table.run(20)
    table.absent.add("a")
    table["a"].report = replace(table["a"].report, alive=False)
    table.run(2_000)
    assert table.writing() == ["b"]


def test_a_new_cluster_whose_first_primary_has_no_server_elects_another() -> None:
    table = Table("abc")
    table["a"].report = replace(table["a"].report, alive=False, mode=Mode.FENCED)
    table.run(4_000)
    assert table.writing() == ["b"]


def test_a_dead_primary_is_replaced_by_the_one_with_the_most_data() -> None:
    table = leaderless()
    table["b"].has(1, 50)
    table["c"].has(1, 60)
    table.run(1_500)
    assert table.writing() == ["c"]
    assert table["b"].report.leader == "c"
    assert table["c"].disk == record_of("abc", epoch=2, voted_for="c", leader_epoch=2, leader="c")


def test_of_equals_the_operators_choice_wins_and_then_the_lowest_id() -> None:
    table = leaderless("abcd")
    table.run(1_500)
    assert table.writing() == ["b"]
    nodes = tuple(replace(node, priority=200 if node.id == "c" else 100) for node in config_of("abcd").nodes)
    table = leaderless("abcd", nodes=nodes)
    table.run(1_500)
    assert table.writing() == ["c"]


def test_a_node_of_priority_0_votes_and_never_leads() -> None:
    nodes = tuple(replace(node, priority=0 if node.id == "b" else 100) for node in config_of("abc").nodes)
    table = leaderless(nodes=nodes)
    table["b"].has(1, 1_000)
    table.run(3_000)
    assert table.writing() == ["c"]
    assert not any(isinstance(message, Offer) for _, message in table["b"].sent)


def test_without_a_majority_nobody_leads() -> None:
    table = Table("abc").begin()
    table.absent |= {"a", "b"}
    table["a"].report = replace(table["a"].report, alive=False, mode=Mode.FENCED)
    table.run(10_000)
    assert table.writing() == []
    assert table["c"].elector.record.epoch == 1


# What we added


def test_a_voter_lets_go_of_the_old_primary_before_it_votes() -> None:
    """What it receives behind its vote would count for the old primary and be unknown to the new one."""
    table = leaderless("abcde")
    table.run(1_100)
    voter = table["d"]
    voter.report = replace(voter.report, mode=Mode.FOLLOWING, leader="a", position=ReplicationPosition(1, 1))
    voter.elector.server = voter.report
    epoch = voter.elector.record.epoch
    voter.receive(offer(epoch + 50, "e"))
    assert voter.elector.record.epoch == epoch


def test_who_has_voted_for_another_answers_for_nobody_below() -> None:
    """That election may be won without this node hearing of it: its answer would keep two leases running."""
    table = Table("abcde").begin()
    table.isolate("e")
    table.run(1_100)
    voter = table["e"]
    voter.receive(offer(7, "d"))
    assert len(accepts(table, "e")) == 1
    (said,) = [m for to, m in table["a"].sent if to == "e" and isinstance(m, Heartbeat)][-1:]
    voter.sent.clear()
    voter.receive(replace(said, stamp=said.stamp + 1))
    voter.perform(voter.elector.tick(table.now_ms + TIMING.hb_interval_ms))
    answers = [m.echo for to, m in voter.sent if to == "a" and isinstance(m, Heartbeat)]
    assert answers
    assert set(answers) == {0}
    assert voter.report.mode is Mode.FENCED


def test_a_restarted_node_votes_for_nobody_until_the_silence_is_over() -> None:
    table = Table("abc").begin()
    table.isolate("c")
    table["c"].restart()
    table.now_ms += TIMING.down_after_ms - 1
    table["c"].receive(offer(9, "b"))
    assert accepts(table, "c") == []
    table.now_ms += 1
    table["c"].look()
    table["c"].receive(offer(9, "b"))
    assert len(accepts(table, "c")) == 1


def test_a_node_without_memory_waits_until_enough_others_have_told_theirs() -> None:
    table = Table("abc").begin()
    table.absent.add("a")
    table.run(2_000)
    assert table.writing() == ["b"]
    table["c"].disk = None
    table["c"].restart()
    assert table["c"].elector.server_state(table.now_ms) is ServerState.FRESH
    table.run(3_000)
    assert table["c"].elector.fresh
    table["c"].receive(offer(50, "a"))
    assert accepts(table, "c")[-1].epoch == 2
    table.absent.clear()
    table["a"].report = replace(table["a"].report, alive=True)
    table.run(2_000)
    assert not table["c"].elector.fresh
    assert len(table.writing()) == 1


def test_the_first_primary_without_its_memory_does_not_lead_with_an_empty_server() -> None:
    table = Table("abc").begin()
    table["b"].has(1, 50)
    table["c"].has(1, 50)
    table["a"].disk = None
    table["a"].report = replace(table["a"].report, mode=Mode.FENCED, position=ReplicationPosition())
    table["a"].restart()
    table.run(5_000)
    assert table.writing() == ["b"]


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


def test_a_primary_takes_back_those_who_voted_in_an_epoch_nobody_won() -> None:
    table = Table("abcde").begin()
    table.isolate("e")
    table.run(1_500)
    candidacy.campaign(table["e"].elector, table.now_ms)
    table["e"].perform(table["e"].elector.tick(table.now_ms))
    table.cut.clear()
    table.run(2_000)
    assert table.writing() == ["a"]
    assert table["a"].elector.record.leader_epoch > 1
    assert [table[name].report.leader for name in "bcde"] == ["a"] * 4


def test_an_epoch_that_vanished_from_the_data_is_marked_again() -> None:
    table = Table("abc").begin()
    orders = len(table["a"].orders)
    table["a"].has(0, 5)
    table["a"].until_ms += 10_000
    table.run(300)
    assert table["a"].report.position.history == 1
    assert len(table["a"].orders) > orders


@pytest.mark.parametrize("field", ["epoch", "leader_epoch"])
def test_an_epoch_that_cannot_be_is_not_believed(field: str) -> None:
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


def test_a_message_of_a_stranger_is_nothing() -> None:
    table = Table("abc").begin()
    before = table["b"].elector.record
    table["b"].receive(Announce(epoch=50, node="mallory", address="m:1"))
    assert table["b"].elector.record == before


def test_who_has_won_does_not_stand_again_while_it_waits_for_its_first_lease() -> None:
    table = leaderless()
    while not table["b"].elector.leading:
        table.run(20)
    table.run(1_000)
    assert table["b"].elector.record.epoch == 2
    assert table.writing() == ["b"]


def test_a_new_leader_is_answered_at_once() -> None:
    """Its server opens two round trips after the votes, not a heartbeat later."""
    table = leaderless()
    while not table["b"].elector.leading:
        table.run(20)
    assert table.writing() == ["b"]


def test_all_beat_when_the_leader_does() -> None:
    """So that idle nodes wake up together."""
    table = Table("abc").begin()
    told = len(table["c"].sent)
    table.now_ms += TIMING.hb_interval_ms // 2
    table["c"].receive(heartbeats.heartbeat_of(table["a"].elector, table.now_ms, echo=0))
    assert [type(message) for _, message in table["c"].sent[told:]] == [Heartbeat, Heartbeat]
    assert table["c"].elector.due_ms(table.now_ms) > table.now_ms + TIMING.hb_interval_ms
    told = len(table["c"].sent)
    table.now_ms += TIMING.hb_interval_ms // 4
    table["c"].receive(heartbeats.heartbeat_of(table["a"].elector, table.now_ms, echo=0))
    assert table["c"].sent[told:] == []


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
