"""What follows from a node's state alone."""

from epoxy.model.address import Address
from epoxy.protocol.elect import lists
from epoxy.protocol.elect.config import ElectConfig, ElectNode
from epoxy.protocol.elect.messages import Role, ServerState
from epoxy.protocol.elect.state import ElectorState
from epoxy.protocol.elect.terms import ElectRecord, Mode, Save, ServerReport

NODES = tuple(ElectNode(id=name, control=Address(name, 1), server=Address(name, 2)) for name in "abc")
CONFIG = ElectConfig(cluster="c", nodes=NODES, initial_primary="a")
LISTS = lists.first(CONFIG)


def state_of(me: str, *, leader: str = "a") -> ElectorState:
    record = ElectRecord(epoch=2, voted_for=leader, leader_epoch=2, leader=leader, lists=LISTS)
    return ElectorState(CONFIG, me, record, 0, lambda low, _: low)


def test_a_node_without_a_record_is_fresh_and_saves_nothing() -> None:
    state = ElectorState(CONFIG, "b", None, 0, lambda low, _: low)
    assert state.server_state(0) is ServerState.FRESH
    assert state.effects == []
    assert set(state.peers) == {"a", "c"}


def test_after_a_restart_the_leader_counts_as_alive_for_a_while() -> None:
    state = state_of("b")
    assert state.has_live_primary(CONFIG.timing.down_after_ms - 1)
    assert not state.has_live_primary(CONFIG.timing.down_after_ms)
    assert not state.answers(0)


def test_a_fenced_server_is_ready_and_one_that_does_not_answer_is_down() -> None:
    state, late_ms = state_of("b"), CONFIG.timing.down_after_ms
    state.server = ServerReport(alive=True, mode=Mode.FENCED)
    assert state.server_state(late_ms) is ServerState.READY
    state.server = ServerReport(alive=False, mode=Mode.FENCED)
    assert state.server_state(late_ms) is ServerState.DOWN


def test_a_leader_is_open_while_its_lease_runs_and_resigning_ends_it() -> None:
    state = state_of("a")
    state.leading, state.lease_end_ms, state.server = True, 100, ServerReport(alive=True, mode=Mode.OPEN)
    assert (state.is_open(99), state.is_open(100)) == (True, False)
    roles = [state.role]
    state.resign()
    assert not state.is_open(99)
    assert [*roles, state.role] == [Role.PRIMARY, Role.REPLICA]


def test_lists_are_saved_when_they_change_and_only_then() -> None:
    state = state_of("a")
    state.use_lists(state.lists)
    assert state.effects == []
    smaller = ElectConfig(cluster="c", nodes=NODES[:2], initial_primary="a")
    state.use_lists(lists.first(smaller))
    assert state.effects == [Save(state.record)]
    assert set(state.peers) == {"b"}
