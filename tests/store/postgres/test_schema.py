"""Tables that are made once, and databases that are refused."""

import asyncio

import pytest

from epoxy.model.errors import InvalidRequest, StoreRefused, StoreUnavailable
from epoxy.store.postgres import migration
from epoxy.store.postgres.asyncpg_database import open_database
from epoxy.store.postgres.schema import refuse_server, schema_name
from epoxy.store.shared.database import GroupCommit, Verdict
from epoxy.testing.postgres_server import PostgresServer
from tests.store.postgres.playing import Place, ask, by_hand, committed, everything, open_session, opened, played

SERVER = {"version": 180000, "is_standby": False, "synchronous_commit": "on", "may_flush": True}


@played
async def test_tables_are_made_once_and_found_again(place: Place) -> None:
    async with opened(place) as database:
        session = await open_session(database)
        batch = GroupCommit(session, 1, 0, [(b"k", b"v", 1)])
        assert (await ask(database.commit, batch)).verdict is Verdict.DONE
    async with opened(place) as database:
        assert await everything(database) == {b"k": b"v"}
        assert database.position() == (0, 1)


@played
async def test_nodes_that_start_together_make_one(place: Place) -> None:
    async def one() -> None:
        async with opened(place) as database:
            assert database.position() == (0, 0)

    results = await asyncio.gather(*(one() for _ in range(5)), return_exceptions=True)
    assert [each for each in results if each is not None and not isinstance(each, StoreUnavailable)] == []
    assert None in results


@pytest.mark.parametrize(
    ("cluster", "replica", "said"),
    [("another", 7, "of cluster a-cluster, and not of replica 7 of cluster another"), ("a-cluster", 8, "replica 8")],
)
@played
async def test_another_replicas_tables_are_refused(cluster: str, replica: int, said: str, place: Place) -> None:
    async with opened(place):
        with pytest.raises(StoreRefused, match=said):
            await open_database(place.server.dsn, schema=place.schema, cluster=cluster, replica=replica)


@played
async def test_a_newer_format_is_refused_and_left_as_it_is(place: Place) -> None:
    async with opened(place), by_hand(place) as hand:
        await hand.execute("UPDATE meta SET value = '3' WHERE name = 'format'")
        with pytest.raises(StoreRefused, match="have format 3, and this version of Epoxy knows 2"):
            async with opened(place):
                raise AssertionError("it opened")
        assert await hand.fetchval("SELECT value FROM meta WHERE name = 'format'") == "3"


@played
async def test_tables_whose_owner_was_deleted_are_refused_until_it_is_back(place: Place) -> None:
    async with opened(place) as database, by_hand(place) as hand:
        session = await open_session(database)
        await hand.execute("CREATE TABLE kept AS SELECT * FROM meta")
        await hand.execute("DELETE FROM meta WHERE name <> 'format'")
        await hand.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'epoxy%'"
        )
        batch = GroupCommit(session, 1, 0, [(b"k", b"v", 1)])
        assert (await ask(database.commit, batch)).verdict is Verdict.UNKNOWN
        with pytest.raises(StoreRefused, match="do not say whose they are"):
            async with opened(place):
                raise AssertionError("it opened")
        await hand.execute("DELETE FROM meta")
        await hand.execute("INSERT INTO meta SELECT * FROM kept")
        assert (await committed(database, batch)).verdict is Verdict.DONE


@played
async def test_a_database_that_refuses_a_node_which_runs_is_as_one_that_is_away(place: Place) -> None:
    async with opened(place) as database, by_hand(place) as hand:
        session = await open_session(database)
        await hand.execute("UPDATE meta SET value = '3' WHERE name = 'format'")
        await hand.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'epoxy%'"
        )
        assert (await ask(database.commit, GroupCommit(session, 1, 0, [(b"k", b"v", 1)]))).verdict is Verdict.UNKNOWN
        with pytest.raises(StoreUnavailable, match="have format 3, and this version of Epoxy knows 2"):
            database.position()
        await hand.execute("UPDATE meta SET value = '2' WHERE name = 'format'")
        assert await everything(database) == {}


@played
async def test_an_older_format_is_brought_up_to_date(place: Place) -> None:
    async with opened(place), by_hand(place) as hand:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(migration, "FORMAT", 4)
            steps = {2: "CREATE TABLE three ()", 3: "CREATE TABLE four (); DROP TABLE three"}
            patch.setattr(migration, "MIGRATIONS", steps)
            async with opened(place), opened(place):
                assert await hand.fetchval("SELECT count(*) FROM four") == 0
        assert await hand.fetchval("SELECT value FROM meta WHERE name = 'format'") == "4"


@played
async def test_a_server_that_forgets_commits_is_refused(place: Place) -> None:
    async with opened(place), by_hand(place) as hand:
        await hand.execute("ALTER ROLE epoxy SET synchronous_commit = off")
        try:
            with pytest.raises(StoreRefused, match="synchronous_commit is off"):
                async with opened(place):
                    raise AssertionError("it opened")
        finally:
            await hand.execute("ALTER ROLE epoxy RESET synchronous_commit")


@pytest.mark.parametrize(
    ("found", "error", "said"),
    [
        ({"version": 130012}, StoreRefused, "older than 14"),
        ({"is_standby": True}, StoreUnavailable, "is a standby"),
        ({"synchronous_commit": "off"}, StoreRefused, "may lose"),
        ({"may_flush": False}, StoreRefused, "pg_logical_emit_message"),
    ],
)
def test_servers_that_are_refused(found: dict[str, object], error: type[Exception], said: str) -> None:
    refuse_server(SERVER)
    with pytest.raises(error, match=said):
        refuse_server({**SERVER, **found})


@pytest.mark.parametrize("name", ["", "Epoxy", "a b", 'x"; drop schema public', "1st", "x" * 64])
def test_names_of_schemas_are_plain(name: str) -> None:
    assert schema_name("epoxy_2") == "epoxy_2"
    with pytest.raises(InvalidRequest, match="no name for a schema"):
        schema_name(name)


@played
async def test_what_is_wrong_with_an_address_is_said(postgres: PostgresServer) -> None:
    wrong = {
        postgres.dsn.replace("epoxy:", "epoxy:not"): "password authentication failed",
        postgres.dsn.replace("/postgres?", "/elsewhere?"): 'database "elsewhere" does not exist',
        "mysql://x": "not understood",
    }
    for dsn, said in wrong.items():
        with pytest.raises(StoreRefused, match=said):
            await open_database(dsn, schema="epoxy", cluster="c", replica=1)
    with pytest.raises(StoreUnavailable, match="no connection"):
        await open_database("postgresql://epoxy@127.0.0.1:1/postgres", schema="epoxy", cluster="c", replica=1)
