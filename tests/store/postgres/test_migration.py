"""Tables of another format: when they change, what becomes of sessions meanwhile, and that faults in it are caught."""

import asyncio
import re
from collections.abc import Callable, Coroutine
from typing import Any

import asyncpg
import pytest

from epoxy.model.errors import StoreRefused, StoreUnavailable, TablesInUse
from epoxy.store.postgres import database_connection, migration, schema, statements
from epoxy.store.shared.database import GroupCommit, Verdict
from tests.store.postgres.playing import (
    Place,
    ask,
    by_hand,
    committed,
    everything,
    open_session,
    opened,
    played,
    until_waiting,
)

OLD_OPEN = """
INSERT INTO session (id, url, version, started, lease_end, fenced, batch, sequence)
SELECT coalesce(max(id), 0) + 1, $1, '0.1.0', clock_timestamp(), clock_timestamp() + $2 * interval '1 s', false, 0, 0
FROM session RETURNING id
"""
"""As release 0.1.0 does it."""

COUNT_BATCH = "UPDATE session SET batch = batch + 1 WHERE id = $1 AND NOT fenced RETURNING id"
"""A batch begins so, in both releases: without the row it does nothing."""

FORMAT_OF = "SELECT value FROM meta WHERE name = 'format'"
ROWS = {b"k": b"v"}


@pytest.fixture(autouse=True)
def watched_shortly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migration, "WATCH_S", 0.3)


async def make_old(place: Place) -> None:
    """Tables of format 1 with a row, and no session in force."""
    async with opened(place) as database, by_hand(place) as hand:
        session = await open_session(database)
        await committed(database, GroupCommit(session, 1, 0, [(b"k", b"v", 1)]))
        await ask(database.close_session, session)
        await hand.execute("ALTER TABLE session DROP COLUMN format; UPDATE meta SET value = '1' WHERE name = 'format'")


async def is_refused(place: Place, *urls: str) -> None:
    """Because of these nodes; and nothing was changed."""
    named = ", ".join(f"{url} (release 0.1.0)" for url in urls)
    said = f"format 1, and these nodes use it: {named}; they become those of format 2"
    with pytest.raises(TablesInUse, match=re.escape(said)):
        async with opened(place):
            raise AssertionError("it opened")
    async with by_hand(place) as hand:
        assert await hand.fetchval(FORMAT_OF) == "1"


async def nobody_uses_them(place: Place) -> None:
    await make_old(place)
    async with opened(place) as database, by_hand(place) as hand:
        assert await hand.fetchval(FORMAT_OF) == "2"
        assert await everything(database) == ROWS
        session = await open_session(database)
        assert (await ask(database.commit, GroupCommit(session, 1, 0, [(b"j", b"w", 1)]))).verdict is Verdict.DONE


async def a_session_in_force_is_waited_for(place: Place) -> None:
    await make_old(place)
    async with by_hand(place) as hand:
        one, two = [await hand.fetchval(OLD_OPEN, f"http://{name}", 60.0) for name in ("a", "b")]
        await is_refused(place, "http://a", "http://b")
        await hand.execute(statements.CLOSE_SESSION, one)
        await is_refused(place, "http://b")
        assert await hand.fetchval(COUNT_BATCH, two) == two
        await hand.execute(statements.CLOSE_SESSION, two)
        async with opened(place):
            assert await hand.fetchval(FORMAT_OF) == "2"


async def a_session_without_a_lease_is_fenced_unless_it_renews_it(place: Place) -> None:
    """The database was away for longer than a lease. Nodes of the last release come back a moment after this one."""
    await make_old(place)
    async with by_hand(place) as hand:
        session = await hand.fetchval(OLD_OPEN, "http://a", -60.0)
        refused = asyncio.create_task(is_refused(place, "http://a"))
        while not refused.done():
            await hand.execute(statements.RENEW, session, -1000.0)
            await asyncio.sleep(0.01)
        await refused
        async with opened(place):
            assert await hand.execute(statements.RENEW, session, 60_000.0) == "UPDATE 0"
            assert await hand.fetchval(COUNT_BATCH, session) is None


async def a_session_that_is_being_opened_is_seen(place: Place) -> None:
    await make_old(place)
    async with by_hand(place) as hand, by_hand(place) as watcher:
        opening = hand.transaction()
        await opening.start()
        session = await hand.fetchval(OLD_OPEN, "http://a", 60.0)
        refused = asyncio.create_task(is_refused(place, "http://a"))
        await until_waiting(watcher)
        await opening.commit()
        await refused
        assert await hand.fetchval(COUNT_BATCH, session) == session


async def a_node_that_looked_before_opens_no_session_after(place: Place) -> None:
    await make_old(place)
    async with by_hand(place) as hand:
        prepared = await hand.prepare(OLD_OPEN)
        await hand.execute("SELECT 1")  # Which ends what preparing began.
        async with opened(place) as database:
            with pytest.raises(asyncpg.NotNullViolationError, match="format"):
                await prepared.fetchval("http://a", 60.0)
            assert await open_session(database) > 0


async def nodes_that_start_together_migrate_once(place: Place) -> None:
    await make_old(place)
    async with by_hand(place) as hand:
        held = hand.transaction()
        await held.start()
        await hand.execute("SELECT FROM meta WHERE name = 'format' FOR UPDATE")

        async def one() -> int:
            async with opened(place) as database:
                return await open_session(database)

        starting = [asyncio.create_task(one()) for _ in range(4)]
        async with by_hand(place) as watcher:
            await until_waiting(watcher, 4)
        await held.commit()
        assert len(set(await asyncio.gather(*starting))) == 4
        assert await hand.fetchval("SELECT count(*) FROM session WHERE NOT fenced") == 4


async def the_way_back(place: Place) -> None:
    async with opened(place) as database, by_hand(place) as hand:
        session = await open_session(database)
        await committed(database, GroupCommit(session, 1, 0, [(b"k", b"v", 1)]))
        with pytest.raises(TablesInUse, match="format 2, and these nodes use it: http://node"):
            await migration.migrate(hand, 1)
        await hand.execute("UPDATE session SET lease_end = clock_timestamp() - interval '1 s'")
        await migration.migrate(hand, 1)
        assert await hand.fetchval(FORMAT_OF) == "1"
        again = GroupCommit(session, 2, 0, [(b"k", b"x", 1)])
        assert (await ask(database.commit, again)).verdict is Verdict.FENCED
        assert await ask(database.open_session, "http://node", "1", 1000.0) is None
        assert await hand.fetchval(OLD_OPEN, "http://a", -60.0) > session
    async with opened(place) as database:
        assert await everything(database) == ROWS


Story = Callable[[Place], Coroutine[Any, Any, None]]

STORIES: list[Story] = [
    nobody_uses_them,
    a_session_in_force_is_waited_for,
    a_session_without_a_lease_is_fenced_unless_it_renews_it,
    a_session_that_is_being_opened_is_seen,
    a_node_that_looked_before_opens_no_session_after,
    nodes_that_start_together_migrate_once,
    the_way_back,
]


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_story(story: Story, place: Place) -> None:
    played(story)(place)


async def unwatched(connection: Any, _found: int, _target: int) -> list[migration.OpenSession]:
    return await migration.open_sessions(connection)


NO_LEASE = migration.UNFENCED.replace("lease_end >= clock_timestamp()", "false")
DEFAULT = {1: migration.MIGRATIONS[1].partition(";")[0]}

FAULTS: list[tuple[str, object, Story]] = [
    ("LOCK_SESSIONS", "SELECT 1", a_session_that_is_being_opened_is_seen),
    ("FENCE_ALL", "SELECT 1", a_session_without_a_lease_is_fenced_unless_it_renews_it),
    ("_watched", unwatched, a_session_in_force_is_waited_for),
    ("_leases", lambda _: [], a_session_without_a_lease_is_fenced_unless_it_renews_it),
    ("UNFENCED", NO_LEASE, a_session_in_force_is_waited_for),
    ("MIGRATIONS", DEFAULT, a_node_that_looked_before_opens_no_session_after),
    ("WAYS_BACK", {2: "SELECT 1"}, the_way_back),
]


@pytest.mark.parametrize(("name", "fault", "story"), FAULTS, ids=lambda each: each if isinstance(each, str) else "")
def test_a_faulty_migration_is_caught(
    name: str, fault: object, story: Story, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migration, name, fault)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        played(story)(place)


@played
async def test_a_dump_is_named_as_what_holds_the_tables(place: Place) -> None:
    await make_old(place)
    async with by_hand(place) as hand:
        async with hand.transaction():
            await hand.execute("SELECT FROM session")
            with pytest.MonkeyPatch.context() as patch:
                patch.setitem(database_connection.SETTINGS, "lock_timeout", "50")
                with pytest.raises(StoreUnavailable, match="perhaps a dump of the database"):
                    async with opened(place):
                        raise AssertionError("it opened")
            assert await hand.fetchval(FORMAT_OF) == "1"
        async with opened(place):
            assert await hand.fetchval(FORMAT_OF) == "2"


@pytest.mark.parametrize(
    ("written", "said"),
    [("", "do not say which format"), ("x", "do not say which format"), ("0", "no way from format 0")],
)
@played
async def test_a_format_that_never_was_is_refused(written: str, said: str, place: Place) -> None:
    async with opened(place), by_hand(place) as hand:
        await hand.execute("DELETE FROM meta WHERE name = 'format'")
        if written:
            await hand.execute("INSERT INTO meta VALUES ('format', $1)", written)
        with pytest.raises(StoreRefused, match=said):
            async with opened(place):
                raise AssertionError("it opened")


def test_each_format_has_its_migration_and_this_release_the_way_back() -> None:
    assert set(migration.MIGRATIONS) == set(range(1, migration.FORMAT))
    assert migration.steps(migration.FORMAT, migration.FORMAT) == ()
    assert migration.steps(2, 1) == (migration.WAYS_BACK[2],)
    with pytest.raises(StoreRefused, match="no way from format 1 of the tables to format 0"):
        migration.steps(1, 0)


def test_new_tables_are_as_migrated_ones(place: Place) -> None:
    """Column by column, so that a format is one thing however the tables came to it."""
    columns = """
    SELECT column_name, data_type, is_nullable, column_default FROM information_schema.columns
    WHERE table_schema = current_schema AND table_name = 'session' ORDER BY ordinal_position
    """

    @played
    async def compared() -> None:
        async with opened(place), by_hand(place) as hand:
            fresh = await hand.fetch(columns)
        await make_old(place)
        async with opened(place), by_hand(place) as hand:
            assert await hand.fetch(columns) == fresh
        assert "format smallint NOT NULL" in schema.TABLES

    compared()
