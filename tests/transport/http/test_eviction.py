"""Which connection goes when too many have proved nothing."""

import pytest

from epoxy.transport.http.eviction import UnprovenSet, source_of


def test_the_oldest_of_the_address_with_the_most_goes() -> None:
    some = UnprovenSet[int](3)
    assert [some.add(number, source) for number, source in enumerate("abb")] == [None, None, None]
    assert some.add(3, "b") == 1
    assert some.add(4, "a") == 0, "two of each: the first address there"
    assert [number in some for number in range(5)] == [False, False, True, True, True]
    some.discard(2)
    some.discard(2)
    assert len(some) == 2
    assert some.add(5, "c") is None


def test_one_crowd_does_not_push_out_another_address() -> None:
    some = UnprovenSet[int](4)
    some.add(-1, "peer")
    gone = [some.add(number, "crowd") for number in range(100)]
    assert -1 in some
    assert gone[3:] == list(range(97)), "the crowd pushes out itself"


@pytest.mark.parametrize(
    ("peername", "source"),
    [
        (("10.0.0.1", 7), "10.0.0.1"),
        (("::ffff:10.0.0.1", 7, 0, 0), "10.0.0.1"),
        (("2001:db8:1:2::1", 7, 0, 0), "20010db800010002"),
        (("2001:db8:1:2:ffff::9", 7, 0, 0), "20010db800010002"),
        (("fe80::1%eth0", 7, 0, 2), "fe80000000000000"),
        (None, ""),
        ("", ""),
    ],
)
def test_networks_of_ipv6_count_as_one(peername: object, source: str) -> None:
    assert source_of(peername) == source
