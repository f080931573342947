"""Which epochs of other nodes are believed, and that a node which was away learns the present one."""

import pytest
from msgspec.structs import replace

from epoxy.protocol.elect import epochs
from epoxy.protocol.elect.epochs import AWAY, LAST_EPOCH, MOST_CHANGES, EpochBound
from epoxy.protocol.elect.lists import first
from epoxy.protocol.elect.messages import Acceptance, Heartbeat, Message
from tests.protocol.elect.bench import Table, config_of, offer, record_of
from tests.protocol.elect.test_lists import joint

LISTS = first(config_of("abc"))
START_MS = 5_000


def vote(node: str, epoch: int) -> Message:
    return Acceptance(epoch=epoch, node=node, candidate="a")


def bound(epoch: int = 7) -> EpochBound:
    return EpochBound("a", epoch, START_MS)


def test_one_node_is_believed_what_elections_can_have_made_and_no_more() -> None:
    for elapsed_ms in (0, 1, 10_000):
        limit, now_ms = 7 + AWAY + elapsed_ms, START_MS + elapsed_ms
        assert bound().admits(vote("b", limit), LISTS, now_ms)
        assert not bound().admits(vote("b", limit + 1), LISTS, now_ms)


def test_a_majority_of_the_others_is_believed_whatever_elections_there_were() -> None:
    here = bound()
    assert not here.admits(vote("b", 1 << 50), LISTS, START_MS)
    assert here.admits(vote("c", 1 << 50), LISTS, START_MS)
    assert here.admits(vote("b", (1 << 50) + AWAY), LISTS, START_MS), "it counts from there now"
    assert not here.admits(vote("b", (1 << 50) + AWAY + 1), LISTS, START_MS)


def test_what_a_majority_does_not_say_at_the_same_time_does_not_count() -> None:
    here = bound()
    assert not here.admits(vote("b", 1 << 50), LISTS, START_MS)
    assert here.admits(vote("b", 8), LISTS, START_MS), "b has come to its senses"
    assert not here.admits(vote("c", 1 << 50), LISTS, START_MS)


def test_during_a_change_a_majority_of_one_list_is_enough() -> None:
    """Of those who join, none knows the epoch: they learn it from the old list."""
    both = joint("abc", "acde")
    here = EpochBound("d", 1, START_MS)
    assert not here.admits(vote("a", 1 << 50), both, START_MS)
    assert here.admits(vote("c", 1 << 50), both, START_MS)


def test_of_an_even_list_half_of_all_is_most_of_the_others() -> None:
    """With one node down and this one without a record, those two and this one are the majority that must elect."""
    four = first(config_of("abcd"))
    here = EpochBound("d", 1, START_MS)
    assert not here.admits(vote("a", 1 << 50), four, START_MS)
    assert here.admits(vote("c", 1 << 50), four, START_MS)


def test_of_two_nodes_neither_can_use_up_the_epochs_of_the_other() -> None:
    two = first(config_of("ab"))
    assert not bound().admits(vote("b", 1 << 50), two, START_MS)


def test_an_impossible_epoch_is_not_believed_of_all_together() -> None:
    here = bound()
    for node in "bcbc":
        assert not here.admits(vote(node, LAST_EPOCH + 1), LISTS, START_MS)
    for node in "bc":
        assert not here.admits(vote(node, 2**64 - 1), LISTS, START_MS)
    assert not here.admits(vote("b", LAST_EPOCH), LISTS, START_MS), "those were no witnesses"
    assert here.admits(vote("c", LAST_EPOCH), LISTS, START_MS)


def test_one_node_adds_no_more_with_many_messages_than_with_one() -> None:
    """A bound above the highest epoch seen would let it climb, message by message."""
    here, highest = bound(), 7
    for _ in range(1_000):
        if here.admits(vote("b", highest + AWAY), LISTS, START_MS):
            highest += AWAY
    assert highest == 7 + AWAY


@pytest.mark.parametrize("stage", [2 * MOST_CHANGES + 1, 2**64 - 1])
def test_a_list_that_no_operator_can_have_made_is_not_believed(stage: int) -> None:
    """A node that promised to count nothing older than it would answer no leader ever again."""
    assert bound().admits(offer(8, "b", stage=2 * MOST_CHANGES), LISTS, START_MS)
    assert not bound().admits(offer(8, "b", stage=stage), LISTS, START_MS)


# At a table


@pytest.mark.parametrize("epoch", [1_000, AWAY, 1 << 50])
def test_a_node_that_was_away_learns_the_present_epoch(epoch: int) -> None:
    table = Table("abc")
    for name in "ab":
        table[name].disk = record_of("abc", epoch=epoch, leader_epoch=epoch, leader="a")
    table["c"].disk = record_of("abc", leader="a")
    for seat in table.seats.values():
        seat.restart()
    table.run(5_000)
    assert table.writing() == ["a"]
    assert table["c"].elector.record.leader_epoch == table["a"].elector.record.leader_epoch > epoch


def test_a_node_without_a_record_learns_it_too() -> None:
    table = Table("abc")
    for name in "ab":
        table[name].disk = record_of("abc", epoch=1 << 50, leader_epoch=1 << 50, leader="a")
        table[name].restart()
    table.run(5_000)
    assert table.writing() == ["a"]
    assert not table["c"].elector.fresh
    assert table["c"].elector.record.leader_epoch > 1 << 50


def test_one_node_with_a_spoilt_record_does_not_spoil_the_others() -> None:
    """It is heard again when its directory was emptied."""
    table = Table("abc").begin()
    table["c"].disk = replace(table["c"].elector.record, epoch=1 << 50)
    table["c"].restart()
    table.run(5_000)
    assert table.writing() == ["a"]
    assert table["a"].elector.implausible > 10
    assert table["a"].elector.record.epoch < 100
    table["c"].disk = None
    table["c"].restart()
    table.run(5_000)
    assert table.writing() == ["a"]
    assert table["c"].elector.record.leader == "a"
    said = [message for to, message in table["c"].sent if to == "a" and isinstance(message, Heartbeat)]
    assert said[-1].echo, "it answers its leader"


def test_a_bound_that_climbs_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted fault: what was believed is the next start."""
    plausible = epochs.is_plausible
    seen = [7]

    def climb(epoch: int, start: int, elapsed_ms: int) -> bool:
        del start
        believed = plausible(epoch, seen[-1], elapsed_ms)
        seen.append(max(epoch, seen[-1]) if believed else seen[-1])
        return believed

    monkeypatch.setattr(epochs, "is_plausible", climb)
    with pytest.raises(AssertionError):
        test_one_node_adds_no_more_with_many_messages_than_with_one()
