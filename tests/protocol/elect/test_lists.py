"""Fault 9, the rest of it: how one list of nodes gives way to another."""

import pytest
from msgspec.structs import replace

from epoxy.model.address import Address
from epoxy.model.errors import ConfigError
from epoxy.protocol.elect import bootstrap, lists
from epoxy.protocol.elect.config import ElectConfig
from epoxy.protocol.elect.lists import ListFloor, Lists, at_start, compatible, first, settled
from epoxy.protocol.elect.messages import Heartbeat, ServerState
from epoxy.protocol.elect.state import ElectorState
from epoxy.protocol.elect.terms import Mode, Save, ServerReport
from tests.protocol.elect.bench import TIMING, Table, accepts, config_of, offer

NOTHING = ListFloor()


def joint(old: str, new: str) -> Lists:
    return at_start(first(config_of(old)), NOTHING, config_of(new))


def test_who_finds_another_list_counts_both() -> None:
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


def test_a_change_that_nobody_was_elected_by_can_be_taken_back() -> None:
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
def test_who_listens_to_whom(one: str, other: str, may: bool) -> None:
    assert compatible(one, other) is may
    assert compatible(other, one) is may


# At a table


def relisted(table: Table, names: str, node: str) -> None:
    """The agent of this node is restarted with another list in its file."""
    seat = table.seats.get(node)
    if seat is None:
        seat = table.seat(node, config_of(names, initial_primary=names[0]))
    else:
        seat.config = config_of(names, initial_primary=names[0])
        seat.report = replace(seat.report, mode=Mode.FENCED, leader="")
        seat.restart()


def stages(table: Table) -> dict[str, int]:
    return {name: seat.elector.lists.stage for name, seat in table.seats.items() if name not in table.absent}


def test_a_rolling_restart_from_three_to_five_and_to_three_again() -> None:
    """`run` looks at every moment that no two take writes."""
    table = Table("abc").begin()
    for node in "decba":
        relisted(table, "abcde", node)
        table.run(1_500)
    table.run(4_000)
    assert stages(table) == dict.fromkeys("abcde", 2)
    (primary,) = table.writing()
    for node in "cde":
        relisted(table, "cde", node)
        table.run(1_500)
    table.absent |= {"a", "b"}
    for node in "ab":
        table[node].report = replace(table[node].report, alive=False, mode=Mode.FENCED)
    table.run(5_000)
    assert stages(table) == dict.fromkeys("cde", 4)
    assert table.writing()[0] in "cde"
    assert primary in "abcde"


def test_the_new_list_is_no_majority_without_the_old_one() -> None:
    """As many as the issue had: c, d and e are three of five, and a with b two of three."""
    table = Table("abc").begin()
    for node in "dec":
        relisted(table, "abcde", node)
    for one in "ab":
        table.cut |= {(one, other) for other in "cde"} | {(other, one) for other in "cde"}
    table.run(10_000)
    assert table.writing() == ["a"]
    assert stages(table)["c"] == 1


def test_an_answer_to_a_leader_of_the_new_list_is_a_promise_and_durable_before_it() -> None:
    table = Table("abcde").begin()
    for node in "bca":
        relisted(table, "abc", node)
        table.run(1_500)
    table.run(3_000)
    assert stages(table) == {"a": 2, "b": 2, "c": 2, "d": 0, "e": 0}
    leaving = table["e"]
    assert leaving.disk is not None
    assert leaving.disk.floor.generation == 1
    assert leaving.report.mode is Mode.FENCED
    epoch = leaving.elector.record.epoch
    table.now_ms += 2 * TIMING.down_after_ms
    leaving.look()
    leaving.receive(offer(epoch + 50, "d"))
    assert [vote.candidate for vote in accepts(table, "e")] == ["b"]
    assert leaving.elector.is_outdated


def test_a_leader_of_the_new_list_is_answered_only_behind_the_save() -> None:
    table = Table("abcde").begin()
    seat = table["e"]
    beat = [m for to, m in table["a"].sent if to == "e" and isinstance(m, Heartbeat)][-1]
    digest = lists.list_of(config_of("abc")).digest
    effects = seat.elector.receive(replace(beat, stage=1, list=digest, stamp=beat.stamp + 1), table.now_ms + 95)
    assert isinstance(effects[0], Save)
    assert effects[0].record.floor == ListFloor(generation=1, digest=digest)


def test_a_node_that_was_away_during_two_changes_is_told() -> None:
    """Three, five, and the same three again: its own file and record look as if nothing had happened."""
    table = Table("abc").begin()
    table.absent.add("c")
    for node in "deba":
        relisted(table, "abde", node)
        table.run(1_500)
    table.run(3_000)
    assert {stage for name, stage in stages(table).items() if name in "abde"} == {2}
    for node in "abd":
        relisted(table, "abcd", node)
        table.run(1_500)
    table.absent.add("e")
    table.run(5_000)
    table.absent.discard("c")
    relisted(table, "abcd", "c")
    assert table["c"].elector.lists.stage == 1
    table.run(4_000)
    assert stages(table) == dict.fromkeys("abcd", 4)
    assert len(table.writing()) == 1


def test_a_list_takes_no_effect_before_its_nodes_have_the_data() -> None:
    table = Table("abc").begin()
    table.copying = False
    for node in "dcba":
        relisted(table, "abcd", node)
        table.run(1_500)
    table.run(3_000)
    (primary,) = table.writing()
    assert stages(table) == dict.fromkeys("abcd", 1)
    other = next(name for name in "abcd" if name != primary)
    table[other].has(table[primary].elector.record.leader_epoch, 7)
    table.run(500)
    assert stages(table) == dict.fromkeys("abcd", 2)


def test_a_newcomer_learns_the_lists_before_it_remembers_anything() -> None:
    table = Table("abc").begin()
    relisted(table, "abcd", "d")
    table.run(3_000)
    assert table["d"].elector.server_state(table.now_ms) is ServerState.FRESH
    relisted(table, "abcd", "c")
    relisted(table, "abcd", "b")
    table.run(3_000)
    assert table["d"].elector.lists == joint("abc", "abcd")
    assert table["d"].disk is not None


def parted(table: Table, one: str, other: str) -> None:
    """Those of `one` and those of `other` do not hear each other; all else do."""
    table.cut = {pair for a in one for b in other for pair in ((a, b), (b, a))}


def disk_lost_after_a_change(file: str) -> Table:
    """The new list counts alone for b, d and e, who elect e by it; a and c have not heard of that. Then b loses its
    disk, comes back with this file, and hears a and c alone: three of five with it, who would elect one of them in the
    epoch in which b has voted for e."""
    table = Table("abc").begin()
    table.copying = False
    for node in "decba":
        relisted(table, "abcde", node)
        table.run(1_500)
    (primary,) = table.writing()
    assert table[primary].elector.hand_over("d", table.now_ms) is None
    table["d"].has(table[primary].report.position.history, 9)
    table.run(1_000)
    assert table.writing() == ["d"]
    assert stages(table) == dict.fromkeys("abcde", 1)
    parted(table, "ac", "bde")
    epoch = table["d"].elector.record.epoch
    for node in "bde":
        table[node].has(epoch, 10)
    table.run(200)
    assert table["d"].elector.hand_over("e", table.now_ms) is None
    table.run(2_000)
    assert (table.writing(), stages(table)) == (["e"], {"a": 1, "b": 2, "c": 1, "d": 2, "e": 2})
    parted(table, "abc", "de")
    table["b"].disk = None
    table["b"].report = ServerReport(alive=True, mode=Mode.FENCED)
    relisted(table, file, "b")
    table.run(10_000)
    return table


@pytest.mark.parametrize("file", ["abc", "abcde"])
def test_a_lost_disk_is_made_good_by_witnesses_of_all_lists_whatever_the_file_says(file: str) -> None:
    table = disk_lost_after_a_change(file)
    assert table["b"].elector.server_state(table.now_ms) is ServerState.FRESH
    assert table.writing() == []
    assert {table[node].elector.record.leader for node in "ac"} == {"d"}


def test_witnesses_of_the_own_file_alone_are_too_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rule above, broken: the story notices."""

    def of_the_own_file(state: ElectorState, told: set[str]) -> bool:
        return state.lists.has_witnesses(told, state.me, state.record.floor)

    monkeypatch.setattr(bootstrap, "has_witnesses", of_the_own_file)
    table = disk_lost_after_a_change("abc")
    assert table["b"].elector.server_state(table.now_ms) is not ServerState.FRESH
