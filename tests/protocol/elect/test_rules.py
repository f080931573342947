"""The rules of an election, each by its values."""

import pytest
from msgspec.structs import replace

from epoxy.protocol.elect import rules
from epoxy.protocol.elect.lists import ListFloor, at_start, first
from epoxy.protocol.elect.terms import ElectRecord, Mode, ReplicationPosition, ServerReport
from tests.protocol.elect.bench import config_of

ABC = first(config_of("abc"))
BOTH = at_start(ABC, ListFloor(), config_of("abcde"))


def test_a_stamp_is_read_by_the_life_that_made_it_alone() -> None:
    stamp = rules.stamp(7, 1_234, 1_000)
    assert rules.stamped_ms(7, stamp, 1_000) == 1_234
    assert rules.stamped_ms(8, stamp, 1_000) is None


def test_a_lease_counts_from_the_oldest_answer_of_the_fastest_majority() -> None:
    assert rules.lease_end({"a": 50, "b": 40, "c": 10}, ABC, 100) == 140
    assert rules.lease_end({"a": 50}, ABC, 100) == 0


def test_a_lease_needs_a_majority_of_both_lists() -> None:
    assert rules.lease_end({"a": 50, "d": 40, "e": 40}, BOTH, 100) == 0
    assert rules.lease_end({"a": 50, "b": 30, "d": 40}, BOTH, 100) == 130


def test_most_data_ranks_first_then_priority_then_the_lowest_id() -> None:
    config = config_of("abc")
    config = replace(config, nodes=(*config.nodes[:2], replace(config.nodes[2], priority=200)))
    same = ReplicationPosition(2, 10)
    ranked = sorted("abc", key=lambda node: rules.rank(config, node, same))
    assert ranked == ["c", "a", "b"]
    assert rules.rank(config, "b", ReplicationPosition(3, 1)) < rules.rank(config, "c", same)


@pytest.mark.parametrize(
    ("record", "supports"),
    [
        (ElectRecord(epoch=3, leader_epoch=3, leader="a"), True),
        (ElectRecord(epoch=4, voted_for="b", leader_epoch=3, leader="a"), False),
        (ElectRecord(epoch=4, voted_for="a", leader_epoch=3, leader="a"), True),
    ],
)
def test_a_vote_for_another_ends_the_support_of_a_leader(record: ElectRecord, supports: bool) -> None:
    assert rules.supports_leader(record) is supports


def test_a_claim_must_be_above_the_known_leader_and_not_below_a_vote() -> None:
    record = ElectRecord(epoch=5, voted_for="b", leader_epoch=3, leader="a")
    assert [rules.is_higher_claim(epoch, record) for epoch in (3, 4, 5, 6)] == [False, False, True, True]


def test_only_a_live_fenced_server_may_be_compared() -> None:
    assert rules.may_judge(ServerReport(alive=True, mode=Mode.FENCED))
    assert not rules.may_judge(ServerReport(alive=False, mode=Mode.FENCED))
    assert not rules.may_judge(ServerReport(alive=True, mode=Mode.FOLLOWING))


def test_a_floor_rises_with_the_leader_that_is_answered_and_refuses_older_lists() -> None:
    floor = rules.raised(ListFloor(), BOTH.stage, BOTH.newest.digest)
    assert floor == ListFloor(generation=1, digest=BOTH.newest.digest)
    assert not rules.grants(floor, ABC.stage, ABC.newest.digest)
    assert rules.grants(floor, BOTH.stage, BOTH.newest.digest)
    assert not rules.grants(floor, BOTH.stage, "another")
