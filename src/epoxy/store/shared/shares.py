"""Which shards a session should own: what it does next, planned from the table of owners alone.

Every session plans for itself, from a table that may be a moment old, and all plans agree: where shards cannot be split
evenly the sessions with the most keep one more, so that an even spread is left as it is and nothing moves back and
forth. What two sessions want at the same time the database decides.
"""

from collections.abc import Callable, Sequence

from msgspec import Struct

from epoxy.model.shards import ALL_SHARDS, SYSTEM_SHARD
from epoxy.store.shared.database import ShardTable

AWAKE = 0.5
"""The part of its lease that a session must have left to be given shards. A lease is renewed before a fifth of it is
over: a session with less is slow, paused or gone. One that has not begun yet, or is leaving, renews for no more than
this, so that no shard is handed to it."""


class ShardMove(Struct, frozen=True):
    shard: int
    to: int


class NextStep(Struct, frozen=True):
    """`dead`: sessions to fence. `take`: shards that have no owner once these are fenced."""

    dead: Sequence[int] = ()
    take: Sequence[int] = ()
    give: ShardMove | None = None


Reaches = Callable[[int], bool]
"""Whether this session has a connection to another one."""


def next_step(
    table: ShardTable,
    session: int,
    lease_ms: float,
    *,
    fences: bool,
    takes_system: bool = True,
    reaches: Reaches = lambda _: True,
) -> NextStep:
    """What this session does for an even spread: it takes its part of the shards without an owner; when there are none
    it hands over one of those that it has too many of. The system shard is taken if it has no owner, and stays
    otherwise. `fences`: whether a session whose lease is over may be fenced. `takes_system`: whether this session may
    own the system shard.

    A session without shards gets its first ones from one that reaches it, and takes none while there is a session that
    has some: a node whose address or secret is wrong would own shards that no other node can ask it for."""
    dead = {row.id for row in table.sessions if fences and row.left_ms <= 0 and row.id != session}
    alive = {row.id for row in table.sessions} - dead
    free = [shard for shard in ALL_SHARDS if table.owners[shard] not in alive]
    keys = [shard for shard in free if shard != SYSTEM_SHARD]
    there = awake(table, lease_ms, session) - dead
    if keys:
        takers = there & set(table.owners) or there
        shortage = differences(spread_over(table, takers), len(keys))[1]
        take = [shard for shard, taker in zip(keys, shortage, strict=False) if taker == session]
    else:
        take = []
    if SYSTEM_SHARD in free and takes_system:
        take.insert(0, SYSTEM_SHARD)
    if keys or take:
        return NextStep(dead=sorted(dead) if take else (), take=take)
    surplus, shortage = differences(spread_over(table, reached(there, session, reaches)), 0)
    moves = [to for giver, to in zip(surplus, shortage, strict=True) if giver == session]
    return NextStep(give=ShardMove(key_shards(table, session)[-1], moves[0]) if moves else None)


def heir(table: ShardTable, session: int, lease_ms: float, reaches: Reaches = lambda _: True) -> int:
    """The session that gets the next shard of one that leaves: that with the fewest. 0: there is none."""
    return next(iter(heirs(table, session, lease_ms, reaches)), 0)


def heirs(table: ShardTable, session: int, lease_ms: float, reaches: Reaches = lambda _: True) -> list[int]:
    """All that may get it, in this order."""
    others = reached(awake(table, lease_ms, session), session, reaches) - {session}
    return sorted(others, key=lambda each: (len(key_shards(table, each)), each))


def awake(table: ShardTable, lease_ms: float, session: int) -> set[int]:
    """The sessions among which shards are spread: this one, and all that renew their leases in time."""
    return {row.id for row in table.sessions if row.left_ms > AWAKE * lease_ms or row.id == session}


def reached(sessions: set[int], session: int, reaches: Reaches) -> set[int]:
    return {each for each in sessions if each == session or reaches(each)}


def spread_over(table: ShardTable, sessions: set[int]) -> dict[int, int]:
    return {each: len(key_shards(table, each)) for each in sessions}


def key_shards(table: ShardTable, session: int) -> list[int]:
    return [shard for shard in ALL_SHARDS if shard != SYSTEM_SHARD and table.owners[shard] == session]


def differences(spread: dict[int, int], free: int) -> tuple[list[int], list[int]]:
    """From a spread to the even one that is nearest, with the free shards in it: the sessions that have too many, and
    those that have too few, each as often as shards are to move."""
    share, rest = divmod(sum(spread.values()) + free, len(spread))
    by_held = sorted(spread, key=lambda session: (-spread[session], session))
    over = {session: spread[session] - share - (rank < rest) for rank, session in enumerate(by_held)}
    surplus = [session for session in sorted(over) for _ in range(over[session])]
    return surplus, [session for session in sorted(over) for _ in range(-over[session])]
