"""Nodes without a memory: those that have lost it, and those of a cluster that has just begun."""

from epoxy.elect.mind import Mind
from epoxy.elect.terms import Record


def recall(mind: Mind, now_ms: int) -> None:
    """A node without memory may have voted a moment ago. It waits until no candidate can count that vote, and until so
    many others have told their epochs that one of them knows who won with it. Where no other node has seen an election,
    there was none to vote in; and where none remembers anything, the cluster is new and has a primary."""
    if not mind.fresh:
        return
    recalled_ms = mind.started_ms + mind.timing.recall_ms
    begins = may_begin(mind, in_vain=now_ms >= recalled_ms)
    told = sum(peer.remembers and peer.at_ms >= recalled_ms for peer in mind.peers.values())
    if not begins and (now_ms < recalled_ms or told < mind.config.witnesses):
        return
    mind.fresh = False
    was = mind.record
    epoch = max(mind.seen, was.epoch)
    voted_for = was.voted_for if epoch == was.epoch else ""
    mind.save(Record(epoch=epoch, voted_for=voted_for, leader_epoch=was.leader_epoch, leader=was.leader))
    new = begins and epoch == 1 and all(peer.was_fresh for peer in mind.peers.values())
    mind.leading = new and was.leader == mind.me


def may_begin(mind: Mind, *, in_vain: bool) -> bool:
    """In a new cluster the first primary must see that all others are new. So these stay as they are until it leads,
    unless that was waited for in vain."""
    first = mind.peers.get(mind.config.initial_primary)
    led = first is None or first.has_led
    return all(peer.was_new for peer in mind.peers.values()) and (led or in_vain)


def is_founded(mind: Mind) -> bool:
    """The first primary waits until everybody remembers it, and could lose a node from its first write on. Whoever
    remembers nothing when it dies could elect nobody before it is back."""
    return mind.record.leader_epoch > 1 or all(peer.has_joined for peer in mind.peers.values())
