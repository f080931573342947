"""Cuts of another process: what it closes is closed at the first process, too."""

import asyncio
from functools import partial

from epoxy.model.errors import StoreUnavailable
from epoxy.ports import Snapshot, StoreCut
from tests.store.local.linked import linked, until
from tests.store.postgres.playing import ask, played


@played
async def test_a_cut_that_is_closed_is_closed_where_the_rows_are() -> None:
    async with linked() as link:
        cut: StoreCut = await ask(link.client.cut)
        assert len(link.server._cuts) == 1
        await asyncio.to_thread(cut.close)
        cut.close()
        await until(lambda: not link.server._cuts)


@played
async def test_a_job_learns_that_the_first_process_has_ended() -> None:
    async with linked() as link:
        cut: StoreCut = await ask(link.client.cut)
        link.server.end()
        failures: list[Exception] = []
        cut.read(lambda view: view.get(b"a"), lambda _: None, failures.append)
        await until(lambda: bool(failures))
        assert isinstance(failures[0], StoreUnavailable)


@played
async def test_jobs_run_beside_the_event_loop_and_in_their_order() -> None:
    async with linked() as link:
        cut: StoreCut = await ask(link.client.cut)
        order: list[int] = []
        failures: list[Exception] = []

        def job(number: int, view: Snapshot) -> int:
            assert view.get(b"none") is None
            assert list(view.range(b"", b"z", limit=1, reverse=True)) == []
            return number

        for number in range(5):
            cut.read(partial(job, number), order.append, failures.append)
        await until(lambda: len(order) + len(failures) == 5)
        assert order == list(range(5))
