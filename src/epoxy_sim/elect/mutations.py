"""Broken rules, planted in place of the production ones. Each breaks exactly one thing."""

# They stand in for production rules and keep their signatures, used or not.
# ruff: noqa: ARG001

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from epoxy.protocol.elect import candidacy, heartbeats, lists, rules, votes
from epoxy.protocol.elect.config import ElectConfig
from epoxy.protocol.elect.lists import ListFloor, Lists, NodeList
from epoxy.protocol.elect.messages import Heartbeat, Message, Offer
from epoxy.protocol.elect.send_queue import SendQueue
from epoxy.protocol.elect.state import Draw, ElectorState
from epoxy.protocol.elect.terms import ElectRecord, ReplicationPosition
from epoxy_sim.patching import replaces

_is_new, _is_repeated, _lease_end = rules.is_new, rules.is_repeated, rules.lease_end
_nth_latest = rules.nth_latest
_on_heartbeat, _on_offer, _would_win = heartbeats.on_heartbeat, votes.on_offer, candidacy.would_win
_init, _resign = ElectorState.__init__, ElectorState.resign

FULL = 8
"""Small, so that it fills within a run."""

INITIAL = "a"


def nothing(*_: object) -> None:
    return None


def always(*_: object) -> bool:
    return True


def never(*_: object) -> bool:
    return False


@replaces(ElectorState, "__init__")
def start_without_votes(
    self: ElectorState, config: ElectConfig, me: str, record: ElectRecord | None, now_ms: int, draw: Draw
) -> None:
    """Keeps only the leader of the record, and does not wait for it after the restart."""
    kept = replace(record, epoch=record.leader_epoch, voted_for="") if record is not None else None
    start_at_once(self, config, me, kept, now_ms, draw)


@replaces(ElectorState, "__init__")
def start_at_once(
    self: ElectorState, config: ElectConfig, me: str, record: ElectRecord | None, now_ms: int, draw: Draw
) -> None:
    _init(self, config, me, record, now_ms, draw)
    if self.record.leader != me:
        self.leader_assumed_until_ms = now_ms


@replaces(ElectorState, "__init__")
def start_with_invented_record(
    self: ElectorState, config: ElectConfig, me: str, record: ElectRecord | None, now_ms: int, draw: Draw
) -> None:
    _init(self, config, me, record or ElectRecord(leader=INITIAL), now_ms, draw)


@replaces(votes, "would_vote")
def vote_unseeing(state: ElectorState, offer: Offer, now_ms: int) -> bool:
    if _is_repeated(offer.epoch, offer.node, state.record):
        return True
    may = _is_new(offer.epoch, state.record) or votes.should_yield(state, offer)
    return may and not votes.lacks(state, offer)


@replaces(candidacy, "would_win")
def stand_alone(state: ElectorState, ready: list[str]) -> bool:
    """It is enough that this node itself hears no primary."""
    return not state.leading or _would_win(state, ready)


@replaces(votes, "on_offer")
def vote_and_stand(state: ElectorState, offer: Offer, now_ms: int) -> None:
    campaign = state.campaign
    _on_offer(state, offer, now_ms)
    state.campaign = campaign


@replaces(ElectorState, "resign")
def resign_and_stand(self: ElectorState) -> None:
    campaign = self.campaign
    _resign(self)
    self.campaign = campaign


@replaces(ElectorState, "resign")
def stay(self: ElectorState) -> None:
    self.handing = None
    self.campaign = None


@replaces(heartbeats, "on_heartbeat")
def believe_announcements_alone(state: ElectorState, heartbeat: Heartbeat, now_ms: int) -> None:
    known = (state.record.leader_epoch, state.record.leader)
    if (heartbeat.leader_epoch, heartbeat.leader) == known or heartbeat.leader_epoch <= state.record.leader_epoch:
        _on_heartbeat(state, heartbeat, now_ms)


@replaces(rules, "lease_end")
def for_ever(answered_ms: Mapping[str, int], lists: Lists, lease_ms: int) -> int:
    return max(answered_ms.values()) + 1_000_000_000


@replaces(rules, "lease_end")
def twice_as_long(answered_ms: Mapping[str, int], lists: Lists, lease_ms: int) -> int:
    end_ms = _lease_end(answered_ms, lists, lease_ms)
    return end_ms + lease_ms if end_ms else 0


@replaces(heartbeats, "prolong")
def count_the_heard(state: ElectorState, now_ms: int) -> None:
    """Wrong because a node whose heartbeats arrive may not receive any."""
    if state.leading:
        heard = {node: peer.at_ms for node, peer in state.peers.items() if peer.heartbeat is not None}
        lease_end_ms = _lease_end({**heard, state.me: now_ms}, state.lists, state.timing.lease_ms)
        state.lease_end_ms = max(state.lease_end_ms, lease_end_ms)


@replaces(rules, "is_worse")
def fewer_bytes(candidate: ReplicationPosition, mine: ReplicationPosition) -> bool:
    return candidate.offset < mine.offset


@replaces(rules, "rank")
def rank_by_offset(config: ElectConfig, node: str, position: ReplicationPosition) -> tuple[int, int, int, str]:
    return 0, -position.offset, -config.node(node).priority, node


@replaces(SendQueue, "put")
def drop_the_new(self: SendQueue, message: Message) -> None:
    waiting: Any = self._waiting
    if len(waiting) < FULL:
        waiting[len(waiting)] = message


@replaces(rules, "next_epoch")
def same_epoch_again(seen: list[int]) -> int:
    return max(seen)


@replaces(NodeList, "quorum")
def one_less(self: NodeList) -> int:
    return max(1, len(self.nodes) // 2)


@replaces(lists, "begun")
def at_once_alone(known: Lists, floor: ListFloor, wanted: NodeList) -> Lists:
    return Lists(stage=known.stage + 2, counted=(wanted,))


@replaces(Lists, "has_majority")
def of_any(self: Lists, nodes: Iterable[str]) -> bool:
    counted = set(nodes)
    return any(len(each.ids & counted) >= each.quorum for each in self.counted)


@replaces(rules, "raised")
def kept(floor: ListFloor, stage: int, digest: str) -> ListFloor:
    return floor


@replaces(rules, "nth_latest")
def latest(answered_ms: Mapping[str, int], nodes: frozenset[str], n: int) -> int:
    """A list without a majority is ignored."""
    counted = {node: at_ms for node, at_ms in answered_ms.items() if node in nodes}
    return _nth_latest(counted, nodes, n) if len(counted) >= n else max(answered_ms.values())
