"""Heartbeats: which node leads, which nodes answer it, and until when it may write."""

from msgspec.structs import replace

from epoxy.protocol.elect import bootstrap, changes, rules
from epoxy.protocol.elect.messages import Heartbeat, Role
from epoxy.protocol.elect.state import ElectorState
from epoxy.protocol.elect.terms import Save, Send

LATE_FRACTION = 20
"""A follower sends its heartbeat by itself when the leader's is late by this fraction of an interval."""


def on_heartbeat(state: ElectorState, heartbeat: Heartbeat, now_ms: int) -> None:
    sender = heartbeat.node
    peer = state.peers[sender]
    peer.heard(heartbeat, now_ms)
    if bootstrap.needs_lists(state, heartbeat):
        bootstrap.send_lists(state, sender)
    changes.adopt_settled(state, heartbeat)
    state.highest_epoch = max(state.highest_epoch, heartbeat.leader_epoch)
    adopt(state, heartbeat.leader_epoch, heartbeat.leader, now_ms)
    claim = (heartbeat.leader_epoch, heartbeat.leader)
    if claim != (state.record.leader_epoch, state.record.leader):
        return
    if sender == state.record.leader:
        hear_leader(state, heartbeat, now_ms)
    elif state.leading and heartbeat.echo:
        sent_ms = rules.stamped_ms(state.life, heartbeat.echo, state.started_ms)
        if sent_ms is not None:
            peer.answered_ms = max(sent_ms, peer.answered_ms or 0)
            prolong(state, now_ms)


def hear_leader(state: ElectorState, heartbeat: Heartbeat, now_ms: int) -> None:
    """A leader that says it does not lead has resigned for good, but its server may still be open. Only when that is
    closed too does the wait for this leader end."""
    if heartbeat.role is Role.PRIMARY:
        if not changes.promise(state, heartbeat):
            return
        beat_along(state, now_ms)
        state.leader_heard_ms, state.leader_stamp = now_ms, heartbeat.stamp
    elif rules.has_closed(heartbeat):
        state.leader_heard_ms, state.leader_assumed_until_ms = None, now_ms


def beat_along(state: ElectorState, now_ms: int) -> None:
    """Answer a new leader at once: it waits for its first lease. Otherwise beat when the leader does, so that an idle
    node wakes up once for all heartbeats and not once for each."""
    if state.leader_stamp == 0 or state.next_beat_ms - now_ms <= state.timing.hb_interval_ms // 2:
        state.next_beat_ms = now_ms


def adopt(state: ElectorState, epoch: int, leader: str, now_ms: int) -> None:
    """Follow the higher claim, whichever node reports it. A node that lost its record may learn that it led itself. A
    node that is new in the list may never hear this leader and has promised it nothing, so it does not wait for it."""
    known = leader in state.peers or (state.fresh and leader == state.me)
    if not known or not rules.is_higher_claim(epoch, state.record):
        return
    voted_for = state.record.voted_for if epoch == state.record.epoch else ""
    state.record = replace(state.record, epoch=epoch, voted_for=voted_for, leader_epoch=epoch, leader=leader)
    if not state.fresh:
        state.effects.append(Save(state.record))
    state.resign()
    state.heir = ""
    counts_here = state.me in state.lists.counted[0].ids
    state.leader_heard_ms, state.leader_stamp = now_ms if counts_here else None, 0


def prolong(state: ElectorState, now_ms: int) -> None:
    """The lease is extended from what a majority has answered."""
    if state.leading:
        answered = {node: peer.answered_ms for node, peer in state.peers.items() if peer.answered_ms is not None}
        lease_end_ms = rules.lease_end({**answered, state.me: now_ms}, state.lists, state.timing.lease_ms)
        state.lease_end_ms = max(state.lease_end_ms, lease_end_ms)


def beat(state: ElectorState, now_ms: int) -> None:
    state.next_beat_ms = now_ms + state.timing.hb_interval_ms
    if state.answers(now_ms):
        state.next_beat_ms += state.timing.hb_interval_ms // LATE_FRACTION
    usual = heartbeat_of(state, now_ms, echo=0)
    for node in state.peers:
        answers = node == state.record.leader and state.answers(now_ms)
        state.effects.append(Send(node, heartbeat_of(state, now_ms, echo=state.leader_stamp) if answers else usual))


def heartbeat_of(state: ElectorState, now_ms: int, *, echo: int) -> Heartbeat:
    return Heartbeat(
        epoch=state.record.epoch,
        node=state.me,
        role=state.role,
        offset=state.server.position.offset,
        leader_epoch=state.record.leader_epoch,
        leader=state.record.leader,
        history=state.server.position.history,
        state=state.server_state(now_ms),
        stamp=rules.stamp(state.life, now_ms, state.started_ms),
        echo=echo,
        stage=state.lists.stage,
        list=state.lists.newest.digest,
    )
