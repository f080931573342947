"""The table of round trips."""

import pytest

from epoxy.model.quorum import QuorumPolicy
from epoxy.transport.wan.aws import REGIONS, ROUND_TRIPS_MS, floor_ms, rtt_ms

THREE = ("us-east-1", "eu-west-1", "ap-northeast-1")
FIVE = ("us-east-1", "us-west-2", "eu-west-1", "ap-northeast-1", "sa-east-1")


def test_the_table_is_one() -> None:
    assert len(REGIONS) == len(set(REGIONS)) == len(ROUND_TRIPS_MS) == 9
    assert rtt_ms("us-east-1", "eu-west-1") == 70.5
    assert rtt_ms("sa-east-1", "ap-southeast-1") == 338.1
    assert sum(map(sum, ROUND_TRIPS_MS)) == pytest.approx(11_458.5)
    with pytest.raises(KeyError):
        rtt_ms("us-east-1", "moon-1")


@pytest.mark.parametrize("here", REGIONS)
def test_nobody_is_nearer_than_oneself_and_both_ways_are_alike(here: str) -> None:
    for there in REGIONS:
        assert rtt_ms(here, there) == pytest.approx(rtt_ms(there, here), abs=0.11)
        assert rtt_ms(here, there) > 20 or here == there


def test_the_floors_a_write_is_measured_against() -> None:
    assert [floor_ms(here, THREE) for here in THREE] == [70.5, 70.5, 152.4]
    assert [int(floor_ms(here, FIVE)) for here in FIVE] == [72, 100, 127, 152, 180]
    assert floor_ms("us-east-1", FIVE, QuorumPolicy.FAST_PAXOS) == 113.0
    assert floor_ms("us-east-1", ("us-east-1",)) == 0.0
