"""Which rows of a replica's changelog may go.

Snapshots make all of them dispensable, so nothing is lost by a row that goes too early: whoever wanted to read it
begins with a snapshot. What these rules save is that work, and streams of changes that would break.
"""

from collections.abc import Mapping

from msgspec import Struct

from epoxy.model.cluster import ClusterConfig
from epoxy.model.members import NO_STAMP
from epoxy.protocol.members.changes import NEWCOMERS

FOLLOWER_PATIENCE_MS = 60_000.0
"""A member that is not new here and has not asked for so long is not reading. If it comes back too late, it compares
what it holds, which costs it little."""

PINNED_COMMITS = 10_000_000
"""Some 2 GB. A newcomer that has not read on while so much was committed will not, and must not fill the disk."""

INDEX_BITS = 16
"""Of a stamp: the rows of one commit. The bits above count commits."""


class Reader(Struct, frozen=True, kw_only=True):
    """Where a member stands in this changelog, and when it last asked."""

    cursor: bytes
    asked_ms: float


class RetentionFloor(Struct, frozen=True, kw_only=True):
    """What is kept although no member reads it, for those who follow changes: at least the rows of so many commits, and
    all that were made in the last so many milliseconds."""

    commits: int
    age_ms: float


def removable(
    config: ClusterConfig, readers: Mapping[int, Reader], now_ms: float, *, newest: bytes, aged: bytes, commits: int
) -> bytes:
    """Rows up to this stamp. `aged` are those older than the floor asks for, `commits` is how many it keeps."""
    unread = min(newest, wanted_by_learners(config, readers), wanted_by_followers(config, readers, now_ms))
    pinned = max(unread, before(newest, PINNED_COMMITS))
    return min(pinned, aged, before(newest, commits))


def wanted_by_learners(config: ClusterConfig, readers: Mapping[int, Reader]) -> bytes:
    """All of them are on record, so one that nobody has heard of has not begun: it pins everything."""
    return min([readers[i].cursor if i in readers else NO_STAMP for i in learners(config)], default=LAST_STAMP)


def wanted_by_followers(config: ClusterConfig, readers: Mapping[int, Reader], now_ms: float) -> bytes:
    others = [reader for i, reader in readers.items() if i not in learners(config)]
    return min([r.cursor for r in others if now_ms - r.asked_ms < FOLLOWER_PATIENCE_MS], default=LAST_STAMP)


def learners(config: ClusterConfig) -> list[int]:
    """Those who are being added."""
    old = config.previous if config.previous is not None else config.active
    return [r.id for r in config.replicas if r.status in NEWCOMERS or (r.id in config.active and r.id not in old)]


def before(newest: bytes, commits: int) -> bytes:
    """The last stamp that is not among the newest so many commits."""
    return last_of(commit_of(newest) - commits)


def commit_of(stamp: bytes) -> int:
    return int.from_bytes(stamp, "big") >> INDEX_BITS


def last_of(commit: int) -> bytes:
    """The last stamp that the rows of a commit can have."""
    return ((commit + 1 << INDEX_BITS) - 1).to_bytes(len(NO_STAMP), "big") if commit > 0 else NO_STAMP


LAST_STAMP = b"\xff" * len(NO_STAMP)
