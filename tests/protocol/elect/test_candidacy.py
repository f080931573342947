"""Which node becomes a candidate, and which one wins."""

from msgspec.structs import replace

from epoxy.protocol.elect import candidacy
from epoxy.protocol.elect.messages import Offer
from epoxy.protocol.elect.terms import Mode
from tests.protocol.elect.bench import Table, config_of, leaderless, record_of


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


def test_without_a_majority_no_node_leads() -> None:
    table = Table("abc").begin()
    table.absent |= {"a", "b"}
    table["a"].report = replace(table["a"].report, alive=False, mode=Mode.FENCED)
    table.run(10_000)
    assert table.writing() == []
    assert table["c"].elector.record.epoch == 1


def test_a_primary_regains_voters_of_an_epoch_without_a_winner() -> None:
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


def test_a_winner_does_not_stand_again_while_it_waits_for_its_first_lease() -> None:
    table = leaderless()
    while not table["b"].elector.leading:
        table.run(20)
    table.run(1_000)
    assert table["b"].elector.record.epoch == 2
    assert table.writing() == ["b"]
