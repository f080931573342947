"""The arithmetic: percentiles, floors, medians of rounds, ratios. No IO, no clock."""

import itertools
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from benchmarks.load import Sample
from epoxy.model.floors import quorum_ms
from epoxy.model.planning import Planner
from epoxy.model.quorum import quorums
from epoxy.transport.wan.aws import TABLE


class Summary(Struct, frozen=True, kw_only=True):
    """Milliseconds."""

    count: int
    failed: int
    mean: float
    p50: float
    p99: float
    most: float


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of all are not above: one that was measured, not one in between."""
    if not values:
        raise ValueError("no values")
    if not 0 < share <= 1:
        raise ValueError(f"{share} is no share")
    return sorted(values)[math.ceil(share * len(values)) - 1]


def summarize(samples: Iterable[Sample]) -> Summary:
    """Latencies of those that succeeded; at least one must have."""
    samples = list(samples)
    took = [sample.took_ms for sample in samples if sample.ok]
    return Summary(
        count=len(took),
        failed=len(samples) - len(took),
        mean=statistics.fmean(took),
        p50=percentile(took, 0.5),
        p99=percentile(took, 0.99),
        most=max(took),
    )


def by_region(samples: Iterable[Sample]) -> dict[str, list[Sample]]:
    found: dict[str, list[Sample]] = {}
    for sample in samples:
        found.setdefault(sample.region, []).append(sample)
    return found


def summarize_regions(samples: Iterable[Sample]) -> dict[str, Summary]:
    return {region: summarize(of_region) for region, of_region in by_region(samples).items()}


def median_of_rounds(rounds: Sequence[Summary]) -> Summary:
    """Every figure by itself; counts are added up, and the most is the most of all."""
    return Summary(
        count=sum(each.count for each in rounds),
        failed=sum(each.failed for each in rounds),
        mean=statistics.median(each.mean for each in rounds),
        p50=statistics.median(each.p50 for each in rounds),
        p99=statistics.median(each.p99 for each in rounds),
        most=max(each.most for each in rounds),
    )


def combine(rounds: Sequence[Mapping[str, Summary]]) -> dict[str, Summary]:
    """By region. A region that was killed in some rounds has fewer."""
    regions = dict.fromkeys(region for each in rounds for region in each)
    return {region: median_of_rounds([each[region] for each in rounds if region in each]) for region in regions}


def epoxy_floor(here: str, regions: Sequence[str], missing: Iterable[str] = ()) -> float:
    """The round trip to the farthest of the nearest fast quorum, when some of its members are gone. The quorum is as
    large as ever."""
    left = [region for region in regions if region not in set(missing)]
    floor = quorum_ms(TABLE.to_others(here, left), quorums(len(regions)).fast)
    if floor is None:
        raise ValueError(f"{len(left)} of {len(regions)} regions have no fast quorum")
    return floor


def raft_floor(here: str, leader: str, regions: Sequence[str]) -> float:
    """To the leader, from there to the nearest majority, and back."""
    cost = Planner(TABLE, regions).leader(leader)
    assert cost is not None, "all regions are a majority"
    return cost.regions_ms[here]


def mean_p50(regions: Mapping[str, Summary]) -> float:
    """Over regions, each counting once."""
    return statistics.fmean(summary.p50 for summary in regions.values())


class Ratios(Struct, frozen=True, kw_only=True):
    """Of the mean over regions, ours to theirs, for the leader that is best for them and for leaders on average."""

    best_leader: str
    ours: float
    best: float
    average: float
    of_best: float
    of_average: float


def ratios(ours: Mapping[str, Summary], by_leader: Mapping[str, Mapping[str, Summary]]) -> Ratios:
    means = {leader: mean_p50(regions) for leader, regions in by_leader.items()}
    best_leader = min(means, key=lambda leader: means[leader])
    average = statistics.fmean(means.values())
    mine = mean_p50(ours)
    return Ratios(
        best_leader=best_leader,
        ours=mine,
        best=means[best_leader],
        average=average,
        of_best=mine / means[best_leader],
        of_average=mine / average,
    )


def longest_gap_ms(samples: Iterable[Sample], begin_s: float, end_s: float) -> float:
    """The longest time between two successes, or between one and either end, within a window."""
    ended = sorted(sample.ended_s for sample in samples if sample.ok and begin_s <= sample.ended_s <= end_s)
    marks = [begin_s, *ended, end_s]
    return max(later - earlier for earlier, later in itertools.pairwise(marks)) * 1000
