"""Where cloud regions are, for maps: the city that each is named after or known to be near, to a tenth of a degree."""

from collections.abc import Mapping

from msgspec import Struct


class RegionPlace(Struct, frozen=True, kw_only=True):
    """Degrees; north and east are positive."""

    city: str
    latitude: float
    longitude: float


def place(city: str, latitude: float, longitude: float) -> RegionPlace:
    return RegionPlace(city=city, latitude=latitude, longitude=longitude)


PLACES: Mapping[str, RegionPlace] = {
    "us-east-1": place("Ashburn", 39.0, -77.5),
    "us-east-2": place("Columbus", 40.0, -83.0),
    "us-west-1": place("San Francisco", 37.8, -122.4),
    "us-west-2": place("Boardman", 45.8, -119.7),
    "ca-central-1": place("Montreal", 45.5, -73.6),
    "ca-west-1": place("Calgary", 51.0, -114.1),
    "mx-central-1": place("Queretaro", 20.6, -100.4),
    "sa-east-1": place("Sao Paulo", -23.6, -46.6),
    "eu-west-1": place("Dublin", 53.3, -6.3),
    "eu-west-2": place("London", 51.5, -0.1),
    "eu-west-3": place("Paris", 48.9, 2.4),
    "eu-central-1": place("Frankfurt", 50.1, 8.7),
    "eu-central-2": place("Zurich", 47.4, 8.5),
    "eu-north-1": place("Stockholm", 59.3, 18.1),
    "eu-south-1": place("Milan", 45.5, 9.2),
    "eu-south-2": place("Zaragoza", 41.6, -0.9),
    "il-central-1": place("Tel Aviv", 32.1, 34.8),
    "me-south-1": place("Manama", 26.2, 50.6),
    "me-central-1": place("Dubai", 25.2, 55.3),
    "af-south-1": place("Cape Town", -33.9, 18.4),
    "ap-south-1": place("Mumbai", 19.1, 72.9),
    "ap-south-2": place("Hyderabad", 17.4, 78.5),
    "ap-southeast-1": place("Singapore", 1.4, 103.8),
    "ap-southeast-2": place("Sydney", -33.9, 151.2),
    "ap-southeast-3": place("Jakarta", -6.2, 106.8),
    "ap-southeast-4": place("Melbourne", -37.8, 145.0),
    "ap-southeast-5": place("Kuala Lumpur", 3.1, 101.7),
    "ap-southeast-7": place("Bangkok", 13.8, 100.5),
    "ap-east-1": place("Hong Kong", 22.3, 114.2),
    "ap-east-2": place("Taipei", 25.0, 121.6),
    "ap-northeast-1": place("Tokyo", 35.7, 139.7),
    "ap-northeast-2": place("Seoul", 37.6, 127.0),
    "ap-northeast-3": place("Osaka", 34.7, 135.5),
    "cn-north-1": place("Beijing", 39.9, 116.4),
    "cn-northwest-1": place("Zhongwei", 37.5, 105.2),
    "us-gov-west-1": place("Portland", 45.5, -122.7),
    "us-gov-east-1": place("Columbus", 40.0, -83.0),
}
"""AWS's regions; their cities are public. A datacenter of another name has no place on a map."""
