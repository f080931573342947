"""When a node becomes a candidate, and what it takes to win an election."""

from msgspec.structs import replace

from epoxy.protocol.elect import rules
from epoxy.protocol.elect.messages import Acceptance, Announce, Offer, ServerState
from epoxy.protocol.elect.state import Candidacy, ElectorState
from epoxy.protocol.elect.terms import Send


def consider(state: ElectorState, now_ms: int) -> None:
    """Become a candidate, or resign, if the state calls for it."""
    if state.campaign is not None or state.fresh or state.retired or state.is_outdated:
        return
    if must_resign(state, now_ms):
        state.resign()
        return
    if state.server_state(now_ms) is not ServerState.READY:
        state.ready_ms = None
        if must_refresh(state, now_ms):
            campaign(state, now_ms)
        return
    state.ready_ms = state.ready_ms if state.ready_ms is not None else now_ms
    if now_ms >= state.next_candidacy_ms and state.promotable and has_a_chance(state, now_ms):
        campaign(state, now_ms)


def has_a_chance(state: ElectorState, now_ms: int) -> bool:
    latest = state.latest_heartbeats(now_ms)
    ready = [node for node, heartbeat in latest.items() if heartbeat.state is ServerState.READY]
    return would_win(state, ready) and is_first(state, ready, now_ms)


def would_win(state: ElectorState, ready: list[str]) -> bool:
    """Heartbeats carry what a pre-vote round would ask for."""
    return state.lists.has_majority([state.me, *ready])


def is_first(state: ElectorState, ready: list[str], now_ms: int) -> bool:
    """Whether no ready node ranks better, or a better one has let `election_timeout_ms` pass without an offer."""
    if state.heir == state.me or now_ms - (state.ready_ms or now_ms) >= state.timing.election_timeout_ms:
        return True
    mine = rules.rank(state.config, state.me, state.server.position)
    rivals = (node for node in ready if may_lead(state, node))
    return all(mine < rules.rank(state.config, node, state.peers[node].position) for node in rivals)


def may_lead(state: ElectorState, node: str) -> bool:
    """Whether a peer could be elected: by its priority, and by the list it counts."""
    heartbeat = state.peers[node].heartbeat
    counts = heartbeat is not None and rules.grants(state.record.floor, heartbeat.stage, heartbeat.list)
    return counts and state.config.node(node).promotable


def must_refresh(state: ElectorState, now_ms: int) -> bool:
    """For a primary in office: a node that voted in a later epoch, which no candidate won, can never support this
    primary's epoch again. A new epoch with the same primary brings it back."""
    in_office = state.is_open(now_ms) and now_ms >= state.next_candidacy_ms and state.handing is None
    return in_office and is_overtaken(state, now_ms)


def must_resign(state: ElectorState, now_ms: int) -> bool:
    """For a leader without a lease when another node has voted in a later epoch. The later voters do not support it any
    more, and the nodes that still hear it do not vote: neither group may be a majority."""
    expired = now_ms >= max(state.lease_end_ms, state.next_candidacy_ms)
    return state.leading and expired and is_overtaken(state, now_ms)


def is_overtaken(state: ElectorState, now_ms: int) -> bool:
    """Whether a vote in a later epoch than this leader's is known."""
    epochs = [heartbeat.epoch for heartbeat in state.latest_heartbeats(now_ms).values()]
    return max([state.record.epoch, *epochs]) > state.record.leader_epoch


def campaign(state: ElectorState, now_ms: int) -> None:
    epoch = rules.next_epoch([state.highest_epoch, state.record.epoch])
    state.highest_epoch = epoch
    state.save(replace(state.record, epoch=epoch, voted_for=state.me))
    deadline_ms = now_ms + state.timing.election_timeout_ms
    state.campaign = Candidacy(epoch=epoch, votes={state.me}, deadline_ms=deadline_ms, in_office=state.is_open(now_ms))
    state.heir = ""
    offer(state)
    count(state, now_ms)


def offer(state: ElectorState) -> None:
    """To every node whose vote is missing. Repeated with every heartbeat: an answer may be lost, and a voter that was
    not ready may be ready now."""
    if state.campaign is None:
        return
    position = state.server.position
    message = Offer(
        epoch=state.campaign.epoch,
        node=state.me,
        offset=position.offset,
        history=position.history,
        in_office=state.campaign.in_office,
        stage=state.lists.stage,
        list=state.lists.newest.digest,
    )
    state.effects += [Send(node, message) for node in state.peers if node not in state.campaign.votes]


def on_accept(state: ElectorState, accept: Acceptance, now_ms: int) -> None:
    campaign = state.campaign
    if campaign is None or (accept.epoch, accept.candidate) != (campaign.epoch, state.me):
        return
    if rules.counts(now_ms, campaign.deadline_ms):
        campaign.votes.add(accept.node)
        count(state, now_ms)


def count(state: ElectorState, now_ms: int) -> None:
    """A winner announces itself and sends a heartbeat at once, because the answers begin its lease. It does not stand
    again before they could have arrived."""
    if state.campaign is None or not state.lists.has_majority(state.campaign.votes):
        return
    epoch = state.campaign.epoch
    floor = rules.raised(state.record.floor, state.lists.stage, state.lists.newest.digest)
    state.save(replace(state.record, epoch=epoch, voted_for=state.me, leader_epoch=epoch, leader=state.me, floor=floor))
    state.campaign = None
    state.leading = True
    for peer in state.peers.values():
        peer.answered_ms = None
    state.broadcast(Announce(epoch=epoch, node=state.me, address=str(state.config.node(state.me).server)))
    state.next_beat_ms = now_ms
    state.next_candidacy_ms = now_ms + state.timing.election_timeout_ms


def end_campaign(state: ElectorState, now_ms: int) -> None:
    if state.campaign is not None and not rules.counts(now_ms, state.campaign.deadline_ms):
        state.campaign = None
        backoff_ms = state.draw(state.timing.election_backoff_min_ms, state.timing.election_backoff_max_ms)
        state.next_candidacy_ms = now_ms + backoff_ms
