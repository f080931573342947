"""Whom a node votes for: nobody while it hears a primary, and nobody who lacks what it has."""

from msgspec.structs import replace

from epoxy.protocol.elect import rules
from epoxy.protocol.elect.messages import Acceptance, Offer
from epoxy.protocol.elect.state import ElectorState
from epoxy.protocol.elect.terms import ReplicationPosition, Send


def on_offer(mind: ElectorState, offer: Offer, now_ms: int) -> None:
    if mind.fresh or not would_vote(mind, offer, now_ms):
        return
    if not rules.is_repeated(offer.epoch, offer.node, mind.record):
        mind.save(replace(mind.record, epoch=offer.epoch, voted_for=offer.node))
        stop_standing(mind)
        if offer.node != mind.record.leader:
            mind.resign()
        mind.rest_ms = now_ms + mind.timing.election_timeout_ms
    mind.out.append(Send(offer.node, Acceptance(epoch=offer.epoch, node=mind.me, candidate=offer.node)))


def would_vote(mind: ElectorState, offer: Offer, now_ms: int) -> bool:
    if rules.is_repeated(offer.epoch, offer.node, mind.record):
        return True
    if not rules.grants(mind.record.floor, offer.stage, offer.list):
        return False
    if not rules.is_new(offer.epoch, mind.record) and not should_yield(mind, offer):
        return False
    if mind.hears(now_ms):
        return offer.in_office and offer.node == mind.record.leader and mind.heard_ms is not None
    return rules.may_judge(mind.server) and not lacks(mind, offer)


def lacks(mind: ElectorState, offer: Offer) -> bool:
    """A node that never leads would block everybody with what it alone has, so it does not judge."""
    return mind.promotable and rules.is_worse(ReplicationPosition(offer.history, offer.offset), mind.server.position)


def should_yield(mind: ElectorState, offer: Offer) -> bool:
    """Two candidates in one epoch: the worse takes its own vote back, which nobody but itself has counted."""
    if mind.campaign is None or mind.campaign.epoch != offer.epoch or mind.record.epoch != offer.epoch:
        return False
    theirs = rules.rank(mind.config, offer.node, ReplicationPosition(offer.history, offer.offset))
    return theirs < rules.rank(mind.config, mind.me, mind.server.position)


def stop_standing(mind: ElectorState) -> None:
    """In the same step as the vote: this candidacy is over and will never be announced."""
    mind.campaign = None
