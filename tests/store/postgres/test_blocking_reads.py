import asyncio
import threading
import time

import pytest

from epoxy.model.errors import StoreUnavailable
from epoxy.store.postgres import blocking_reads
from epoxy.store.postgres.asyncpg_database import AsyncpgDatabase
from epoxy.store.shared.database import GroupCommit
from tests.store.postgres.playing import Place, by_hand, committed, open_session, opened, played


def thread_names() -> list[str]:
    return [thread.name for thread in threading.enumerate()]


@played
async def test_the_event_loop_may_wait_for_a_read(place: Place) -> None:
    async with opened(place) as database:
        session = await open_session(database)
        await committed(database, GroupCommit(session, 1, 0, [(b"a", b"1", 1), (b"b", b"2", 1)]))
        assert database.read_rows([b"a", b"none"], flush=True) == {b"a": b"1"}
        assert database.read_range(b"a", b"c", 1, True, flush=False) == [(b"b", b"2")]
        assert "epoxy-database-reads" in thread_names()
    assert "epoxy-database-reads" not in thread_names()


@played
async def test_a_read_that_is_not_answered_is_given_up(place: Place) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocking_reads, "READ_S", 0.2)
        async with opened(place) as database, by_hand(place) as hand:
            database.position()
            lock = hand.transaction()
            await lock.start()
            await hand.execute('LOCK TABLE "row"')
            began = time.monotonic()
            with pytest.raises(StoreUnavailable, match=r"within 0\.2 s"):
                database.read_rows([b"a"], flush=False)
            assert time.monotonic() - began >= 0.2
            await lock.rollback()
            patch.setattr(blocking_reads, "READ_S", 30.0)
            assert database.read_rows([b"a"], flush=False) == {}


@played
async def test_a_connection_that_is_lost_is_made_again(place: Place) -> None:
    async with opened(place) as database, by_hand(place) as hand:
        assert database.position() == (0, 0)
        await hand.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'epoxy reads'"
        )
        assert position_in_the_end(database) == (0, 0)


def position_in_the_end(database: AsyncpgDatabase) -> tuple[int, int]:
    for _ in range(100):
        try:
            return database.position()
        except StoreUnavailable:
            continue
    raise AssertionError("the database did not come back")


@played
async def test_reads_under_way_end_with_the_database(place: Place) -> None:
    async with opened(place) as database, by_hand(place) as hand:
        database.position()
        lock = hand.transaction()
        await lock.start()
        await hand.execute('LOCK TABLE "row"')
        reading = asyncio.create_task(asyncio.to_thread(database.read_rows, [b"a"], flush=False))
        await asyncio.sleep(0.05)
        database.close()
        with pytest.raises(StoreUnavailable):
            await reading
