"""Which rows of a replica's changelog may be removed.

Every row can be replaced by a snapshot, so removing one too early loses nothing: its reader begins with a snapshot.
These rules save that work, and keep streams of changes from breaking. What the rows may take on the disk is bounded:
in bytes, because commits may be large.
"""

from collections.abc import Mapping

from msgspec import Struct

from epoxy.model.cluster import ClusterConfig
from epoxy.model.members import NO_STAMP
from epoxy.protocol.members.changes import NEWCOMERS

FOLLOWER_PATIENCE_MS = 60_000.0
"""A member, not a newcomer, that has not read for so long does not count as a reader. If it comes back later than that,
it compares digests, which costs little."""

PINNED_COMMITS = 10_000_000
"""Some 2 GB. A newcomer that has not read while so much was committed must not fill the disk."""

LEAST_CEILING = 1 << 30
STORE_SHARE = 4
"""A changelog may take a quarter of what the store does, or a GiB, unless the operator says otherwise."""

PINNED_FACTOR = 4
"""For a member that reads it, or that is to be added and has not begun, so many times as much: as much as the store
itself. That is a copy's worth; a member that needs more copies faster than it would read."""

UNLIMITED = 1 << 63

INDEX_BITS = 16
"""Of a stamp: the rows of one commit. The bits above count commits."""


class Reader(Struct, frozen=True, kw_only=True):
    """A member's place in this changelog, and when it last read."""

    cursor: bytes
    asked_ms: float


class RetentionFloor(Struct, frozen=True, kw_only=True):
    """What is kept for streams of changes although no member reads it, while the ceiling allows it: at least the rows
    of so many commits, and all rows of the last so many milliseconds."""

    commits: int
    age_ms: float


class RetentionCeiling(Struct, frozen=True, kw_only=True):
    """The most bytes that are kept: in general, and for members that read them or have not begun to."""

    size: int
    pinned_size: int


class Removal(Struct, frozen=True, kw_only=True):
    """Rows up to the stamp `through` may be removed, the oldest first, until `size` bytes are gone."""

    through: bytes
    size: int


def ceiling(store_size: int, size: int | None) -> RetentionCeiling:
    """`size`: as the operator set it."""
    most = size if size is not None else max(LEAST_CEILING, store_size // STORE_SHARE)
    return RetentionCeiling(size=most, pinned_size=PINNED_FACTOR * most)


def removable(
    config: ClusterConfig,
    readers: Mapping[int, Reader],
    now_ms: float,
    *,
    newest: bytes,
    aged: bytes,
    commits: int,
    kept: int,
    most: RetentionCeiling,
) -> tuple[Removal, ...]:
    """What may be removed, in this order. `aged`: the newest stamp old enough for the floor, `commits`: how many the
    floor keeps, `kept`: the bytes of all rows."""
    unread = min(newest, wanted_by_learners(config, readers), wanted_by_followers(config, readers, now_ms))
    pinned = max(unread, before(newest, PINNED_COMMITS))
    return (
        Removal(through=min(pinned, aged, before(newest, commits)), size=UNLIMITED),
        Removal(through=pinned, size=surplus(kept, most.size)),
        Removal(through=newest, size=surplus(kept, most.pinned_size)),
    )


def surplus(kept: int, most: int) -> int:
    return max(0, kept - most)


def wanted_by_learners(config: ClusterConfig, readers: Mapping[int, Reader]) -> bytes:
    """All learners are in the configuration, so one that is not among the readers has not begun: it pins all rows."""
    return min([readers[i].cursor if i in readers else NO_STAMP for i in learners(config)], default=LAST_STAMP)


def wanted_by_followers(config: ClusterConfig, readers: Mapping[int, Reader], now_ms: float) -> bytes:
    others = [reader for i, reader in readers.items() if i not in learners(config)]
    return min([r.cursor for r in others if now_ms - r.asked_ms < FOLLOWER_PATIENCE_MS], default=LAST_STAMP)


def learners(config: ClusterConfig) -> list[int]:
    """Members that are being added."""
    old = config.previous if config.previous is not None else config.active
    return [r.id for r in config.replicas if r.status in NEWCOMERS or (r.id in config.active and r.id not in old)]


def before(newest: bytes, commits: int) -> bytes:
    """The last stamp before the newest so many commits."""
    return last_of(commit_of(newest) - commits)


def commit_of(stamp: bytes) -> int:
    return int.from_bytes(stamp, "big") >> INDEX_BITS


def last_of(commit: int) -> bytes:
    """The last stamp that the rows of a commit can have."""
    return ((commit + 1 << INDEX_BITS) - 1).to_bytes(len(NO_STAMP), "big") if commit > 0 else NO_STAMP


LAST_STAMP = b"\xff" * len(NO_STAMP)
