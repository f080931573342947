"""Where regions are on a map."""

from epoxy.model.regions import PLACES
from epoxy.transport.wan import aws


def test_every_region_of_the_demo_has_a_place() -> None:
    assert set(aws.REGIONS) <= PLACES.keys()


def test_places_are_on_the_earth_and_on_the_right_side_of_it() -> None:
    assert all(-90 < each.latitude < 90 and -180 <= each.longitude <= 180 for each in PLACES.values())
    west = {name for name, each in PLACES.items() if each.longitude < -20}
    assert {name.partition("-")[0] for name in west} == {"us", "ca", "mx", "sa"}
    south = {name for name, each in PLACES.items() if each.latitude < 0}
    assert south == {"sa-east-1", "af-south-1", "ap-southeast-2", "ap-southeast-3", "ap-southeast-4"}
