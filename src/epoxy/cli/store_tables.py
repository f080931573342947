"""`epoxy store migrate` of a node whose rows are in a PostgreSQL: the format of the tables, and the way back."""

import asyncio

from msgspec import Struct

from epoxy.model.errors import StoreRefused
from epoxy.model.versions import LAST_RELEASE, LAST_TABLES
from epoxy.node.process.config import Settings
from epoxy.store.postgres import schema
from epoxy.store.postgres.database_connection import DatabaseAddress, connect, open_connection

CLOSE_S = 1.0


class TablesPlan(Struct, frozen=True, kw_only=True):
    """`found`: the format of the tables; None: there are none yet. `steps`: the statements of each migration that is
    missing."""

    found: int | None
    format: int
    steps: tuple[str, ...]
    way_back: str

    @property
    def migrates(self) -> bool:
        return bool(self.steps)


def survey(settings: Settings) -> TablesPlan:
    """What there is to do. Raises StoreError."""
    return asyncio.run(_survey(address_of(settings)))


def migrate(settings: Settings) -> None:
    """As the first node that starts does it, in one transaction. Nodes of the datacenter may run."""
    asyncio.run(_migrate(address_of(settings)))


def address_of(settings: Settings) -> DatabaseAddress:
    store = settings.store
    return DatabaseAddress(dsn=store.url, schema=store.schema, cluster=settings.cluster.id, replica=settings.node.id)


async def _survey(address: DatabaseAddress) -> TablesPlan:
    connection = await open_connection(address, "migration")
    try:
        found = await schema.found_format(connection)
    finally:
        await connection.close(timeout=CLOSE_S)
    if found is not None and found > schema.FORMAT:
        raise StoreRefused(
            f"the tables have format {found}, which is newer than this release knows: it reads format {schema.FORMAT}; "
            "install the release that wrote them, or a later one"
        )
    steps = [schema.MIGRATIONS[step] for step in range(found, schema.FORMAT)] if found is not None else []
    return TablesPlan(found=found, format=schema.FORMAT, steps=tuple(steps), way_back=way_back())


async def _migrate(address: DatabaseAddress) -> None:
    connection = await connect(address, "migration", make_tables=True)
    await connection.close(timeout=CLOSE_S)


def way_back() -> str:
    if schema.FORMAT == LAST_TABLES:
        return f"the release before this one, {LAST_RELEASE}, reads the same format: it can use the tables again"
    return (
        f"release {LAST_RELEASE} cannot use the tables afterwards: only a backup of the database that was made before "
        "brings them back, and all that was written since is lost with it"
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
            f"this command or by the first node that starts:\n{listed}"
        )
    else:
        words = f"the tables were migrated from format {planned.found} to {planned.format}"
    return f"{words}\nthe way back: {planned.way_back}"
