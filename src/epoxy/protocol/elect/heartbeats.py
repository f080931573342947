"""What heartbeats say and do: who leads, who answers for it, and until when it may write."""

from msgspec.structs import replace

from epoxy.protocol.elect import bootstrap, changes, rules
from epoxy.protocol.elect.messages import Heartbeat, Role
from epoxy.protocol.elect.state import ElectorState
from epoxy.protocol.elect.terms import Save, Send

BEHIND = 20
"""By which part of an interval a node waits longer for the leader's heartbeat before it beats by itself."""


def on_heartbeat(mind: ElectorState, heartbeat: Heartbeat, now_ms: int) -> None:
    sender = heartbeat.node
    peer = mind.peers[sender]
    peer.heard(heartbeat, now_ms)
    if bootstrap.should_be_told(mind, heartbeat):
        bootstrap.tell(mind, sender)
    changes.learn(mind, heartbeat)
    mind.seen = max(mind.seen, heartbeat.leader_epoch)
    adopt(mind, heartbeat.leader_epoch, heartbeat.leader, now_ms)
    claim = (heartbeat.leader_epoch, heartbeat.leader)
    if claim != (mind.record.leader_epoch, mind.record.leader):
        return
    if sender == mind.record.leader:
        hear_leader(mind, heartbeat, now_ms)
    elif mind.leading and heartbeat.echo:
        said_ms = rules.stamped_ms(mind.life, heartbeat.echo, mind.started_ms)
        if said_ms is not None:
            peer.answered_ms = max(said_ms, peer.answered_ms or 0)
            prolong(mind, now_ms)


def hear_leader(mind: ElectorState, heartbeat: Heartbeat, now_ms: int) -> None:
    """A leader that says it does not lead has resigned, and never takes that back. But its server may still be open;
    only when that is over is there nobody to be waited for."""
    if heartbeat.role is Role.PRIMARY:
        if not changes.promise(mind, heartbeat):
            return
        beat_along(mind, now_ms)
        mind.heard_ms, mind.heard_stamp = now_ms, heartbeat.stamp
    elif rules.has_closed(heartbeat):
        mind.heard_ms, mind.deaf_ms = None, now_ms


def beat_along(mind: ElectorState, now_ms: int) -> None:
    """A leader that is new is answered at once: it waits for its first lease. And all beat when the leader does: idle
    nodes then wake up once for everybody's heartbeats and not for each."""
    if mind.heard_stamp == 0 or mind.beat_ms - now_ms <= mind.timing.hb_interval_ms // 2:
        mind.beat_ms = now_ms


def adopt(mind: ElectorState, epoch: int, leader: str, now_ms: int) -> None:
    """Follow the higher claim, whoever tells of it. Who has lost its memory may hear that it has led itself. Who
    is new in the list may never hear this leader, and has promised it nothing: it waits for nobody."""
    known = leader in mind.peers or (mind.fresh and leader == mind.me)
    if not known or not rules.is_higher_claim(epoch, mind.record):
        return
    voted_for = mind.record.voted_for if epoch == mind.record.epoch else ""
    mind.record = replace(mind.record, epoch=epoch, voted_for=voted_for, leader_epoch=epoch, leader=leader)
    if not mind.fresh:
        mind.out.append(Save(mind.record))
    mind.resign()
    mind.heir = ""
    counts_here = mind.me in mind.lists.counted[0].ids
    mind.heard_ms, mind.heard_stamp = now_ms if counts_here else None, 0


def prolong(mind: ElectorState, now_ms: int) -> None:
    """The lease goes on from what a majority has answered."""
    if mind.leading:
        answered = {node: peer.answered_ms for node, peer in mind.peers.items() if peer.answered_ms is not None}
        lease_end_ms = rules.lease_end({**answered, mind.me: now_ms}, mind.lists, mind.timing.lease_ms)
        mind.lease_end_ms = max(mind.lease_end_ms, lease_end_ms)


def beat(mind: ElectorState, now_ms: int) -> None:
    mind.beat_ms = now_ms + mind.timing.hb_interval_ms
    if mind.answers(now_ms):
        mind.beat_ms += mind.timing.hb_interval_ms // BEHIND
    usual = heartbeat_of(mind, now_ms, echo=0)
    for node in mind.peers:
        answers = node == mind.record.leader and mind.answers(now_ms)
        mind.out.append(Send(node, heartbeat_of(mind, now_ms, echo=mind.heard_stamp) if answers else usual))


def heartbeat_of(mind: ElectorState, now_ms: int, *, echo: int) -> Heartbeat:
    return Heartbeat(
        epoch=mind.record.epoch,
        node=mind.me,
        role=mind.role,
        offset=mind.server.position.offset,
        leader_epoch=mind.record.leader_epoch,
        leader=mind.record.leader,
        history=mind.server.position.history,
        state=mind.state(now_ms),
        stamp=rules.stamp(mind.life, now_ms, mind.started_ms),
        echo=echo,
        stage=mind.lists.stage,
        list=mind.lists.newest.digest,
    )
