"""Buckets as Prometheus has them."""

from epoxy.model.histogram import BUCKETS, Histogram


def test_a_value_on_a_bound_belongs_below_it() -> None:
    histogram = Histogram((1, 2))
    for value in (0.5, 1.0, 1.5, 9.0):
        histogram.observe(value)
    assert (histogram.counts, histogram.sum) == ([2, 1, 1], 12.0)
    assert histogram.buckets() == [("1", 2), ("2", 3), ("+Inf", 4)]


def test_durations_have_bounds_of_their_own() -> None:
    assert Histogram().bounds == BUCKETS
    assert list(BUCKETS) == sorted(BUCKETS)
