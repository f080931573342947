"""What a node remembers of another, from heartbeats alone."""

from epoxy.protocol.elect.messages import Heartbeat, Role, ServerState
from epoxy.protocol.elect.peer import ElectPeer
from epoxy.protocol.elect.terms import ReplicationPosition


def heartbeat(*, epoch: int = 2, role: Role = Role.REPLICA, state: ServerState = ServerState.BUSY) -> Heartbeat:
    return Heartbeat(
        epoch=epoch,
        node="b",
        role=role,
        offset=70,
        leader_epoch=2,
        leader="a",
        history=2,
        state=state,
        stamp=0,
        echo=0,
        stage=0,
        list="",
    )


def test_a_peer_that_was_never_heard_has_no_record_and_no_data() -> None:
    peer = ElectPeer()
    assert peer.heartbeat_within(1000, 0) is None
    assert not peer.has_record
    assert peer.position == ReplicationPosition()


def test_a_heartbeat_counts_until_it_is_too_old() -> None:
    peer = ElectPeer()
    peer.heard(heartbeat(), 1000)
    assert peer.heartbeat_within(200, 1199) is not None
    assert peer.heartbeat_within(200, 1200) is None
    assert peer.position == ReplicationPosition(2, 70)


def test_having_had_no_record_is_remembered_after_it_has_one() -> None:
    peer = ElectPeer()
    peer.heard(heartbeat(state=ServerState.FRESH), 0)
    assert (peer.was_fresh, peer.was_new, peer.has_joined, peer.has_record) == (True, True, False, False)
    peer.heard(heartbeat(), 1)
    assert (peer.was_fresh, peer.was_new, peer.has_joined, peer.has_record) == (True, True, True, True)


def test_a_peer_of_the_first_epoch_is_new_though_it_has_a_record() -> None:
    peer = ElectPeer()
    peer.heard(heartbeat(epoch=1), 0)
    assert (peer.was_fresh, peer.was_new) == (False, True)


def test_having_led_is_remembered() -> None:
    peer = ElectPeer()
    peer.heard(heartbeat(role=Role.PRIMARY), 0)
    peer.heard(heartbeat(), 1)
    assert peer.has_led
