"""How a new list of nodes takes effect: what a node promises to a leader that counts it, and when it counts alone."""

from msgspec.structs import replace

from epoxy.protocol.elect import lists, rules
from epoxy.protocol.elect.messages import Heartbeat
from epoxy.protocol.elect.state import ElectorState


def promise(state: ElectorState, leader: Heartbeat) -> bool:
    """Called before a leader is answered: from then on this node answers and elects no node that counts only an older
    list. False if the leader itself counts only an older one."""
    floor = state.record.floor
    if not rules.grants(floor, leader.stage, leader.list):
        return False
    raised = rules.raised(floor, leader.stage, leader.list)
    if raised != floor and not state.fresh:
        state.save(replace(state.record, floor=raised))
    return True


def adopt_settled(state: ElectorState, heartbeat: Heartbeat) -> None:
    """Count the new list alone as soon as any node does: the change is over then."""
    counted = state.lists
    if counted.is_joint and heartbeat.stage == counted.stage + 1 and heartbeat.list == counted.newest.digest:
        state.use_lists(lists.settled(counted))


def settle(state: ElectorState, now_ms: int) -> None:
    """A primary that both lists have elected and answered ends the change. No node can be elected by the old list alone
    any more: a majority of it promised that with its answers. And every majority of the new list includes a node that
    has what was acknowledged under the old one."""
    if state.lists.is_joint and state.is_open(now_ms) and has_copies(state):
        state.use_lists(lists.settled(state.lists))


def has_copies(state: ElectorState) -> bool:
    """A server whose last write is of this epoch has everything its primary began with."""
    newest, epoch = state.lists.newest, state.record.leader_epoch
    positions = {node: peer.position for node, peer in state.peers.items()} | {state.me: state.server.position}
    return sum(positions[node].history >= epoch for node in newest.ids) >= newest.copies
