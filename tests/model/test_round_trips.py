"""Tables of round trips: complete, within bounds, and clear about what they lack."""

import math

import pytest

from epoxy.model.errors import InvalidRequest
from epoxy.model.round_trips import MAX_NAME, MAX_REGIONS, MAX_RTT_MS, RoundTrips, unknown_region

THREE = ("oslo", "lima", "perth")
TRIPS = {("oslo", "lima"): 190.5, ("perth", "oslo"): 310.0, ("lima", "perth"): 280.0, ("perth", "lima"): 281.0}


def test_one_direction_is_enough_and_two_may_differ() -> None:
    trips = RoundTrips(THREE, TRIPS)
    assert trips.ms("lima", "oslo") == trips.ms("oslo", "lima") == 190.5
    assert (trips.ms("lima", "perth"), trips.ms("perth", "lima")) == (280.0, 281.0)
    assert trips.ms("oslo", "oslo") == 0.0
    assert trips.to_others("lima", THREE) == [190.5, 280.0]
    with pytest.raises(KeyError):
        trips.ms("oslo", "rome")


@pytest.mark.parametrize(
    ("regions", "pairs", "words"),
    [
        (("oslo", "lima"), {}, "the round trip between oslo and lima is missing"),
        (("oslo", "lima"), {("oslo", "lima"): -1.0}, "oslo to lima: -1 is no round trip; from 0 to 60,000 ms are"),
        (("oslo", "lima"), {("oslo", "lima"): math.nan}, "oslo to lima: nan is no round trip"),
        (("oslo", "lima"), {("oslo", "lima"): MAX_RTT_MS + 1}, "oslo to lima: 60001 is no round trip"),
        (("oslo",), {("oslo", "rome"): 1.0}, "unknown region 'rome'"),
        (("oslo", "oslo"), {}, "region oslo is in the table twice"),
        ((), {}, "has 1 to 15 regions, not 0"),
        (tuple(map(str, range(MAX_REGIONS + 1))), {}, "has 1 to 15 regions, not 16"),
        (("",), {}, "'' is no name of a region"),
        (("a" * (MAX_NAME + 1),), {}, "it has 1 to 64 printable characters"),
        (("a\nb",), {}, "is no name of a region"),
        ((" a",), {}, "is no name of a region"),
        (("a,b",), {}, "is no name of a region"),
    ],
)
def test_what_is_wrong_is_named(regions: tuple[str, ...], pairs: dict[tuple[str, str], float], words: str) -> None:
    with pytest.raises(InvalidRequest, match=words):
        RoundTrips(regions, pairs)


def test_the_largest_table_is_one() -> None:
    names = [f"{number:0{MAX_NAME}d}" for number in range(MAX_REGIONS)]
    pairs = {(here, there): MAX_RTT_MS for here in names for there in names}
    assert RoundTrips(names, pairs).ms(names[0], names[-1]) == MAX_RTT_MS


def test_a_choice_has_each_region_once() -> None:
    trips = RoundTrips(THREE, TRIPS)
    trips.check(("perth", "oslo"))
    with pytest.raises(InvalidRequest, match="region oslo is given twice"):
        trips.check(("oslo", "lima", "oslo"))
    with pytest.raises(InvalidRequest, match=r"unknown region 'osio'\. Did you mean oslo"):
        trips.check(("osio",))


def test_similar_names_come_first() -> None:
    assert unknown_region("prth", THREE) == "unknown region 'prth'. Did you mean perth? There are: perth, oslo, lima"
    assert unknown_region("xyz", THREE) == "unknown region 'xyz'. There are: oslo, lima, perth"
