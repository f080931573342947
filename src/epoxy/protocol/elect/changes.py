"""How a new list of nodes takes effect: what a node promises to a leader that counts it, and when it counts alone."""

from msgspec.structs import replace

from epoxy.protocol.elect import lists, rules
from epoxy.protocol.elect.messages import Heartbeat
from epoxy.protocol.elect.state import ElectorState


def promise(mind: ElectorState, leader: Heartbeat) -> bool:
    """Before a leader is answered: nobody who counts only an older list is answered or elected from here on. False if
    this leader is such a one itself."""
    floor = mind.record.floor
    if not rules.grants(floor, leader.stage, leader.list):
        return False
    raised = rules.raised(floor, leader.stage, leader.list)
    if raised != floor and not mind.fresh:
        mind.save(replace(mind.record, floor=raised))
    return True


def learn(mind: ElectorState, heartbeat: Heartbeat) -> None:
    """That a list counts alone is true once anybody knows it."""
    counted = mind.lists
    if counted.is_joint and heartbeat.stage == counted.stage + 1 and heartbeat.list == counted.newest.digest:
        mind.count_by(lists.settled(counted))


def settle(mind: ElectorState, now_ms: int) -> None:
    """A primary that both lists have elected and answered ends the change. By the old list alone nobody can be elected
    any more: a majority of it has promised so with its answers. And what was acknowledged under it is with one voter of
    every majority of the new one."""
    if mind.lists.is_joint and mind.is_open(now_ms) and has_copies(mind):
        mind.count_by(lists.settled(mind.lists))


def has_copies(mind: ElectorState) -> bool:
    """A server whose last write is of this epoch has all that its primary began with."""
    newest, epoch = mind.lists.newest, mind.record.leader_epoch
    positions = {node: peer.position for node, peer in mind.peers.items()} | {mind.me: mind.server.position}
    return sum(positions[node].history >= epoch for node in newest.ids) >= newest.copies
