"""Broken rules, to be planted in place of the right ones. Each does one thing wrong, and only that."""

# They stand in for production rules and keep their signatures, used or not.
# ruff: noqa: ARG001

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from epoxy.protocol.elect import candidacy, heartbeats, rules, votes
from epoxy.protocol.elect.config import ElectConfig, ElectTiming
from epoxy.protocol.elect.lists import ListFloor, Lists, NodeList
from epoxy.protocol.elect.messages import Heartbeat, Message, Offer
from epoxy.protocol.elect.send_queue import SendQueue
from epoxy.protocol.elect.state import ElectorState
from epoxy.protocol.elect.terms import ElectRecord, ReplicationPosition

_is_new, _is_repeated, _lease_end = rules.is_new, rules.is_repeated, rules.lease_end
_nth_latest = rules.nth_latest
_on_heartbeat, _would_win, _resign = heartbeats.on_heartbeat, candidacy.would_win, ElectorState.resign

FULL = 8
"""Small, so that it fills within a run."""

INITIAL = "a"


def nothing(*_: object) -> None:
    return None


def always(*_: object) -> bool:
    return True


def never(*_: object) -> bool:
    return False


def votes_forgotten(record: ElectRecord | None) -> ElectRecord | None:
    """What was followed is on the disk, what was voted for is not."""
    if record is None:
        return None
    return replace(record, epoch=record.leader_epoch, voted_for="")


def at_once(now_ms: int, timing: ElectTiming) -> int:
    return now_ms


def vote_unseeing(mind: ElectorState, offer: Offer, now_ms: int) -> bool:
    if _is_repeated(offer.epoch, offer.node, mind.record):
        return True
    may = _is_new(offer.epoch, mind.record) or votes.should_yield(mind, offer)
    return may and not votes.lacks(mind, offer)


def stand_alone(mind: ElectorState, ready: list[str]) -> bool:
    """That it hears no primary itself is enough."""
    return not mind.leading or _would_win(mind, ready)


def resign_and_stand(self: ElectorState) -> None:
    campaign = self.campaign
    _resign(self)
    self.campaign = campaign


def stay(self: ElectorState) -> None:
    self.handing = None
    self.campaign = None


def believe_announcements_alone(mind: ElectorState, heartbeat: Heartbeat, now_ms: int) -> None:
    known = (mind.record.leader_epoch, mind.record.leader)
    if (heartbeat.leader_epoch, heartbeat.leader) == known or heartbeat.leader_epoch <= mind.record.leader_epoch:
        _on_heartbeat(mind, heartbeat, now_ms)


def for_ever(answered_ms: Mapping[str, int], lists: Lists, lease_ms: int) -> int:
    return max(answered_ms.values()) + 1_000_000_000


def twice_as_long(answered_ms: Mapping[str, int], lists: Lists, lease_ms: int) -> int:
    end_ms = _lease_end(answered_ms, lists, lease_ms)
    return end_ms + lease_ms if end_ms else 0


def count_the_heard(mind: ElectorState, now_ms: int) -> None:
    """Who is heard may not hear."""
    if mind.leading:
        heard = {node: peer.at_ms for node, peer in mind.peers.items() if peer.heartbeat is not None}
        lease_end_ms = _lease_end({**heard, mind.me: now_ms}, mind.lists, mind.timing.lease_ms)
        mind.lease_end_ms = max(mind.lease_end_ms, lease_end_ms)


def fewer_bytes(candidate: ReplicationPosition, mine: ReplicationPosition) -> bool:
    return candidate.offset < mine.offset


def rank_by_offset(config: ElectConfig, node: str, position: ReplicationPosition) -> tuple[int, int, int, str]:
    return 0, -position.offset, -config.node(node).priority, node


def drop_the_new(self: SendQueue, message: Message) -> None:
    waiting: Any = self._waiting
    if len(waiting) < FULL:
        waiting[len(waiting)] = message


def invent_memory(record: ElectRecord | None) -> ElectRecord | None:
    return record if record is not None else ElectRecord(leader=INITIAL)


def any_life(life: int, value: int, started_ms: int) -> int | None:
    return started_ms + (value & ((1 << rules.LIFE) - 1))


def same_epoch_again(seen: list[int]) -> int:
    return max(seen)


def one_less(self: NodeList) -> int:
    return max(1, len(self.nodes) // 2)


def at_once_alone(known: Lists, floor: ListFloor, wanted: NodeList) -> Lists:
    return Lists(stage=known.stage + 2, counted=(wanted,))


def of_any(self: Lists, nodes: Iterable[str]) -> bool:
    counted = set(nodes)
    return any(len(each.ids & counted) >= each.quorum for each in self.counted)


def kept(floor: ListFloor, stage: int, digest: str) -> ListFloor:
    return floor


def latest(answered_ms: Mapping[str, int], nodes: frozenset[str], n: int) -> int:
    """Of a list that has no majority nothing is asked."""
    counted = {node: at_ms for node, at_ms in answered_ms.items() if node in nodes}
    return _nth_latest(counted, nodes, n) if len(counted) >= n else max(answered_ms.values())
