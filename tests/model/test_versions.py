"""Versions of the wire: which one is used, and what is remembered and told of peers."""

from itertools import product

import pytest

from epoxy.model.versions import (
    MAX_PEERS,
    NEWEST_WIRE,
    OLDEST_WIRE,
    UNTOLD,
    PeerVersions,
    WireVersions,
    highest_common,
    no_common_version,
)


def speaking(oldest: int, newest: int, release: str = "9.9.0") -> WireVersions:
    return WireVersions(oldest=oldest, newest=newest, release=release)


@pytest.mark.parametrize(
    ("one", "other", "common"),
    [
        ((5, 5), (5, 5), 5),
        ((5, 6), (5, 5), 5),
        ((5, 6), (6, 7), 6),
        ((5, 8), (6, 7), 7),
        ((5, 5), (6, 6), None),
        ((7, 9), (5, 6), None),
    ],
)
def test_the_highest_version_that_both_speak_is_used(
    one: tuple[int, int], other: tuple[int, int], common: int | None
) -> None:
    assert highest_common(speaking(*one), speaking(*other)) == common
    assert highest_common(speaking(*other), speaking(*one)) == common


def test_both_ends_choose_the_same_version_whatever_they_speak() -> None:
    ranges = [speaking(oldest, newest) for oldest, newest in product(range(1, 6), repeat=2) if oldest <= newest]
    for one, other in product(ranges, repeat=2):
        shared = set(range(one.oldest, one.newest + 1)) & set(range(other.oldest, other.newest + 1))
        assert highest_common(one, other) == max(shared, default=None) == highest_common(other, one)


def test_this_build_and_the_first_release_speak_with_each_other() -> None:
    assert highest_common(speaking(OLDEST_WIRE, NEWEST_WIRE), UNTOLD) == 5


def test_a_mismatch_names_both_ends_and_the_one_that_is_behind() -> None:
    old, new = speaking(5, 5, "0.2.0"), speaking(7, 8, "0.4.0")
    told = no_common_version(1, old, 2, new)
    for words in ("replica 1 (release 0.2.0) speaks 5,", "replica 2 (release 0.4.0) speaks 7 to 8;"):
        assert words in told
    assert "upgrade replica 1," in told
    assert "until it speaks 7" in told
    assert "upgrade replica 1," in no_common_version(2, new, 1, old)


def test_a_peer_is_told_of_once_for_each_thing_it_says() -> None:
    told: list[str] = []
    warned: list[str] = []
    known = PeerVersions(1, speaking(5, 6, "0.2.0"), tell=told.append, warn=warned.append)
    assert known.of(2) is None
    assert known.common(2) is None
    assert known.trouble(2) == ""
    assert [known.heard(2, None), known.heard(2, None)] == [5, 5]
    assert known.of(2) == UNTOLD
    assert told == ["replica 2 runs release 0.1 and speaks wire versions 5"]
    assert known.heard(2, speaking(6, 7, "0.3.0")) == 6
    assert known.common(2) == 6
    assert warned == []
    assert [known.heard(2, speaking(7, 9, "0.5.0"))] * 2 == [None, None]
    assert len(told) == 3
    assert warned == [f"replica 2 is not spoken to: {known.trouble(2)}"]
    assert known.mismatches == 1
    assert known.common(2) is None


def test_releases_by_replica() -> None:
    known = PeerVersions(1, speaking(5, 6, "0.2.0"))
    known.heard(2, speaking(5, 5, "0.3.0"))
    assert [known.release_of(replica) for replica in (1, 2, 3)] == ["0.2.0", "0.3.0", ""]


def test_as_many_peers_are_remembered_as_there_can_be() -> None:
    known = PeerVersions(1, speaking(5, 6))
    for peer in range(2, MAX_PEERS + 10):
        assert known.heard(peer, speaking(5, 5)) == 5
    remembered = [peer for peer in range(2, MAX_PEERS + 10) if known.of(peer) is not None]
    assert len(remembered) == MAX_PEERS
    assert known.heard(2, speaking(6, 6)) == 6
    assert known.of(2) == speaking(6, 6)
