"""Fault 9, the rest of it: how one list of nodes gives way to another."""

import pytest
from msgspec.structs import replace

from epoxy.model.address import Address
from epoxy.model.errors import ConfigError
from epoxy.protocol.elect import lists
from epoxy.protocol.elect.config import ElectConfig
from epoxy.protocol.elect.lists import ListFloor, Lists, at_start, compatible, first, settled
from tests.protocol.elect.bench import config_of

NOTHING = ListFloor()


def joint(old: str, new: str) -> Lists:
    return at_start(first(config_of(old)), NOTHING, config_of(new))


def test_a_node_that_finds_another_list_counts_both() -> None:
    both = joint("abc", "abcde")
    assert (both.stage, both.joining, both.leaving) == (1, ("d", "e"), ())
    assert not both.has_majority("cde")
    assert not both.has_majority("ab")
    assert both.has_majority("abd")
    assert settled(both) == Lists(stage=2, counted=(lists.list_of(config_of("abcde")),))
    assert joint("abcde", "abc").leaving == ("d", "e")


def test_the_same_list_in_another_order_changes_nothing() -> None:
    known = first(config_of("abc"))
    assert at_start(known, NOTHING, config_of("cba", initial_primary="a")).stage == 0


def test_addresses_may_change_if_the_list_does_not() -> None:
    config = config_of("abc")
    moved = replace(config, nodes=(replace(config.nodes[0], server=Address("elsewhere", 1)), *config.nodes[1:]))
    known = at_start(first(config), NOTHING, moved)
    assert (known.stage, known.newest.digest) == (0, first(config).newest.digest)
    assert known.nodes[0].server.host == "elsewhere"


def moved_and_more() -> ElectConfig:
    config = config_of("abcd")
    return replace(config, nodes=(replace(config.nodes[0], priority=7), *config.nodes[1:]))


@pytest.mark.parametrize(
    ("known", "floor", "wanted", "words"),
    [
        (joint("abc", "abcd"), NOTHING, config_of("abcde"), "is not finished here; one at a time"),
        (joint("abc", "abcd"), NOTHING, config_of("abcde"), "empty its node.data_dir"),
        (joint("abc", "abcd"), ListFloor(generation=1, digest="d"), config_of("abc"), "cannot be taken back"),
        (first(config_of("abcde")), NOTHING, config_of("ab"), "keep a majority of the old list (3)"),
        (first(config_of("abc")), NOTHING, config_of("ade"), "of (a, b, c) only a would stay"),
        (
            first(config_of("abc")),
            NOTHING,
            moved_and_more(),
            "a would change address or priority together with the list",
        ),
        (
            first(config_of("abc")),
            ListFloor(generation=1, digest="x"),
            config_of("abcd"),
            "already gone from (a, b, c) to",
        ),
    ],
)
def test_anything_else_is_refused_with_the_way_to_do_it(
    known: Lists, floor: ListFloor, wanted: ElectConfig, words: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        at_start(known, floor, wanted)
    assert words in str(refused.value)


def test_one_of_two_may_leave() -> None:
    assert joint("ab", "a").leaving == ("b",)


def test_a_change_without_an_election_can_be_taken_back() -> None:
    assert at_start(joint("abc", "abcd"), NOTHING, config_of("abc")) == first(config_of("abc"))


@pytest.mark.parametrize(
    ("one", "other", "may"),
    [
        ("0:x", "0:x", True),
        ("0:x", "0:y", False),
        ("0:x", "0:x,1:y", True),
        ("0:x,1:y", "0:x,1:z", False),
        ("0:x", "1:y", False),
        ("0:x,1:y", "1:y,2:z", True),
        ("0:x,1:z", "2:z", True),
        ("?:y", "0:x", False),
        ("?:y", "0:x,1:y", True),
        ("?:y", "?:y", True),
    ],
)
def test_which_nodes_accept_each_other(one: str, other: str, may: bool) -> None:
    assert compatible(one, other) is may
    assert compatible(other, one) is may
