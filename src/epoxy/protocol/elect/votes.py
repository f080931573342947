"""When a node votes: only while it hears no primary, and only for a candidate that has at least its own data."""

from msgspec.structs import replace

from epoxy.protocol.elect import rules
from epoxy.protocol.elect.messages import Acceptance, Offer
from epoxy.protocol.elect.state import ElectorState
from epoxy.protocol.elect.terms import ReplicationPosition, Send


def on_offer(state: ElectorState, offer: Offer, now_ms: int) -> None:
    """A vote ends the node's own candidacy in the same step, so a candidacy that yielded is never announced."""
    if state.fresh or not would_vote(state, offer, now_ms):
        return
    if not rules.is_repeated(offer.epoch, offer.node, state.record):
        state.save(replace(state.record, epoch=offer.epoch, voted_for=offer.node))
        state.campaign = None
        if offer.node != state.record.leader:
            state.resign()
        state.next_candidacy_ms = now_ms + state.timing.election_timeout_ms
    state.effects.append(Send(offer.node, Acceptance(epoch=offer.epoch, node=state.me, candidate=offer.node)))


def would_vote(state: ElectorState, offer: Offer, now_ms: int) -> bool:
    if rules.is_repeated(offer.epoch, offer.node, state.record):
        return True
    if not rules.grants(state.record.floor, offer.stage, offer.list):
        return False
    if not rules.is_new(offer.epoch, state.record) and not should_yield(state, offer):
        return False
    if state.has_live_primary(now_ms):
        return offer.in_office and offer.node == state.record.leader and state.leader_heard_ms is not None
    return rules.may_judge(state.server) and not lacks(state, offer)


def lacks(state: ElectorState, offer: Offer) -> bool:
    """Whether the candidate lacks data that this node has. A node that never leads does not compare: data that it alone
    has would block every election."""
    return state.promotable and rules.is_worse(ReplicationPosition(offer.history, offer.offset), state.server.position)


def should_yield(state: ElectorState, offer: Offer) -> bool:
    """Of two candidates in one epoch the worse withdraws the vote for itself, which no other node has counted."""
    if state.campaign is None or state.campaign.epoch != offer.epoch or state.record.epoch != offer.epoch:
        return False
    theirs = rules.rank(state.config, offer.node, ReplicationPosition(offer.history, offer.offset))
    return theirs < rules.rank(state.config, state.me, state.server.position)
