"""A node whose connections lead to two servers, of which one was the primary before the other."""

import asyncio

import pytest

from epoxy.model.errors import StoreUnavailable
from epoxy.store.postgres.asyncpg_database import AsyncpgDatabase
from epoxy.store.postgres.timeline import NewestTimeline
from epoxy.store.shared.database import GroupCommit, Verdict
from epoxy.testing.postgres_server import PostgresServer
from tests.store.postgres.playing import Place, ask, by_hand, committed, open_session, opened, played
from tests.store.postgres.relay import relayed

KEY = b"a row of this session"
END_BATCHES = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'epoxy batches'"


class AnyServer:
    """As a connection to one that writes this timeline."""

    def __init__(self, timeline: int) -> None:
        self._timeline = timeline

    async def fetchval(self, _statement: str) -> str:
        return f"{self._timeline:08X}"


@played
async def test_an_old_primary_is_refused_when_a_newer_one_was_reached() -> None:
    timelines = NewestTimeline()
    assert await timelines.admit(AnyServer(9)) == 9
    assert await timelines.admit(AnyServer(9)) == 9
    assert not timelines.is_past(9)
    assert await timelines.admit(AnyServer(10)) == 10
    assert timelines.is_past(9)
    with pytest.raises(StoreUnavailable, match="it writes timeline 9, and 10 has begun elsewhere"):
        await timelines.admit(AnyServer(9))


@played
async def test_rows_are_not_loaded_from_the_old_primary_when_batches_go_to_the_new_one() -> None:
    """A proxy sends new connections to the promoted standby, and those that are open stay where they are."""
    with PostgresServer(fsync=False) as primary:
        place = Place(server=primary, schema="epoxy")
        async with opened(place):
            pass
        standby = await asyncio.to_thread(primary.standby)
        try:
            async with relayed(primary) as relay, opened(place, relay.dsn) as database, by_hand(place) as old:
                session = await open_session(database)
                await committed(database, batch(session, 1, b"before"))
                assert (await ask(database.flush, session, 1)).verdict is Verdict.DONE
                assert await loaded(database) == await read(database) == b"before"
                await asyncio.to_thread(standby.promote)
                relay.server = standby
                ended = (
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'epoxy batches'"
                )
                assert await old.fetchval(ended)
                await committed(database, batch(session, 2, b"after"))
                assert await loaded(database) == b"after"
                assert await read(database) == b"after"
        finally:
            standby.close()


def batch(session: int, number: int, value: bytes) -> GroupCommit:
    return GroupCommit(session=session, number=number, config_epoch=1, rows=[(KEY, value, 1)])


async def loaded(database: AsyncpgDatabase) -> bytes:
    """Asked again until there is an answer."""
    while (found := await ask(database.load, [KEY])) is None:
        await asyncio.sleep(0.01)
    value: bytes = found[KEY]
    return value


async def read(database: AsyncpgDatabase) -> bytes:
    return (await asyncio.to_thread(database.read_rows, [KEY], flush=False))[KEY]
