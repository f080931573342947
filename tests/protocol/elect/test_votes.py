"""When a node votes, and what its vote ends."""

from msgspec.structs import replace

from epoxy.protocol.elect.messages import Heartbeat
from epoxy.protocol.elect.terms import Mode, ReplicationPosition
from tests.protocol.elect.bench import TIMING, Table, accepts, leaderless, offer


def test_a_server_stops_following_before_its_node_votes() -> None:
    """What it receives behind its vote would count for the old primary and be unknown to the new one."""
    table = leaderless("abcde")
    table.run(1_100)
    voter = table["d"]
    voter.report = replace(voter.report, mode=Mode.FOLLOWING, leader="a", position=ReplicationPosition(1, 1))
    voter.elector.server = voter.report
    epoch = voter.elector.record.epoch
    voter.receive(offer(epoch + 50, "e"))
    assert voter.elector.record.epoch == epoch


def test_a_voter_answers_no_leader_of_an_earlier_epoch() -> None:
    """That election may be won without this node hearing of it: its answer would keep two leases running."""
    table = Table("abcde").begin()
    table.isolate("e")
    table.run(1_100)
    voter = table["e"]
    voter.receive(offer(7, "d"))
    assert len(accepts(table, "e")) == 1
    (said,) = [m for to, m in table["a"].sent if to == "e" and isinstance(m, Heartbeat)][-1:]
    voter.sent.clear()
    voter.receive(replace(said, stamp=said.stamp + 1))
    voter.perform(voter.elector.tick(table.now_ms + TIMING.hb_interval_ms))
    answers = [m.echo for to, m in voter.sent if to == "a" and isinstance(m, Heartbeat)]
    assert answers
    assert set(answers) == {0}
    assert voter.report.mode is Mode.FENCED


def test_a_restarted_node_votes_only_after_down_after_ms() -> None:
    table = Table("abc").begin()
    table.isolate("c")
    table["c"].restart()
    table.now_ms += TIMING.down_after_ms - 1
    table["c"].receive(offer(9, "b"))
    assert accepts(table, "c") == []
    table.now_ms += 1
    table["c"].look()
    table["c"].receive(offer(9, "b"))
    assert len(accepts(table, "c")) == 1
