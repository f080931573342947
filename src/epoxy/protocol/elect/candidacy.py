"""When a node stands for an election, and what it takes to win one."""

from msgspec.structs import replace

from epoxy.protocol.elect import rules
from epoxy.protocol.elect.messages import Acceptance, Announce, Offer, ServerState
from epoxy.protocol.elect.state import Candidacy, ElectorState
from epoxy.protocol.elect.terms import Send


def stand(mind: ElectorState, now_ms: int) -> None:
    if mind.campaign is not None or mind.fresh or mind.retired or mind.is_left_behind:
        return
    if must_resign(mind, now_ms):
        mind.resign()
        return
    if mind.state(now_ms) is not ServerState.READY:
        mind.ready_ms = None
        if must_refresh(mind, now_ms):
            campaign(mind, now_ms)
        return
    mind.ready_ms = mind.ready_ms if mind.ready_ms is not None else now_ms
    if now_ms >= mind.rest_ms and mind.promotable and has_a_chance(mind, now_ms):
        campaign(mind, now_ms)


def has_a_chance(mind: ElectorState, now_ms: int) -> bool:
    lately = ((node, peer.said_lately(now_ms, mind.timing.fresh_ms)) for node, peer in mind.peers.items())
    ready = [node for node, said in lately if said is not None and said.state is ServerState.READY]
    return would_win(mind, ready) and should_be(mind, ready, now_ms)


def would_win(mind: ElectorState, ready: list[str]) -> bool:
    """What a round of questions before the vote would tell is in the heartbeats already."""
    return mind.lists.has_majority([mind.me, *ready])


def should_be(mind: ElectorState, ready: list[str], now_ms: int) -> bool:
    """Nobody is better, or whoever is has not stood for a while and so cannot."""
    if mind.heir == mind.me or now_ms - (mind.ready_ms or now_ms) >= mind.timing.election_timeout_ms:
        return True
    mine = rules.rank(mind.config, mind.me, mind.server.position)
    rivals = (node for node in ready if may_lead(mind, node))
    return all(mine < rules.rank(mind.config, node, mind.peers[node].position) for node in rivals)


def may_lead(mind: ElectorState, node: str) -> bool:
    """Whether a peer could be elected: by its priority, and by the list it counts."""
    said = mind.peers[node].heartbeat
    counts = said is not None and rules.grants(mind.record.floor, said.stage, said.list)
    return counts and mind.config.node(node).promotable


def must_refresh(mind: ElectorState, now_ms: int) -> bool:
    """A primary in office, and somebody who voted in a later epoch that nobody won: it can never stand behind this one
    again. A new epoch with the same primary takes it back."""
    in_office = mind.is_open(now_ms) and now_ms >= mind.rest_ms and mind.handing is None
    return in_office and is_overtaken(mind, now_ms)


def must_resign(mind: ElectorState, now_ms: int) -> bool:
    """A leader without a lease, and somebody who voted in a later epoch. With those who voted it has no majority any
    more; those who still hear it wait for it, and so the others have none either."""
    return mind.leading and now_ms >= max(mind.lease_end_ms, mind.rest_ms) and is_overtaken(mind, now_ms)


def is_overtaken(mind: ElectorState, now_ms: int) -> bool:
    """Whether this leader hears of a vote in a later epoch than its own."""
    lately = [peer.said_lately(now_ms, mind.timing.fresh_ms) for peer in mind.peers.values()]
    epochs = [said.epoch for said in lately if said is not None]
    return max([mind.record.epoch, *epochs]) > mind.record.leader_epoch


def campaign(mind: ElectorState, now_ms: int) -> None:
    epoch = rules.next_epoch([mind.seen, mind.record.epoch])
    mind.seen = epoch
    mind.save(replace(mind.record, epoch=epoch, voted_for=mind.me))
    deadline_ms = now_ms + mind.timing.election_timeout_ms
    mind.campaign = Candidacy(epoch=epoch, votes={mind.me}, deadline_ms=deadline_ms, in_office=mind.is_open(now_ms))
    mind.heir = ""
    offer(mind)
    count(mind, now_ms)


def offer(mind: ElectorState) -> None:
    """To those who have not voted for it yet. Told again with every heartbeat: an answer may be lost, and a voter that
    was not ready may be by then."""
    if mind.campaign is None:
        return
    position = mind.server.position
    told = Offer(
        epoch=mind.campaign.epoch,
        node=mind.me,
        offset=position.offset,
        history=position.history,
        in_office=mind.campaign.in_office,
        stage=mind.lists.stage,
        list=mind.lists.newest.digest,
    )
    mind.out += [Send(node, told) for node in mind.peers if node not in mind.campaign.votes]


def on_accept(mind: ElectorState, accept: Acceptance, now_ms: int) -> None:
    standing = mind.campaign
    if standing is None or (accept.epoch, accept.candidate) != (standing.epoch, mind.me):
        return
    if rules.counts(now_ms, standing.deadline_ms):
        standing.votes.add(accept.node)
        count(mind, now_ms)


def count(mind: ElectorState, now_ms: int) -> None:
    """Who has won tells it, and beats at once: the answers begin its lease. Until then it hears nobody, and must not
    take that for a reason to stand again."""
    if mind.campaign is None or not mind.lists.has_majority(mind.campaign.votes):
        return
    epoch = mind.campaign.epoch
    floor = rules.raised(mind.record.floor, mind.lists.stage, mind.lists.newest.digest)
    mind.save(replace(mind.record, epoch=epoch, voted_for=mind.me, leader_epoch=epoch, leader=mind.me, floor=floor))
    mind.campaign = None
    mind.leading = True
    for peer in mind.peers.values():
        peer.answered_ms = None
    mind.tell_all(Announce(epoch=epoch, node=mind.me, address=str(mind.config.node(mind.me).server)))
    mind.beat_ms = now_ms
    mind.rest_ms = now_ms + mind.timing.election_timeout_ms


def end_campaign(mind: ElectorState, now_ms: int) -> None:
    if mind.campaign is not None and not rules.counts(now_ms, mind.campaign.deadline_ms):
        mind.campaign = None
        pause_ms = mind.draw(mind.timing.election_backoff_min_ms, mind.timing.election_backoff_max_ms)
        mind.rest_ms = now_ms + pause_ms
