"""When heartbeats are sent, and what a leader's heartbeat does."""

from epoxy.protocol.elect import heartbeats
from epoxy.protocol.elect.messages import Heartbeat
from tests.protocol.elect.bench import TIMING, Table, leaderless


def test_a_new_leader_is_answered_at_once() -> None:
    """Its server opens two round trips after the votes, not a heartbeat later."""
    table = leaderless()
    while not table["b"].elector.leading:
        table.run(20)
    assert table.writing() == ["b"]


def test_all_beat_when_the_leader_does() -> None:
    """So that idle nodes wake up together."""
    table = Table("abc").begin()
    told = len(table["c"].sent)
    table.now_ms += TIMING.hb_interval_ms // 2
    table["c"].receive(heartbeats.heartbeat_of(table["a"].elector, table.now_ms, echo=0))
    assert [type(message) for _, message in table["c"].sent[told:]] == [Heartbeat, Heartbeat]
    assert table["c"].elector.due_ms(table.now_ms) > table.now_ms + TIMING.hb_interval_ms
    told = len(table["c"].sent)
    table.now_ms += TIMING.hb_interval_ms // 4
    table["c"].receive(heartbeats.heartbeat_of(table["a"].elector, table.now_ms, echo=0))
    assert table["c"].sent[told:] == []
