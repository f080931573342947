"""Nodes without a memory: those that have lost it, and those of a cluster that has just begun."""

from msgspec.structs import replace

from epoxy.protocol.elect import lists as node_lists
from epoxy.protocol.elect.lists import ListFloor, Lists
from epoxy.protocol.elect.messages import Counted, Heartbeat, ServerState
from epoxy.protocol.elect.state import ElectorState
from epoxy.protocol.elect.terms import Send


def recall(mind: ElectorState, now_ms: int) -> None:
    """A node without memory may have voted a moment ago. It waits until no candidate can count that vote, and until so
    many others have told their epochs that one of them knows who won with it. Where no other node has seen an election,
    there was none to vote in; and where none remembers anything, the cluster is new and has a primary."""
    if not mind.fresh:
        return
    recalled_ms = mind.started_ms + mind.timing.recall_ms
    begins = may_begin(mind, in_vain=now_ms >= recalled_ms)
    told = {node for node, peer in mind.peers.items() if peer.remembers and (peer.told_ms or -1) >= recalled_ms}
    if not begins and (now_ms < recalled_ms or not has_witnesses(mind, told)):
        return
    mind.fresh, mind.learned = False, True
    was = mind.record
    epoch = max(mind.seen, was.epoch)
    voted_for = was.voted_for if epoch == was.epoch else ""
    mind.save(replace(was, epoch=epoch, voted_for=voted_for, leader_epoch=max(1, was.leader_epoch)))
    new = begins and epoch == 1 and all(peer.was_fresh for peer in mind.peers.values())
    mind.leading = new and was.leader == mind.me


def has_witnesses(mind: ElectorState, told: set[str]) -> bool:
    """By the lists the others count, not by those of the own file alone: an old file may have come back with an empty
    disk, and this node may have voted by the list that it does not name."""
    return mind.voted_by.has_witnesses(told, mind.me, mind.record.floor)


def may_begin(mind: ElectorState, *, in_vain: bool) -> bool:
    """In a new cluster the first primary must see that all others are new. So these stay as they are until it leads,
    unless that was waited for in vain. Who is told of a change of nodes knows that nothing is new."""
    first = mind.peers.get(mind.config.initial_primary)
    led = first is None or first.has_led
    known = mind.learned or all(peer.was_fresh for peer in mind.peers.values())
    return known and all(peer.was_new for peer in mind.peers.values()) and (led or in_vain)


def should_be_told(mind: ElectorState, heartbeat: Heartbeat) -> bool:
    """Who remembers nothing, and who has the same file and was away while lists changed."""
    behind = heartbeat.stage < mind.lists.stage and heartbeat.list == mind.lists.newest.digest
    return not mind.fresh and (behind or heartbeat.state is ServerState.FRESH)


def tell(mind: ElectorState, node: str) -> None:
    """By which lists others count, and what a node without memory may have promised."""
    floor, lists = mind.record.floor, mind.lists
    counted = Counted(
        epoch=mind.record.epoch,
        node=mind.me,
        stage=lists.stage,
        lists=lists.counted,
        floor_generation=floor.generation,
        floor_list=floor.digest,
    )
    mind.out.append(Send(node, counted))


def on_counted(mind: ElectorState, told: Counted, now_ms: int) -> None:
    """The lists that count are those of the sender, as far as they go up to the one of the own file. To go on to a
    later stage is always allowed; it takes back no promise."""
    theirs = Lists(stage=told.stage, counted=told.lists)
    lists = known_to(mind, theirs)
    mind.voted_by = theirs if theirs.stage > mind.voted_by.stage else mind.voted_by
    mind.peers[told.node].told_ms = now_ms
    if mind.fresh and told.floor_generation > mind.record.floor.generation:
        floor = ListFloor(generation=told.floor_generation, digest=told.floor_list)
        mind.record = replace(mind.record, floor=floor)
    if lists is not None and (not mind.learned or lists.stage > mind.lists.stage):
        mind.learned = True
        mind.count_by(lists)


def known_to(mind: ElectorState, lists: Lists) -> Lists | None:
    mine = mind.lists.newest.digest
    if lists.newest.digest == mine:
        return lists
    return node_lists.undone(lists) if lists.is_joint and lists.counted[0].digest == mine else None


def is_founded(mind: ElectorState) -> bool:
    """The first primary waits until everybody remembers it, and could lose a node from its first write on. Whoever
    remembers nothing when it dies could elect nobody before it is back."""
    return mind.record.leader_epoch > 1 or all(peer.has_joined for peer in mind.peers.values())
