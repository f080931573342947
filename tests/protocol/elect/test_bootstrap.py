"""Nodes without a record: new clusters, lost disks, and nodes that were away."""

import pytest
from msgspec.structs import replace

from epoxy.protocol.elect import bootstrap
from epoxy.protocol.elect.messages import ServerState
from epoxy.protocol.elect.state import ElectorState
from epoxy.protocol.elect.terms import Mode, ReplicationPosition, ServerReport
from tests.protocol.elect.bench import Table, accepts, offer, record_of, relisted, stages
from tests.protocol.elect.test_lists import joint


def test_a_new_cluster_begins_with_the_primary_of_its_config() -> None:
    table = Table("abc").begin()
    assert [seat.report.leader for seat in table.seats.values()] == ["", "a", "a"]
    assert table["b"].disk == record_of("abc", leader="a")


def test_a_new_cluster_needs_no_election_however_late_its_connections_are() -> None:
    """A node that has met all others waits for the first primary, which must see for itself that all are new."""
    table = Table("abc")
    table.cut |= {("b", "a"), ("c", "a")}
    table.run(500)
    assert table.writing() == []
    table.cut.clear()
    table.begin()
    assert {seat.elector.record.epoch for seat in table.seats.values()} == {1}


def test_a_new_cluster_takes_no_writes_before_every_node_has_a_record() -> None:
    """Else the first primary could die and leave a node behind that never heard of it and so may not vote."""
    table = Table("abc")
    table.cut.add(("a", "c"))
    table.run(900)
    assert table["a"].elector.leading
    assert table["c"].elector.fresh
    assert table.writing() == []
    table.cut.clear()
    while not table.writing():
        table.run(20)
    table.absent.add("a")
    table["a"].report = replace(table["a"].report, alive=False)
    table.run(2_000)
    assert table.writing() == ["b"]


def test_a_new_cluster_whose_first_primary_has_no_server_elects_another() -> None:
    table = Table("abc")
    table["a"].report = replace(table["a"].report, alive=False, mode=Mode.FENCED)
    table.run(4_000)
    assert table.writing() == ["b"]


def test_a_node_without_a_record_waits_for_enough_epochs_of_others() -> None:
    table = Table("abc").begin()
    table.absent.add("a")
    table.run(2_000)
    assert table.writing() == ["b"]
    table["c"].disk = None
    table["c"].restart()
    assert table["c"].elector.server_state(table.now_ms) is ServerState.FRESH
    table.run(3_000)
    assert table["c"].elector.fresh
    table["c"].receive(offer(50, "a"))
    assert accepts(table, "c")[-1].epoch == 2
    table.absent.clear()
    table["a"].report = replace(table["a"].report, alive=True)
    table.run(2_000)
    assert not table["c"].elector.fresh
    assert len(table.writing()) == 1


def test_the_first_primary_without_its_record_does_not_lead_with_an_empty_server() -> None:
    table = Table("abc").begin()
    table["b"].has(1, 50)
    table["c"].has(1, 50)
    table["a"].disk = None
    table["a"].report = replace(table["a"].report, mode=Mode.FENCED, position=ReplicationPosition())
    table["a"].restart()
    table.run(5_000)
    assert table.writing() == ["b"]


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


def test_a_newcomer_learns_the_lists_before_it_has_a_record() -> None:
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
