"""The arithmetic behind the figures. Nothing here takes time."""

import pytest

from benchmarks.load import Sample
from benchmarks.peers.wan import FIVE, THREE, link_name, links
from benchmarks.stats import (
    Summary,
    combine,
    epoxy_floor,
    longest_gap_ms,
    mean_p50,
    median_of_rounds,
    percentile,
    raft_floor,
    ratios,
    summarize,
    summarize_regions,
)


def sample(took_ms: float, *, region: str = "us-east-1", began_s: float = 0.0, ok: bool = True) -> Sample:
    return Sample(region, began_s, took_ms, ok)


def summary(p50: float, p99: float = 0.0, *, count: int = 1, failed: int = 0) -> Summary:
    return Summary(count=count, failed=failed, mean=p50, p50=p50, p99=p99, most=p99)


@pytest.mark.parametrize(
    ("share", "expected"), [(0.5, 50.0), (0.99, 99.0), (0.991, 100.0), (1.0, 100.0), (0.001, 1.0), (0.01, 1.0)]
)
def test_a_percentile_is_the_smallest_value_that_the_share_is_not_above(share: float, expected: float) -> None:
    assert percentile([float(value) for value in range(100, 0, -1)], share) == expected


def test_few_values_have_their_largest_as_p99() -> None:
    assert percentile([3.0, 1.0, 2.0], 0.99) == 3.0
    assert percentile([3.0, 1.0], 0.5) == 1.0


@pytest.mark.parametrize(("values", "share"), [([], 0.5), ([1.0], 0.0), ([1.0], 1.1)])
def test_a_percentile_of_nothing_or_beyond_everything_is_refused(values: list[float], share: float) -> None:
    with pytest.raises(ValueError, match="no"):
        percentile(values, share)


def test_failures_are_counted_and_not_timed() -> None:
    found = summarize([sample(10.0), sample(30.0), sample(15_000.0, ok=False), sample(20.0)])
    assert (found.count, found.failed) == (3, 1)
    assert (found.p50, found.p99, found.most, found.mean) == (20.0, 30.0, 30.0, 20.0)


def test_regions_are_kept_apart() -> None:
    found = summarize_regions([sample(10.0), sample(70.0, region="eu-west-1"), sample(12.0)])
    assert {region: each.count for region, each in found.items()} == {"us-east-1": 2, "eu-west-1": 1}
    assert found["eu-west-1"].p50 == 70.0


def test_a_median_of_rounds_forgives_one_bad_round_but_not_its_worst() -> None:
    found = median_of_rounds([summary(70, 75, count=5), summary(71, 76, count=6), summary(300, 900, count=2, failed=1)])
    assert (found.p50, found.p99, found.most) == (71, 76, 900)
    assert (found.count, found.failed) == (13, 1)


def test_a_region_that_missed_a_round_has_the_median_of_the_others() -> None:
    found = combine([{"a": summary(1), "b": summary(5)}, {"a": summary(3)}, {"a": summary(2)}])
    assert {region: each.p50 for region, each in found.items()} == {"a": 2, "b": 5}


@pytest.mark.parametrize(
    ("regions", "floors"), [(FIVE, [72.5, 100.9, 127.3, 152.4, 180.3]), (THREE, [70.5, 70.5, 152.4])]
)
def test_floors_are_those_the_product_promises(regions: tuple[str, ...], floors: list[float]) -> None:
    assert [epoxy_floor(region, regions) for region in regions] == floors


@pytest.mark.parametrize(
    ("here", "missing", "floor"),
    [
        ("us-east-1", "us-west-2", 113.0),
        ("us-east-1", "sa-east-1", 72.5),
        ("us-west-2", "us-east-1", 127.3),
        ("eu-west-1", "us-east-1", 183.6),
        ("ap-northeast-1", "us-east-1", 204.4),
    ],
)
def test_without_a_region_the_next_nearest_counts(here: str, missing: str, floor: float) -> None:
    assert epoxy_floor(here, FIVE, missing=[missing]) == floor


def test_two_missing_of_five_still_have_a_floor_and_three_have_none() -> None:
    assert epoxy_floor("us-east-1", FIVE, missing=["us-west-2", "eu-west-1"]) == 152.4
    with pytest.raises(ValueError, match="no fast quorum"):
        epoxy_floor("us-east-1", FIVE, missing=["us-west-2", "eu-west-1", "sa-east-1"])


def test_one_region_alone_waits_for_nobody() -> None:
    assert epoxy_floor("us-east-1", ["us-east-1"]) == 0.0
    assert raft_floor("us-east-1", "us-east-1", ["us-east-1"]) == 0.0


@pytest.mark.parametrize(
    ("here", "leader", "floor"),
    [("us-east-1", "us-east-1", 72.5), ("eu-west-1", "us-east-1", 143.0), ("us-east-1", "sa-east-1", 293.3)],
)
def test_with_a_leader_a_write_goes_there_and_waits_for_its_majority(here: str, leader: str, floor: float) -> None:
    assert raft_floor(here, leader, FIVE) == pytest.approx(floor)


def test_ratios_are_of_means_over_regions_for_the_best_and_for_the_average_leader() -> None:
    ours = {"a": summary(60), "b": summary(90)}
    found = ratios(ours, {"a": {"a": summary(50), "b": summary(150)}, "b": {"a": summary(300), "b": summary(100)}})
    assert mean_p50(ours) == 75
    assert (found.best_leader, found.best, found.average) == ("a", 100, 150)
    assert (found.of_best, found.of_average) == (0.75, 0.5)


def test_a_gap_is_the_longest_time_without_a_success() -> None:
    ends = [10.0, 10.1, 10.4, 10.5]
    samples = [sample(50.0, began_s=end - 0.05) for end in ends]
    assert longest_gap_ms(samples, 10.0, 10.6) == pytest.approx(300)
    assert longest_gap_ms([*samples, sample(50.0, began_s=10.2, ok=False)], 10.0, 10.6) == pytest.approx(300)


def test_a_gap_may_be_at_either_end_of_the_window_or_all_of_it() -> None:
    samples = [sample(0.0, began_s=10.5)]
    assert longest_gap_ms(samples, 10.0, 10.6) == pytest.approx(500)
    assert longest_gap_ms(samples, 10.4, 12.5) == pytest.approx(2000)
    assert longest_gap_ms([], 1.0, 3.0) == pytest.approx(2000)


def test_every_pair_of_regions_has_a_link_each_way_with_half_of_the_round_trip() -> None:
    made = links(
        THREE, lambda here, there: f"{here}/{there}", {"us-east-1": 1, "eu-west-1": 2, "ap-northeast-1": 3}.__getitem__
    )
    assert len(made) == 6
    found = {link.name: link for link in made}[link_name("us-east-1", "ap-northeast-1")]
    assert (found.listen, found.target, found.one_way_ms) == ("us-east-1/ap-northeast-1", 3, 76.2)
