import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

import pytest

from epoxy.model.errors import StoreError, StoreUnavailable
from epoxy.ports import Snapshot, StoreCut
from epoxy.store.postgres import database_cut
from epoxy.store.postgres.asyncpg_database import AsyncpgDatabase
from epoxy.store.postgres.database_cut import MAX_CUTS
from epoxy.store.shared.database import GroupCommit
from tests.store.postgres.playing import LIMIT_S, Place, ask, by_hand, committed, open_session, opened, played, until

T = TypeVar("T")


async def read(cut: StoreCut, job: Callable[[Snapshot], T]) -> T:
    answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
    cut.read(job, answer.set_result, answer.set_exception)
    async with asyncio.timeout(LIMIT_S):
        return await answer


async def opened_cut(database: AsyncpgDatabase) -> StoreCut:
    cut = await ask(database.cut)
    assert cut is not None
    found: StoreCut = cut
    return found


def everything(view: Snapshot) -> list[tuple[bytes, bytes]]:
    return list(view.range(b"", b"\xff", limit=100))


@played
async def test_a_cut_shows_one_moment_and_its_jobs_run_in_a_thread(place: Place) -> None:
    async with opened(place) as database:
        session = await open_session(database)
        await committed(database, GroupCommit(session, 1, 0, [(b"a", b"1", 1), (b"b", b"1", 1)]))
        cut = await opened_cut(database)
        await committed(database, GroupCommit(session, 2, 0, [(b"a", b"2", 1), (b"c", b"2", 1)], [b"b"]))
        assert await read(cut, everything) == [(b"a", b"1"), (b"b", b"1")]
        assert await read(cut, lambda view: (view.get(b"b"), view.get(b"c"))) == (b"1", None)
        assert await read(cut, lambda view: view.range(b"", b"z", limit=1, reverse=True)) == [(b"b", b"1")]
        assert await read(cut, lambda _view: threading.current_thread().name) == "epoxy-database-cut"
        cut.close()
        later = await opened_cut(database)
        assert await read(later, everything) == [(b"a", b"2"), (b"c", b"2")]
        later.close()


@played
async def test_a_job_that_fails_says_why_and_the_cut_goes_on(place: Place) -> None:
    async with opened(place) as database:
        cut = await opened_cut(database)
        with pytest.raises(ZeroDivisionError):
            await read(cut, lambda _view: 1 // 0)
        assert await read(cut, everything) == []
        cut.close()
        cut.close()
        with pytest.raises(StoreError, match="closed"):
            await read(cut, everything)


@played
async def test_cuts_are_few_and_closed_ones_make_room(place: Place) -> None:
    async with opened(place) as database:
        cuts = [await opened_cut(database) for _ in range(MAX_CUTS)]
        assert await ask(database.cut) is None
        cuts[0].close()

        async def has_room() -> bool:
            cut: StoreCut | None = await ask(database.cut)
            if cut is not None:
                cut.close()
            return cut is not None

        await until(has_room)
        for cut in cuts:
            cut.close()
        await until(no_threads)


async def no_threads() -> bool:
    return all(thread.name != "epoxy-database-cut" for thread in threading.enumerate())


@played
async def test_a_cut_whose_connection_is_lost_says_so(place: Place) -> None:
    async with opened(place) as database, by_hand(place) as hand:
        cut = await opened_cut(database)
        await hand.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'epoxy cut'"
        )
        with pytest.raises(StoreUnavailable, match="during a cut"):
            await read(cut, everything)
        cut.close()


@played
async def test_a_cut_that_is_not_read_is_ended_by_the_server(place: Place) -> None:
    with pytest.MonkeyPatch.context() as patch:
        assert "= '600s'" in database_cut.BEGIN
        patch.setattr(database_cut, "BEGIN", database_cut.BEGIN.replace("600s", "50ms"))
        async with opened(place) as database, by_hand(place) as hand:
            cut = await opened_cut(database)
            open_cuts = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'epoxy cut'"

            async def is_ended() -> bool:
                return bool(await hand.fetchval(open_cuts) == 0)

            await until(is_ended)
            with pytest.raises(StoreUnavailable, match="during a cut"):
                await read(cut, everything)
            cut.close()


@played
async def test_without_a_server_there_is_no_cut(place: Place) -> None:
    async with opened(place) as database:
        place.server.stop()
        try:
            assert await ask(database.cut) is None
        finally:
            place.server.start()


@played
async def test_cuts_end_with_the_database(place: Place) -> None:
    async with opened(place) as database:
        await opened_cut(database)
    await until(no_threads)
