"""The rules an elector decides by: functions of values, each with a reason to exist."""

from collections.abc import Mapping, Sequence

from epoxy.protocol.elect.config import ElectConfig, ElectTiming
from epoxy.protocol.elect.lists import ListFloor, Lists, generation_of
from epoxy.protocol.elect.messages import Heartbeat, ServerState
from epoxy.protocol.elect.terms import ElectRecord, Mode, ReplicationPosition, ServerReport

LIFE = 40
"""Bits for milliseconds in a stamp: 34 years. Above them stands the life of the process that made it."""

MOST_MISSED = 1 << 24
"""Epochs a node can have missed: with an election every second, for half a year. There are 2**64."""

LIVES = 1 << 23
"""With this many lives to draw from, a stamp has 63 bits."""


def stamp(life: int, now_ms: int, started_ms: int) -> int:
    """A clock may begin again at zero after a reboot. What somebody heard of an earlier life must not pass for news of
    this one."""
    return (life << LIFE) | (now_ms - started_ms)


def stamped_ms(life: int, value: int, started_ms: int) -> int | None:
    """When this life made the stamp; None if it was another."""
    return started_ms + (value & ((1 << LIFE) - 1)) if value >> LIFE == life else None


def lease_end(answered_ms: Mapping[str, int], lists: Lists, lease_ms: int) -> int:
    """A majority of every list that counts has heard something the primary said at this time or later; itself it hears
    now. None of them votes for another before `down_after_ms` of silence, and the lease is shorter."""
    if not lists.has_majority(answered_ms):
        return 0
    return min(nth_latest(answered_ms, each.ids, each.quorum) for each in lists.counted) + lease_ms


def nth_latest(answered_ms: Mapping[str, int], nodes: frozenset[str], n: int) -> int:
    return sorted((at_ms for node, at_ms in answered_ms.items() if node in nodes), reverse=True)[n - 1]


def grants(floor: ListFloor, stage: int, digest: str) -> bool:
    """Whether a node may answer or elect somebody who counts by these lists. Who has answered a leader of a newer list
    has promised not to: by the old list alone nobody leads any more."""
    return floor.admits(generation_of(stage), digest)


def raised(floor: ListFloor, stage: int, digest: str) -> ListFloor:
    """What answering such a leader promises."""
    return ListFloor(generation=generation_of(stage), digest=digest) if stage else floor


def may_copy(lists: Lists, digest: str) -> bool:
    """Whether a server may follow a leader of this newest list. One that is not in the leader's list must not: its copy
    would count for an acknowledgement, and it has no vote in what follows. Who does not know the list yet may be such
    a one."""
    return digest in lists.digests


def heard_lately(heard_ms: int | None, now_ms: int, timing: ElectTiming) -> bool:
    return heard_ms is not None and now_ms - heard_ms < timing.down_after_ms


def has_closed(heartbeat: Heartbeat) -> bool:
    """Whether its sender's server takes no writes, and will not until it is elected again."""
    return heartbeat.state in (ServerState.READY, ServerState.DOWN)


def stands_behind(record: ElectRecord) -> bool:
    """Whether this node still answers for the leader it knows. A vote for another in a later epoch ends that for good:
    that election may be won without this node hearing of it."""
    return record.leader_epoch >= record.epoch or record.voted_for == record.leader


def is_worse(candidate: ReplicationPosition, mine: ReplicationPosition) -> bool:
    """Whether the candidate lacks something that this node has."""
    return candidate < mine


def rank(config: ElectConfig, node: str, position: ReplicationPosition) -> tuple[int, int, int, str]:
    """The best comes first: most data, then the operator's wish, then the lowest id."""
    return -position.history, -position.offset, -config.node(node).priority, node


def may_judge(report: ServerReport) -> bool:
    """A vote compares positions, so the own one must be known and must not grow behind it."""
    return report.alive and report.mode is Mode.FENCED


def is_plausible(epoch: int, seen: int) -> bool:
    """An election raises the epoch by one. Who tells of one far above all others is broken or lies, and whoever went
    along could never stand again: there would be no epoch left."""
    return epoch <= seen + MOST_MISSED


def is_new(epoch: int, record: ElectRecord) -> bool:
    return epoch > record.epoch


def is_repeated(epoch: int, candidate: str, record: ElectRecord) -> bool:
    """The vote was given, and the answer perhaps lost."""
    return epoch == record.epoch and record.voted_for == candidate


def is_higher_claim(epoch: int, record: ElectRecord) -> bool:
    return epoch > record.leader_epoch and epoch >= record.epoch


def next_epoch(seen: Sequence[int]) -> int:
    return max(seen) + 1


def after_restart(record: ElectRecord | None) -> ElectRecord | None:
    """What a start goes by. None: this node has no memory, and must behave accordingly."""
    return record


def silent_until(now_ms: int, timing: ElectTiming) -> int:
    """Whom this node has heard before it started, it does not know: it might have been the primary, a moment ago."""
    return now_ms + timing.down_after_ms


def counts(now_ms: int, deadline_ms: int) -> bool:
    """A vote that comes too late may have been forgotten by a voter that lost its disk."""
    return now_ms < deadline_ms
