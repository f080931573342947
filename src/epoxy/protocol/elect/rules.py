"""The rules an elector decides by, as functions of values."""

from collections.abc import Mapping, Sequence

from epoxy.protocol.elect.config import ElectConfig
from epoxy.protocol.elect.lists import ListFloor, Lists, generation_of
from epoxy.protocol.elect.messages import Heartbeat, ServerState
from epoxy.protocol.elect.terms import ElectRecord, Mode, ReplicationPosition, ServerReport

LIFE = 40
"""Bits for milliseconds in a stamp: 34 years. Above them is the life of the process that made it."""

LIVES = 1 << 23
"""With this many lives to draw from, a stamp has 63 bits."""


def stamp(life: int, now_ms: int, started_ms: int) -> int:
    """The clock may restart at zero after a reboot, so a stamp contains the life of its process: an echo of an earlier
    life must not count in this one."""
    return (life << LIFE) | (now_ms - started_ms)


def stamped_ms(life: int, value: int, started_ms: int) -> int | None:
    """When this process made the stamp; None if an earlier one made it."""
    return started_ms + (value & ((1 << LIFE) - 1)) if value >> LIFE == life else None


def lease_end(answered_ms: Mapping[str, int], lists: Lists, lease_ms: int) -> int:
    """A majority of every list that counts has heard a heartbeat the primary sent at this time or later; it hears
    itself now. None of them votes for another node before `down_after_ms` of silence, and the lease is shorter."""
    if not lists.has_majority(answered_ms):
        return 0
    return min(nth_latest(answered_ms, each.ids, each.quorum) for each in lists.counted) + lease_ms


def nth_latest(answered_ms: Mapping[str, int], nodes: frozenset[str], n: int) -> int:
    return sorted((at_ms for node, at_ms in answered_ms.items() if node in nodes), reverse=True)[n - 1]


def grants(floor: ListFloor, stage: int, digest: str) -> bool:
    """Whether a node may answer or elect a node that counts by these lists. Having answered a leader of a newer list,
    it has promised not to: no node leads by the old list alone any more."""
    return floor.admits(generation_of(stage), digest)


def raised(floor: ListFloor, stage: int, digest: str) -> ListFloor:
    """The floor after answering a leader that counts by these lists."""
    return ListFloor(generation=generation_of(stage), digest=digest) if stage else floor


def may_copy(lists: Lists, digest: str) -> bool:
    """Whether a server may follow a leader with this newest list. A server that is not in the leader's list must not:
    its copy would count for an acknowledgement, and it has no vote in what follows. A node that does not know the list
    yet may not be in it."""
    return digest in lists.digests


def has_closed(heartbeat: Heartbeat) -> bool:
    """Whether the sender's server takes no writes, and will not until it is elected again."""
    return heartbeat.state in (ServerState.READY, ServerState.DOWN)


def supports_leader(record: ElectRecord) -> bool:
    """Whether this node still answers the leader it knows. A vote for another node in a later epoch ends that for good:
    that election may be won without this node hearing of it."""
    return record.leader_epoch >= record.epoch or record.voted_for == record.leader


def is_worse(candidate: ReplicationPosition, mine: ReplicationPosition) -> bool:
    return candidate < mine


def rank(config: ElectConfig, node: str, position: ReplicationPosition) -> tuple[int, int, int, str]:
    """The best comes first: most data, then the operator's priority, then the lowest id."""
    return -position.history, -position.offset, -config.node(node).priority, node


def may_judge(report: ServerReport) -> bool:
    """A vote compares positions, so this node's must be known, and must not grow after the vote."""
    return report.alive and report.mode is Mode.FENCED


def is_new(epoch: int, record: ElectRecord) -> bool:
    return epoch > record.epoch


def is_repeated(epoch: int, candidate: str, record: ElectRecord) -> bool:
    """The vote was given before; its answer may have been lost."""
    return epoch == record.epoch and record.voted_for == candidate


def is_higher_claim(epoch: int, record: ElectRecord) -> bool:
    return epoch > record.leader_epoch and epoch >= record.epoch


def next_epoch(seen: Sequence[int]) -> int:
    return max(seen) + 1


def counts(now_ms: int, deadline_ms: int) -> bool:
    """A vote that arrives too late may have been forgotten by a voter that lost its disk."""
    return now_ms < deadline_ms
