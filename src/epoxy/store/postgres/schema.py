"""The tables of a replica in a PostgreSQL: made when they are not there, and refused when they are another's.

Every connection examines its server before it is used, not only the first one of a process: after a failover it may be
another server, and what is wrong with that one is as bad as if it had been there from the start.
"""

import re
from typing import Any

from asyncpg import PostgresError

from epoxy.model.errors import InvalidRequest, StoreRefused, StoreUnavailable
from epoxy.model.shards import ALL_SHARDS, SYSTEM_SHARD
from epoxy.store.postgres import migration

OLDEST_SERVER = 140000
"""PostgreSQL 14: the first whose sessions notice that their client is gone (`client_connection_check_interval`)."""

SCHEMA_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")

TABLES = f"""
CREATE TABLE meta (name text PRIMARY KEY, value text NOT NULL);

CREATE TABLE replica (
    id bigint PRIMARY KEY,
    sequence bigint NOT NULL,
    position bigint NOT NULL,
    config_epoch bigint NOT NULL,
    stamped_bytes bigint NOT NULL
) WITH (fillfactor = 10);

CREATE TABLE session (
    id bigint PRIMARY KEY,
    url text NOT NULL,
    version text NOT NULL,
    started timestamptz NOT NULL,
    lease_end timestamptz NOT NULL,
    fenced boolean NOT NULL,
    batch bigint NOT NULL,
    sequence bigint NOT NULL,
    format smallint NOT NULL
) WITH (fillfactor = 10);

CREATE TABLE shard (id smallint PRIMARY KEY, owner bigint, epoch bigint NOT NULL) WITH (fillfactor = 50);

CREATE TABLE "row" (key bytea PRIMARY KEY, value bytea NOT NULL, shard smallint NOT NULL);
ALTER TABLE "row" ALTER COLUMN value SET STORAGE EXTERNAL;
CREATE INDEX row_of_system ON "row" (key) WHERE shard = {SYSTEM_SHARD};
"""
"""A fill factor leaves room for new versions of rows that every batch changes on their own page, where they cost no
change of an index and no vacuum. EXTERNAL: the server's CPU is shared by all nodes, and compression would take most of
it. Only the system shard is loaded as a whole, so only its rows pay for an index."""

SAME_MOMENT = ("23505", "42P06", "42P07", "42710")
"""What a statement that makes something fails with if another process makes it in the same moment."""

LOOK = """
SELECT pg_is_in_recovery() AS is_standby, current_setting('synchronous_commit') AS synchronous_commit,
       current_setting('server_version_num')::integer AS version, to_regclass('meta') IS NOT NULL AS has_tables,
       (SELECT bool_and(has_function_privilege(oid, 'execute')) FROM pg_proc
        WHERE proname = 'pg_logical_emit_message') AS may_flush
"""
META = "SELECT name, value FROM meta WHERE name IN ('format', 'cluster', 'replica')"
META_ROWS = 3


def schema_name(name: str) -> str:
    """It is part of statements, so it is a plain name."""
    if not SCHEMA_NAME.fullmatch(name):
        raise InvalidRequest(f"{name!r} is no name for a schema: small letters, digits and _, at most 63")
    return name


async def prepare(connection: Any, schema: str, cluster: str, replica: int) -> None:
    """Make the tables if there are none, and bring an older format up to date. Raises StoreRefused and TablesInUse."""
    found = await connection.fetchrow(LOOK)
    refuse_server(found)
    if not found["has_tables"]:
        await _make(connection, schema, cluster, replica)
    if await migration.written_format(connection) < migration.FORMAT:
        await migration.migrate(connection, migration.FORMAT)
    await examine(connection, cluster, replica)


async def found_format(connection: Any) -> int | None:
    """None: there are no tables. Raises StoreRefused."""
    found = await connection.fetchrow(LOOK)
    refuse_server(found)
    if not found["has_tables"]:
        return None
    return await migration.written_format(connection)


async def examine(connection: Any, cluster: str, replica: int) -> None:
    """Whether this is the server, and the replica, that a process may write to. Raises StoreRefused."""
    found = await connection.fetchrow(LOOK)
    refuse_server(found)
    if not found["has_tables"]:
        raise StoreRefused("the database has no tables of this replica: it is not the one that they were made in")
    meta = dict(await connection.fetch(META))
    if len(meta) < META_ROWS:
        raise StoreRefused("the tables do not say whose they are: rows of the table meta are missing")
    if meta["format"] != str(migration.FORMAT):
        raise StoreRefused(
            f"the tables have format {meta['format']}, and this version of Epoxy knows {migration.FORMAT}"
        )
    if meta["cluster"] != cluster or meta["replica"] != str(replica):
        raise StoreRefused(
            f"the tables are those of {named(meta['replica'], meta['cluster'])}, and not of "
            f"{named(str(replica), cluster)}: give each replica a database or a schema of its own"
        )


def named(replica: str, cluster: str) -> str:
    """Only a cluster that was made from a backup has an id."""
    return f"replica {replica} of cluster {cluster}" if cluster else f"replica {replica}"


def refuse_server(found: Any) -> None:
    if found["version"] < OLDEST_SERVER:
        raise StoreRefused(f"the server's version {found['version']} is older than {OLDEST_SERVER // 10000}")
    if found["is_standby"]:
        raise StoreUnavailable("the server is a standby, which takes no writes; name its primary too")
    if found["synchronous_commit"] == "off":
        raise StoreRefused("synchronous_commit is off: the server acknowledges commits that it may lose; set it to on")
    if not found["may_flush"]:
        raise StoreRefused("the role may not execute pg_logical_emit_message, which makes batches durable; grant it")


async def _make(connection: Any, schema: str, cluster: str, replica: int) -> None:
    """In one transaction, so that the tables are there as a whole or not at all."""
    try:
        async with connection.transaction():
            await connection.execute(f"CREATE SCHEMA IF NOT EXISTS {schema_name(schema)}")
            await connection.execute(TABLES)
            await connection.execute("INSERT INTO replica VALUES ($1, 0, 0, 0, 0)", replica)
            await connection.execute(
                "INSERT INTO shard SELECT id, NULL, 0 FROM unnest($1::smallint[]) id", list(ALL_SHARDS)
            )
            await connection.execute(
                "INSERT INTO meta VALUES ('format', $1), ('cluster', $2), ('replica', $3), ('made', now()::text)",
                str(migration.FORMAT),
                cluster,
                str(replica),
            )
    except PostgresError as error:
        if error.sqlstate not in SAME_MOMENT:
            raise
