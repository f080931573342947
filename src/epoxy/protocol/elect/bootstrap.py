"""Nodes without a record: those that lost their disk, and those of a new cluster."""

from msgspec.structs import replace

from epoxy.protocol.elect import lists as node_lists
from epoxy.protocol.elect.lists import ListFloor, Lists
from epoxy.protocol.elect.messages import Counted, Heartbeat, ServerState
from epoxy.protocol.elect.state import ElectorState
from epoxy.protocol.elect.terms import Send


def join(state: ElectorState, now_ms: int) -> None:
    """Begin to take part in elections. A node without a record may have voted just before it lost it, so it waits until
    no candidate can count that vote any more, and until enough others have reported their epochs that one of them
    knows every election won with it. There is nothing to wait for if no other node has seen an election yet. If no
    other node has a record either, the cluster is new and `initial_primary` leads it."""
    if not state.fresh:
        return
    rejoin_ms = state.started_ms + state.timing.rejoin_ms
    begins = may_begin(state, timed_out=now_ms >= rejoin_ms)
    witnesses = {node for node, peer in state.peers.items() if peer.has_record and (peer.lists_ms or -1) >= rejoin_ms}
    if not begins and (now_ms < rejoin_ms or not has_witnesses(state, witnesses)):
        return
    state.fresh, state.knows_lists = False, True
    before = state.record
    epoch = max(state.highest_epoch, before.epoch)
    voted_for = before.voted_for if epoch == before.epoch else ""
    state.save(replace(before, epoch=epoch, voted_for=voted_for, leader_epoch=max(1, before.leader_epoch)))
    new = begins and epoch == 1 and all(peer.was_fresh for peer in state.peers.values())
    state.leading = new and before.leader == state.me


def has_witnesses(state: ElectorState, nodes: set[str]) -> bool:
    """By the lists that the others count, not by the node's own file: if an old file comes back with an empty disk, the
    node may have voted by a list that its file does not name."""
    return state.reported_lists.has_witnesses(nodes, state.me, state.record.floor)


def may_begin(state: ElectorState, *, timed_out: bool) -> bool:
    """The first primary of a new cluster must see that all others are new. So the others stay fresh until it leads, or
    until they have waited `rejoin_ms` for it. A node that was sent lists (`COUNTED`) knows that the cluster is not
    new."""
    first = state.peers.get(state.config.initial_primary)
    led = first is None or first.has_led
    known = state.knows_lists or all(peer.was_fresh for peer in state.peers.values())
    return known and all(peer.was_new for peer in state.peers.values()) and (led or timed_out)


def needs_lists(state: ElectorState, heartbeat: Heartbeat) -> bool:
    """Whether the sender has no record, or has the same file and was away while the lists changed."""
    behind = heartbeat.stage < state.lists.stage and heartbeat.list == state.lists.newest.digest
    return not state.fresh and (behind or heartbeat.state is ServerState.FRESH)


def send_lists(state: ElectorState, node: str) -> None:
    floor, lists = state.record.floor, state.lists
    counted = Counted(
        epoch=state.record.epoch,
        node=state.me,
        stage=lists.stage,
        lists=lists.counted,
        floor_generation=floor.generation,
        floor_list=floor.digest,
    )
    state.effects.append(Send(node, counted))


def on_counted(state: ElectorState, counted: Counted, now_ms: int) -> None:
    """Adopt the sender's lists as far as they lead to the list of this node's file. Going on to a later stage is always
    safe: it takes back no promise."""
    theirs = Lists(stage=counted.stage, counted=counted.lists)
    lists = leading_here(state, theirs)
    state.reported_lists = theirs if theirs.stage > state.reported_lists.stage else state.reported_lists
    state.peers[counted.node].lists_ms = now_ms
    if state.fresh and counted.floor_generation > state.record.floor.generation:
        floor = ListFloor(generation=counted.floor_generation, digest=counted.floor_list)
        state.record = replace(state.record, floor=floor)
    if lists is not None and (not state.knows_lists or lists.stage > state.lists.stage):
        state.knows_lists = True
        state.use_lists(lists)


def leading_here(state: ElectorState, lists: Lists) -> Lists | None:
    """The lists, cut where they go beyond the one of this node's file; None if they do not contain it."""
    mine = state.lists.newest.digest
    if lists.newest.digest == mine:
        return lists
    return node_lists.undone(lists) if lists.is_joint and lists.counted[0].digest == mine else None


def is_founded(state: ElectorState) -> bool:
    """The first primary opens its server when every node has a record. If it opened with a majority and died, a node
    without a record could not vote, and the rest could elect no primary before it came back."""
    return state.record.leader_epoch > 1 or all(peer.has_joined for peer in state.peers.values())
