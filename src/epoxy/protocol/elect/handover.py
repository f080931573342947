"""A primary that makes way: on an operator's command, or because its agent is about to end."""

from epoxy.protocol.elect import rules
from epoxy.protocol.elect.candidacy import may_lead
from epoxy.protocol.elect.messages import Handover, ServerState
from epoxy.protocol.elect.state import ElectorState, PendingHandover
from epoxy.protocol.elect.terms import Mode


def refusal(state: ElectorState, heir: str, now_ms: int) -> str | None:
    """Why a handover to this node is impossible; None if it is possible."""
    if heir not in {node.id for node in state.config.nodes}:
        return f"there is no node {heir!r}; there are {', '.join(node.id for node in state.config.nodes)}"
    if not state.is_open(now_ms):
        return f"{state.me} is not the primary; ask {state.record.leader}"
    if heir == state.me:
        return f"{heir} is the primary already"
    if not state.config.node(heir).promotable:
        return f"{heir} has priority 0 and never leads"
    if heir not in state.latest_heartbeats(now_ms):
        return f"no recent heartbeat of {heir}"
    if not may_lead(state, heir):
        return f"{heir} counts an older list of nodes and cannot lead: restart its agent with the new one, or remove it"
    return None


def begin(state: ElectorState, heir: str, now_ms: int) -> None:
    state.handing = PendingHandover(heir=heir, deadline_ms=now_ms + state.timing.election_timeout_ms)


def retire(state: ElectorState, now_ms: int) -> None:
    state.retired = True
    heir = best_peer(state, now_ms) if state.is_open(now_ms) else ""
    if heir:
        begin(state, heir, now_ms)
    elif state.leading:
        state.resign()


def best_peer(state: ElectorState, now_ms: int) -> str:
    """Of the peers with a recent heartbeat that could lead; empty if there is none."""
    latest = state.latest_heartbeats(now_ms)
    able = [node for node, each in latest.items() if each.state not in (ServerState.FRESH, ServerState.DOWN)]
    heirs = [node for node in able if may_lead(state, node)]
    return min(heirs, key=lambda node: rules.rank(state.config, node, state.peers[node].position), default="")


def advance(state: ElectorState, now_ms: int) -> None:
    """Resign when writes are held back and the heir has everything. When that takes too long, or the heir falls silent,
    cancel the handover; an agent that is about to end resigns all the same."""
    if state.handing is None:
        return
    heir = state.peers[state.handing.heir]
    silent = state.handing.heir not in state.latest_heartbeats(now_ms)
    if silent or now_ms >= state.handing.deadline_ms or not state.is_open(now_ms):
        state.handing = None
        if state.retired:
            state.resign()
    elif state.server.mode is Mode.QUIET and heir.position >= state.server.position:
        state.heir = state.handing.heir
        state.resign()


def announce_heir(state: ElectorState, now_ms: int) -> None:
    """Once the server is closed for good, not before."""
    if state.heir and state.heir != state.me and rules.may_judge(state.server):
        state.broadcast(Handover(epoch=state.record.leader_epoch, node=state.me, heir=state.heir))
        state.next_candidacy_ms = now_ms + state.timing.election_timeout_ms
        state.heir = ""


def on_handover(state: ElectorState, handover: Handover, now_ms: int) -> None:
    """The sender led this epoch and has closed its server. The heir stands at once; the others wait for one election
    timeout."""
    if (handover.epoch, handover.node) != (state.record.leader_epoch, state.record.leader):
        return
    state.leader_heard_ms, state.leader_assumed_until_ms = None, now_ms
    state.heir = state.me if handover.heir == state.me else ""
    state.next_candidacy_ms = now_ms if state.heir else now_ms + state.timing.election_timeout_ms
