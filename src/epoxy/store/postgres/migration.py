"""The format of the tables in a PostgreSQL, and the way from one to another, forward or back.

Nodes that use different formats must not share the tables. So the format changes while no session is in force, in one
transaction:

- First the sessions that are not closed are looked at, without a lock, which would delay nodes that serve. One with
  a lease is in force. One whose lease is over may belong to a node that did not reach the database either, and renews
  it in a moment: it is in force if it does so within WATCH_S.
- Then the table of sessions is locked as a whole. A statement that opens a session, renews its lease or commits a batch
  has ended before, and a second look sees what it did; or it begins after the migration.
- All sessions are fenced. A node that was paused finds that its session is over, whatever release it is of.
- A statement that opens a session under the other format fails. A node that looked at the format before the migration
  and opens its session after it has none.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

from asyncpg import LockNotAvailableError
from msgspec import Struct

from epoxy.model.errors import StoreRefused, StoreUnavailable, TablesInUse
from epoxy.model.versions import TABLES_FORMAT

log = logging.getLogger(__name__)

FORMAT = TABLES_FORMAT
"""Of the tables. A process refuses a newer one, and brings an older one up to date with MIGRATIONS."""

MIGRATIONS: dict[int, str] = {
    1: "ALTER TABLE session ADD COLUMN format smallint NOT NULL DEFAULT 1; "
    "ALTER TABLE session ALTER COLUMN format DROP DEFAULT",
}
"""By the format that is found: statements that make the next one of it. 2: sessions see batches that are not durable
yet. What opens one names the format: release 0.1.0 does not, and cannot."""

WAYS_BACK: dict[int, str] = {2: "ALTER TABLE session DROP COLUMN format"}
"""By the format that is found: statements that make the one before of it."""

WATCH_S = 5.0
"""For a node that renews its lease, after the database was away: it connects again within a quarter of a second, and to
a host that does not answer before another one that does, within five."""

WRITTEN = "SELECT value FROM meta WHERE name = 'format'"
UNFENCED = """
SELECT id, url, version, lease_end, lease_end >= clock_timestamp() AS has_lease
FROM session WHERE NOT fenced ORDER BY id
"""
LOCK_SESSIONS = "LOCK TABLE session IN ACCESS EXCLUSIVE MODE"
FENCE_ALL = "UPDATE session SET fenced = true WHERE NOT fenced"


class OpenSession(Struct, frozen=True):
    """Of a node that has not closed it. `lease_end`: on the database's clock."""

    id: int
    url: str
    version: str
    lease_end: object
    has_lease: bool

    def __str__(self) -> str:
        return f"{self.url} (release {self.version})"


def steps(found: int, target: int) -> tuple[str, ...]:
    """The statements of each migration that is missing. Raises StoreRefused."""
    ways = [MIGRATIONS.get(step) for step in range(found, target)]
    ways += [WAYS_BACK.get(step) for step in range(found, target, -1)]
    known = tuple(way for way in ways if way is not None)
    if len(known) < len(ways):
        raise StoreRefused(f"there is no way from format {found} of the tables to format {target}")
    return known


async def written_format(connection: Any, statement: str = WRITTEN) -> int:
    """It is written by the transaction that makes the tables. Raises StoreRefused."""
    written = await connection.fetchval(statement)
    if written is None or not written.isdecimal():
        raise StoreRefused("the tables do not say which format they have: the table meta is damaged")
    return int(written)


async def open_sessions(connection: Any) -> list[OpenSession]:
    return [OpenSession(*row) for row in await connection.fetch(UNFENCED)]


async def migrate(connection: Any, target: int) -> None:
    """Bring the tables to another format. Processes that do so together do it once. Raises TablesInUse, StoreRefused
    and StoreUnavailable."""
    found = await written_format(connection)
    if found == target:
        return
    seen = await _watched(connection, found, target)
    async with connection.transaction():
        try:
            found = await written_format(connection, f"{WRITTEN} FOR UPDATE")
            if found == target:
                return
            await connection.execute(LOCK_SESSIONS)
        except LockNotAvailableError as error:
            raise StoreUnavailable(
                "another transaction holds the tables, perhaps a dump of the database; when it has ended they can "
                f"become those of format {target}"
            ) from error
        now = await open_sessions(connection)
        if _leases(now) != _leases(seen):
            raise in_use(now, found, target)
        for step in steps(found, target):
            await connection.execute(step)
        await connection.execute(FENCE_ALL)
        await connection.execute("UPDATE meta SET value = $1 WHERE name = 'format'", str(target))
    log.info("the tables were migrated from format %d to %d", found, target)


async def _watched(connection: Any, found: int, target: int) -> list[OpenSession]:
    """Sessions that are not closed and not in force. Raises TablesInUse."""
    seen = await open_sessions(connection)
    if any(session.has_lease for session in seen):
        raise in_use(seen, found, target)
    if seen:
        await asyncio.sleep(WATCH_S)
    return seen


def _leases(sessions: Sequence[OpenSession]) -> list[tuple[int, object]]:
    return [(session.id, session.lease_end) for session in sessions]


def in_use(sessions: Sequence[OpenSession], found: int, target: int) -> TablesInUse:
    """Those without a lease are named if there are no others."""
    nodes = [session for session in sessions if session.has_lease] or sessions
    return TablesInUse(
        f"the tables have format {found}, and these nodes use it: {', '.join(map(str, nodes))}; they become those of "
        f"format {target} when all of them have stopped"
    )
