"""Fault 7: a full queue to a dead peer drops new messages."""

from epoxy.protocol.elect.messages import Acceptance, Announce, Heartbeat, Role, ServerState
from epoxy.protocol.elect.send_queue import SendQueue


def heartbeat(stamp: int) -> Heartbeat:
    return Heartbeat(
        epoch=1,
        node="a",
        role=Role.PRIMARY,
        offset=0,
        leader_epoch=1,
        leader="a",
        history=1,
        state=ServerState.OPEN,
        stamp=stamp,
        echo=0,
        stage=0,
        list="0" * 16,
    )


def announce(epoch: int) -> Announce:
    return Announce(epoch=epoch, node="a", address="a:1")


def test_fault_7_of_heartbeats_the_newest_is_kept_and_an_announcement_always() -> None:
    box = SendQueue()
    box.put(announce(3))
    for stamp in range(10_000):
        box.put(heartbeat(stamp))
    assert len(box) == 2
    assert box.take() == [announce(3), heartbeat(9_999)]
    assert len(box) == 0


def test_a_higher_epoch_takes_the_place_of_a_lower_one_and_not_the_other_way() -> None:
    box = SendQueue()
    for epoch in (3, 5, 4):
        box.put(announce(epoch))
    assert box.take() == [announce(5)]


def test_messages_leave_in_the_order_in_which_they_came() -> None:
    box = SendQueue()
    vote = Acceptance(epoch=2, node="a", candidate="b")
    for message in (vote, announce(3), heartbeat(1)):
        box.put(message)
    assert box.take() == [vote, announce(3), heartbeat(1)]
