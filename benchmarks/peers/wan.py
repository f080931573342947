"""What the systems have in common: regions, the delays between them, and a folder."""

from collections.abc import Callable, Mapping, Sequence
from itertools import permutations

from benchmarks.proxy import Door, Link, Way
from epoxy.transport.wan.aws import rtt_ms

FIVE = ("us-east-1", "us-west-2", "eu-west-1", "ap-northeast-1", "sa-east-1")
THREE = ("us-east-1", "eu-west-1", "ap-northeast-1")

VALUE = b"eu-west-1"
"""What is written: the home of a name, the value this store is made for."""


def link_name(here: str, there: str) -> str:
    return f"{here}>{there}"


def links(regions: Sequence[str], listen: Callable[[str, str], int | str], target: Callable[[str], int]) -> list[Link]:
    """One for each pair and who calls whom; `listen` says where `here` finds `there`."""
    return [
        Link(
            name=link_name(here, there),
            listen=listen(here, there),
            target=target(there),
            one_way_ms=rtt_ms(here, there) / 2,
        )
        for here, there in permutations(regions, 2)
    ]


def doors(ids: Mapping[str, int], listen: Mapping[str, int], target: Mapping[str, int], caller: str) -> list[Door]:
    """One for each region, where all others find it."""
    return [
        Door(
            listen=listen[there],
            target=target[there],
            caller=caller,
            ways={
                str(ids[here]): Way(name=link_name(here, there), one_way_ms=rtt_ms(here, there) / 2)
                for here in ids
                if here != there
            },
        )
        for there in ids
    ]
