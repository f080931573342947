"""`epoxy store migrate` and `back` of nodes whose rows are in a PostgreSQL: the format of the tables."""

import asyncio
from typing import Any

from msgspec import Struct

from epoxy.model.errors import StoreRefused
from epoxy.model.versions import LAST_RELEASE, LAST_TABLES
from epoxy.node.process.config import Settings
from epoxy.store.postgres import migration, schema
from epoxy.store.postgres.database_connection import DatabaseAddress, connect, first_use

CLOSE_S = 1.0
ROLE = "migration"
"""Of the connection, as the database shows it."""


class TablesPlan(Struct, frozen=True, kw_only=True):
    """`found`: the format of the tables; None: there are none yet. `steps`: the statements of each migration that is
    missing. `in_use`: the nodes that have to stop before it."""

    found: int | None
    format: int
    steps: tuple[str, ...]
    in_use: tuple[str, ...]
    way_back: str

    @property
    def migrates(self) -> bool:
        return bool(self.steps)


def survey(settings: Settings) -> TablesPlan:
    """What there is to do. Raises StoreError."""
    return asyncio.run(_survey(address_of(settings)))


def migrate(settings: Settings) -> None:
    """As the first node that starts does it, in one transaction. Raises StoreError."""
    asyncio.run(_migrate(address_of(settings)))


def go_back(settings: Settings) -> int | None:
    """Make the format of the release before of the tables; the format that they had. Raises StoreError."""
    return asyncio.run(_go_back(address_of(settings)))


def address_of(settings: Settings) -> DatabaseAddress:
    store = settings.store
    return DatabaseAddress(dsn=store.url, schema=store.schema, cluster=settings.cluster.id, replica=settings.node.id)


async def _survey(address: DatabaseAddress) -> TablesPlan:
    async with first_use(address, ROLE) as connection:
        found = await _found(connection)
        steps = migration.steps(found, migration.FORMAT) if found is not None else ()
        nodes = await migration.open_sessions(connection) if steps else []
        await connection.close(timeout=CLOSE_S)
    in_use = tuple(str(node) for node in nodes if node.has_lease)
    return TablesPlan(found=found, format=migration.FORMAT, steps=steps, in_use=in_use, way_back=way_back())


async def _found(connection: Any) -> int | None:
    found = await schema.found_format(connection)
    if found is not None and found > migration.FORMAT:
        raise StoreRefused(
            f"the tables have format {found}, which is newer than this release knows: it reads format "
            f"{migration.FORMAT}; install the release that wrote them, or a later one"
        )
    return found


async def _migrate(address: DatabaseAddress) -> None:
    connection = await connect(address, ROLE, make_tables=True)
    await connection.close(timeout=CLOSE_S)


async def _go_back(address: DatabaseAddress) -> int | None:
    async with first_use(address, ROLE) as connection:
        found = await _found(connection)
        if found == migration.FORMAT != LAST_TABLES:
            await schema.examine(connection, address.cluster, address.replica)
            await migration.migrate(connection, LAST_TABLES)
        await connection.close(timeout=CLOSE_S)
    return found


def way_back() -> str:
    if migration.FORMAT == LAST_TABLES:
        return f"the release before this one, {LAST_RELEASE}, reads the same format: it can use the tables again"
    try:
        migration.steps(migration.FORMAT, LAST_TABLES)
    except StoreRefused:
        return (
            f"release {LAST_RELEASE} cannot use the tables afterwards: only a backup of the database that was made "
            "before brings them back, and all that was written since is lost with it"
        )
    return (
        f"release {LAST_RELEASE} cannot use the tables afterwards, until `epoxy store back` of this release, with all "
        f"nodes of the datacenter stopped, has made format {LAST_TABLES} of them again; nothing is lost by that"
    )


def summary(planned: TablesPlan, *, dry_run: bool) -> str:
    if planned.found is None:
        return f"there are no tables yet: the first node that starts makes them, of format {planned.format}"
    if not planned.migrates:
        words = f"the tables: nothing to migrate, they have format {planned.format}"
    elif dry_run:
        listed = "\n".join(f"  {step}" for step in planned.steps)
        words = (
            f"the tables would be migrated from format {planned.found} to {planned.format}, in one transaction, by "
            f"this command or by the first node that starts, when no node uses format {planned.found}:\n{listed}\n"
            f"nodes that have to stop before: {', '.join(planned.in_use) or 'none'}"
        )
    else:
        words = f"the tables were migrated from format {planned.found} to {planned.format}"
    return f"{words}\nthe way back: {planned.way_back}"


def summary_of_way_back(found: int | None) -> str:
    if found is None:
        return "there are no tables yet"
    if found <= LAST_TABLES:
        return f"the tables: nothing to undo, they have format {found}"
    return f"the tables have format {LAST_TABLES} again: release {LAST_RELEASE} can use them, with all that was written"
