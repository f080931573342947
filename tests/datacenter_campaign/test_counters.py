"""The judge of counters finds what is planted."""

import pytest

from tests.datacenter_campaign.counters import Increment, judge_counter

RIGHT = [Increment("k", 1, 2, 1), Increment("k", 3, 6, 2), Increment("k", 4, 5, 3)]


@pytest.mark.parametrize(("unknown", "last"), [(0, 3), (2, 3), (2, 5)])
def test_a_right_counter(unknown: int, last: int) -> None:
    assert not judge_counter("k", RIGHT, unknown, last)


@pytest.mark.parametrize(
    ("counted", "unknown", "last", "words"),
    [
        (RIGHT, 0, 4, "is 4"),
        (RIGHT, 1, 5, "is 5"),
        (RIGHT, 0, 2, "is 2"),
        ([*RIGHT, Increment("k", 7, 8, 3)], 0, 4, "have one reply"),
        ([Increment("k", 5, 6, 1), Increment("k", 1, 2, 2)], 0, 2, "ended before"),
    ],
    ids=["twice", "twice-beyond-unknown", "lost", "one-reply-for-two", "backwards"],
)
def test_a_wrong_counter(counted: list[Increment], unknown: int, last: int, words: str) -> None:
    (found,) = judge_counter("k", counted, unknown, last)
    assert words in found
