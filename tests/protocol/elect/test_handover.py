"""A primary that makes way, on a command or because its agent ends."""

from msgspec.structs import replace

from epoxy.protocol.elect.messages import Offer
from epoxy.protocol.elect.terms import Mode
from tests.protocol.elect.bench import TIMING, Table, config_of


def test_a_planned_failover_waits_for_the_heir_and_goes_to_it() -> None:
    table = Table("abc").begin()
    for name in "abc":
        table[name].has(1, 70)
    table["c"].has(1, 60)
    table.run(100)
    assert table["a"].elector.hand_over("c", table.now_ms) is None
    table.run(200)
    assert table["a"].report.mode is Mode.QUIET
    table["c"].has(1, 70)
    table.run(400)
    assert table.writing() == ["c"]


def test_a_planned_failover_to_a_node_that_stays_behind_is_given_up() -> None:
    table = Table("abc").begin()
    table["a"].has(1, 70)
    table["c"].has(1, 60)
    table.run(100)
    assert table["a"].elector.hand_over("c", table.now_ms) is None
    table.run(TIMING.election_timeout_ms + 100)
    assert table.writing() == ["a"]


def test_a_planned_failover_is_refused_with_a_reason() -> None:
    nodes = tuple(replace(node, priority=0 if node.id == "c" else 100) for node in config_of("abc").nodes)
    table = Table("abc", nodes=nodes).begin()
    elector = table["a"].elector
    assert "no node 'z'; there are a, b, c" in (elector.hand_over("z", table.now_ms) or "")
    assert "already" in (elector.hand_over("a", table.now_ms) or "")
    assert "never leads" in (elector.hand_over("c", table.now_ms) or "")
    assert "ask a" in (table["b"].elector.hand_over("a", table.now_ms) or "")
    table.cut.add(("b", "a"))
    table.run(500)
    assert table.writing() == ["a"] or table.writing() == []
    assert "no recent heartbeat of b" in (elector.hand_over("b", table.now_ms) or "") or "not the primary" in (
        elector.hand_over("b", table.now_ms) or ""
    )


def test_a_planned_failover_to_a_node_that_falls_silent_is_given_up_at_once() -> None:
    table = Table("abc").begin()
    table["a"].has(1, 70)
    table.run(100)
    assert table["a"].elector.hand_over("c", table.now_ms) is None
    table.absent.add("c")
    table.run(TIMING.fresh_ms + 20)
    assert table["a"].elector.handing is None
    assert table.writing() == ["a"]


def test_an_agent_that_ends_hands_over_to_one_that_has_everything() -> None:
    """What the others had when it was told to end says little of what they have when its server is closed."""
    table = Table("abc").begin()
    table["a"].has(1, 70)
    table.run(100)
    table["a"].perform(table["a"].elector.retire(table.now_ms))
    table.run(200)
    assert table["a"].report.mode is Mode.QUIET
    table["b"].has(1, 70)
    table.run(400)
    assert table.writing() == ["b"]
    assert table["a"].elector.has_stepped_down


def test_an_agent_that_ends_does_not_wait_long_for_an_heir() -> None:
    table = Table("abc").begin()
    table["a"].has(1, 70)
    table["c"].has(1, 60)
    table.run(100)
    table["a"].perform(table["a"].elector.retire(table.now_ms))
    table.run(TIMING.election_timeout_ms + 100)
    assert table["a"].elector.has_stepped_down
    table.absent.add("a")
    table.run(TIMING.fresh_ms + 200)
    assert table.writing() == ["c"]


def test_an_agent_that_ends_makes_way_first() -> None:
    table = Table("abc").begin()
    for name in "abc":
        table[name].has(1, 70)
    table.run(100)
    table["a"].perform(table["a"].elector.retire(table.now_ms))
    table.run(200)
    assert table.writing() == ["b"]
    assert not any(isinstance(message, Offer) for _, message in table["a"].sent)
