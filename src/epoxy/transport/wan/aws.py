"""Round trips between nine AWS regions, for the emulated WAN.

Average ping round trips in milliseconds as published by the fantoch project (github.com/vitorenesduarte/fantoch, MIT or
Apache-2.0, commit aea6e324fdce, latency_aws/2020_06_05). Measured from the region of the row to that of the column, so
the two directions may differ by a tenth of a millisecond.
"""

from collections.abc import Sequence

from epoxy.model.planning import Planner
from epoxy.model.quorum import QuorumPolicy
from epoxy.model.round_trips import RoundTrips

REGIONS = (
    "us-east-1",
    "us-west-1",
    "us-west-2",
    "eu-west-1",
    "eu-central-1",
    "ap-northeast-1",
    "ap-southeast-1",
    "ap-southeast-2",
    "sa-east-1",
)

# fmt: off
ROUND_TRIPS_MS = (
    #  use1   usw1   usw2   euw1   euc1   apne1  apse1  apse2  sae1
    (   0.3,  59.9,  72.5,  70.5,  85.6, 152.4, 235.8, 198.0, 113.0),
    (  59.9,   0.1,  21.1, 141.2, 145.6, 111.7, 181.3, 137.1, 190.2),
    (  72.5,  21.1,   0.3, 127.3, 157.5, 100.9, 162.7, 138.5, 180.3),
    (  70.5, 141.1, 127.3,   0.1,  23.8, 204.4, 186.6, 253.7, 183.6),
    (  85.6, 145.6, 157.6,  23.8,   0.1, 243.9, 178.0, 281.9, 203.1),
    ( 152.4, 111.7, 100.9, 204.4, 243.9,   0.1,  77.0, 104.1, 267.9),
    ( 235.8, 181.3, 162.7, 186.6, 178.0,  77.0,   0.2,  90.5, 338.1),
    ( 198.0, 137.1, 138.5, 253.7, 281.9, 104.1,  90.5,   0.1, 308.8),
    ( 113.0, 190.2, 180.3, 183.6, 203.1, 267.9, 338.1, 308.8,   0.2),
)
# fmt: on


TABLE = RoundTrips(
    REGIONS,
    {
        (here, there): trip
        for here, row in zip(REGIONS, ROUND_TRIPS_MS, strict=True)
        for there, trip in zip(REGIONS, row, strict=True)
    },
)

CHOICES: dict[int, tuple[str, ...]] = {
    3: ("us-east-1", "eu-west-1", "ap-northeast-1"),
    5: ("us-east-1", "us-west-2", "eu-west-1", "ap-northeast-1", "sa-east-1"),
    7: ("us-east-1", "us-west-2", "eu-west-1", "eu-central-1", "ap-northeast-1", "ap-southeast-1", "sa-east-1"),
    9: REGIONS,
}
"""What a demo of so many regions runs: continents first, then what is near to one that is there."""


def rtt_ms(here: str, there: str) -> float:
    """Raises KeyError for a region that is not in the table."""
    return TABLE.ms(here, there)


def floor_ms(here: str, regions: Sequence[str], policy: QuorumPolicy = QuorumPolicy.OPTIMAL) -> float:
    """The least latency of a fresh write at `here`: the round trip to the farthest of its nearest fast quorum."""
    return Planner(TABLE, regions, policy).floor_ms(here)
