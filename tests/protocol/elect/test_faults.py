"""The first six faults of the original text (docs/protocol/elect.md), each test named after one."""

import pytest
from msgspec.structs import replace

from epoxy.protocol.elect import candidacy
from epoxy.protocol.elect.messages import Acceptance, Announce, Heartbeat, Offer
from epoxy.protocol.elect.terms import Mode, OpenServer, Save, Send
from tests.protocol.elect.bench import TIMING, Table, accepts, leaderless, offer


def test_fault_1_a_vote_is_saved_before_it_is_told_and_is_there_after_a_restart() -> None:
    table = leaderless("abcde")
    table.isolate("e")
    table.run(1_100)
    voter = table["e"]
    voter.restart()
    table.now_ms += TIMING.down_after_ms
    effects = voter.elector.receive(offer(7, "b"), table.now_ms)
    kinds = [type(effect) for effect in effects]
    assert kinds.index(Save) < kinds.index(Send)
    voter.perform(effects)
    assert voter.disk is not None
    assert (voter.disk.epoch, voter.disk.voted_for) == (7, "b")
    voter.restart()
    table.now_ms += TIMING.down_after_ms
    voter.receive(offer(7, "c"))
    assert [vote.candidate for vote in accepts(table, "e")][-1] == "b"


def test_fault_1_what_cannot_be_saved_is_not_told() -> None:
    table = leaderless()
    table["b"].broken_disk = table["c"].broken_disk = True
    table.run(2_000)
    told = [message for name in "bc" for _, message in table[name].sent]
    assert not any(isinstance(message, Acceptance | Offer | Announce) for message in told)
    assert table.writing() == []


def test_fault_2_a_candidate_that_yields_never_announces() -> None:
    table = leaderless("abcd")
    for name in "bcd":
        table.cut |= {(name, other) for other in "bcd"}
    table.run(1_040)
    rivals = [table["c"], table["b"]]
    for seat in rivals:
        candidacy.campaign(seat.elector, table.now_ms)
        seat.perform(seat.elector.tick(table.now_ms))
    loser, winner = rivals
    assert loser.elector.campaign is not None
    assert winner.elector.campaign is not None
    assert loser.elector.campaign.epoch == winner.elector.campaign.epoch
    epoch = loser.elector.campaign.epoch
    loser.receive(offer(epoch, "b", 1, 0))
    assert [vote.candidate for vote in accepts(table, "c")] == ["b"]
    assert loser.disk is not None
    assert loser.disk.voted_for == "b"
    for voter in "bd":
        loser.receive(Acceptance(epoch=epoch, node=voter, candidate="c"))
    assert not loser.elector.leading
    assert not any(isinstance(message, Announce) for _, message in loser.sent)


def test_fault_2_a_candidate_with_a_majority_does_not_yield() -> None:
    table = leaderless()
    table.run(1_500)
    epoch = table["b"].elector.record.leader_epoch
    table["b"].receive(offer(epoch, "a"))
    assert accepts(table, "b") == []
    assert table["b"].elector.leading


def test_fault_3_a_node_that_hears_the_primary_votes_for_no_other() -> None:
    table = Table("abcde").begin()
    table["c"].receive(offer(99, "b"))
    assert accepts(table, "c") == []
    assert table["c"].elector.record.epoch == 1


def test_fault_3_one_node_that_hears_nothing_disturbs_no_other() -> None:
    table = Table("abc").begin()
    table.cut |= {("a", "c"), ("b", "c")}
    table.run(10_000)
    assert table.writing() == ["a"]
    assert {seat.elector.record.epoch for seat in table.seats.values()} == {1}


def test_fault_4_a_primary_that_votes_steps_down() -> None:
    table = Table("abc").begin()
    table.isolate("a")
    table.run(900)
    assert table["a"].report.mode is Mode.FENCED
    assert table["a"].elector.leading
    table["a"].receive(offer(5, "b"))
    assert [vote.candidate for vote in accepts(table, "a")] == ["b"]
    assert not table["a"].elector.leading


def test_fault_4_a_lost_announcement_heals_by_heartbeats() -> None:
    table = leaderless("abcde")
    table.cut |= {(name, "e") for name in "bcd"}
    table.run(1_500)
    assert table.writing() == ["b"]
    assert table["e"].elector.record.leader == "a"
    table.cut.discard(("c", "e"))
    table.run(200)
    assert table["e"].elector.record.leader == "b"


def test_fault_4_the_old_primary_follows_the_higher_claim() -> None:
    table = Table("abc").begin()
    table.isolate("a")
    table.run(2_500)
    assert table.writing() == ["b"]
    table.cut.clear()
    table.run(600)
    assert table.writing() == ["b"]
    assert (table["a"].report.mode, table["a"].report.leader) == (Mode.FOLLOWING, "b")


@pytest.mark.parametrize("way", ["both ways", "what it says is lost"])
def test_fault_5_a_primary_that_is_cut_off_fences_itself_before_another_opens(way: str) -> None:
    """`run` looks at every moment that no two take writes."""
    table = Table("abc").begin()
    if way == "both ways":
        table.isolate("a")
    else:
        table.cut |= {("a", "b"), ("a", "c")}
    table.run(TIMING.lease_ms + 100)
    assert table.writing() == []
    table.run(1_000)
    assert table.writing() == ["b"]


def test_fault_5_an_order_to_open_ends_by_itself() -> None:
    table = Table("abc").begin()
    orders = [order for order in table["a"].orders if isinstance(order, OpenServer)]
    assert orders
    assert orders[-1].until_ms <= table.now_ms + TIMING.lease_ms


def test_fault_5_an_answer_to_an_earlier_life_prolongs_nothing() -> None:
    table = Table("abc").begin()
    table.isolate("a")
    table.run(800)
    seat = table["a"]
    (said,) = [m for to, m in table["b"].sent if to == "a" and isinstance(m, Heartbeat) and m.echo][-1:]
    seat.receive(replace(said, echo=said.echo ^ (1 << 41)))
    assert seat.elector.lease_end_ms <= table.now_ms


def test_fault_6_a_longer_log_of_an_older_epoch_is_worse() -> None:
    table = leaderless()
    table["b"].has(1, 5_000)
    table["c"].has(2, 60)
    table.run(1_500)
    assert table.writing() == ["c"]


def test_fault_6_a_voter_refuses_a_candidate_that_lacks_what_it_has() -> None:
    table = leaderless("abcde")
    table["c"].has(2, 60)
    table.run(1_100)
    voter = table["c"]
    epoch = voter.elector.record.epoch
    voter.receive(offer(epoch + 50, "e", history=1, offset=9_000))
    assert voter.elector.record.epoch == epoch
