"""How one list of nodes replaces another, with electors that run."""

from msgspec.structs import replace

from epoxy.protocol.elect import lists
from epoxy.protocol.elect.lists import ListFloor
from epoxy.protocol.elect.messages import Heartbeat
from epoxy.protocol.elect.terms import Mode, Save
from tests.protocol.elect.bench import TIMING, Table, accepts, config_of, offer, relisted, stages


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
