"""A primary that makes way: because an operator says so, or because its agent is about to end."""

from epoxy.protocol.elect import rules
from epoxy.protocol.elect.candidacy import may_lead
from epoxy.protocol.elect.messages import Handover, ServerState
from epoxy.protocol.elect.state import ElectorState, Handing
from epoxy.protocol.elect.terms import Mode


def refusal(mind: ElectorState, heir: str, now_ms: int) -> str | None:
    """Why there can be no handover to this node, if there cannot."""
    if heir not in {node.id for node in mind.config.nodes}:
        return f"there is no node {heir!r}; there are {', '.join(node.id for node in mind.config.nodes)}"
    if not mind.is_open(now_ms):
        return f"{mind.me} is not the primary; ask {mind.record.leader}"
    if heir == mind.me:
        return f"{heir} is the primary already"
    if not mind.config.node(heir).promotable:
        return f"{heir} has priority 0 and never leads"
    if mind.peers[heir].said_lately(now_ms, mind.timing.fresh_ms) is None:
        return f"{heir} has not been heard lately"
    if not may_lead(mind, heir):
        return f"{heir} counts an older list of nodes and cannot lead: restart its agent with the new one, or remove it"
    return None


def begin(mind: ElectorState, heir: str, now_ms: int) -> None:
    mind.handing = Handing(heir=heir, deadline_ms=now_ms + mind.timing.election_timeout_ms)


def retire(mind: ElectorState, now_ms: int) -> None:
    mind.retired = True
    heir = best_peer(mind, now_ms) if mind.is_open(now_ms) else ""
    if heir:
        begin(mind, heir, now_ms)
    elif mind.leading:
        mind.resign()


def best_peer(mind: ElectorState, now_ms: int) -> str:
    """Of those heard lately that could lead; empty if there is none."""
    lately = ((node, peer.said_lately(now_ms, mind.timing.fresh_ms)) for node, peer in mind.peers.items())
    able = [
        node for node, said in lately if said is not None and said.state not in (ServerState.FRESH, ServerState.DOWN)
    ]
    heirs = [node for node in able if may_lead(mind, node)]
    return min(heirs, key=lambda node: rules.rank(mind.config, node, mind.peers[node].position), default="")


def hand_on(mind: ElectorState, now_ms: int) -> None:
    """Let go when the heir has everything and writes are held back. When that takes too long, or the heir is gone, take
    it all back; who is about to end lets go all the same."""
    if mind.handing is None:
        return
    heir = mind.peers[mind.handing.heir]
    silent = heir.said_lately(now_ms, mind.timing.fresh_ms) is None
    if silent or now_ms >= mind.handing.deadline_ms or not mind.is_open(now_ms):
        mind.handing = None
        if mind.retired:
            mind.resign()
    elif mind.server.mode is Mode.QUIET and heir.position >= mind.server.position:
        mind.heir = mind.handing.heir
        mind.resign()


def tell_heir(mind: ElectorState, now_ms: int) -> None:
    """Once the server is closed for good, not before."""
    if mind.heir and mind.heir != mind.me and rules.may_judge(mind.server):
        mind.tell_all(Handover(epoch=mind.record.leader_epoch, node=mind.me, heir=mind.heir))
        mind.rest_ms = now_ms + mind.timing.election_timeout_ms
        mind.heir = ""


def on_handover(mind: ElectorState, handover: Handover, now_ms: int) -> None:
    """The sender led this epoch and has closed. Its heir goes first; the others give it the time of an election."""
    if (handover.epoch, handover.node) != (mind.record.leader_epoch, mind.record.leader):
        return
    mind.heard_ms, mind.deaf_ms = None, now_ms
    mind.heir = mind.me if handover.heir == mind.me else ""
    mind.rest_ms = now_ms if mind.heir else now_ms + mind.timing.election_timeout_ms
