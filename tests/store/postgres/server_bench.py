"""The PostgreSQL store above a real server, on a bench: its event loop and its ticks move when a hand moves them."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

from epoxy.model.shards import ALL_SHARDS
from epoxy.ports import StoreCut
from epoxy.store.postgres.asyncpg_database import AsyncpgDatabase, open_database
from epoxy.store.shared.database import Reached, Verdict
from epoxy.store.shared.store import SharedStore
from tests.store.postgres.playing import LIMIT_S, Place, ask, by_hand, open_session
from tests.store.shared.shared_bench import REPLICA, SplitLayout


class ServerBench:
    """As the conformance suite needs it. A crash is a node that is gone: the next one takes its shards."""

    is_shared = True

    def __init__(self, place: Place) -> None:
        self._place = place
        self._runner = asyncio.Runner()
        self._ticks: deque[Callable[[], None]] = deque()
        self._cuts: list[StoreCut] = []
        self._opening = 0
        self._runner.run(self._open())

    async def _open(self) -> None:
        place = self._place
        self.database = await open_database(
            place.server.dsn, schema=place.schema, cluster=place.cluster, replica=place.replica
        )
        session = await open_session(self.database)
        others = range(1, session)
        assert await ask(self.database.take, session, ALL_SHARDS, others) == list(ALL_SHARDS)
        sequence, position = self.database.position()
        self._ticks.clear()
        self.store = SharedStore(
            WatchedCuts(self.database, self),
            session,
            REPLICA,
            schedule=self._ticks.append,
            pause=self._ticks.append,
            reached=Reached(verdict=Verdict.DONE, sequence=sequence, position=position),
            on_fenced=lambda _reason: self.store.close(),
            layout=SplitLayout(),
        )
        self.store.own(ALL_SHARDS, lambda: None)
        await self._rest()

    def cut(self, done: Callable[[StoreCut | None], None]) -> None:
        def opened(cut: StoreCut | None) -> None:
            self._opening -= 1
            if cut is not None:
                self._cuts.append(cut)
            done(cut)

        self._opening += 1
        self.database.cut(opened)

    def sync(self) -> None:
        self._runner.run(self._rest())

    async def _rest(self) -> None:
        """Until nothing is under way."""
        async with asyncio.timeout(LIMIT_S):
            while self._ticks or self._opening or self.database.under_way:
                while self._ticks:
                    self._ticks.popleft()()
                await asyncio.sleep(0.001)
            for cut in self._cuts:
                await read(cut)

    def reopen(self) -> None:
        self.sync()
        self.store.close()
        self.crash()

    def crash(self) -> None:
        self.database.close()
        self._runner.run(self._begin_anew())

    async def _begin_anew(self) -> None:
        async with by_hand(self._place) as hand:
            await hand.execute("UPDATE session SET lease_end = clock_timestamp() - interval '1 hour'")
        await self._open()

    def close(self) -> None:
        self.store.close()
        self.database.close()
        self._runner.close()


async def read(cut: StoreCut) -> None:
    """Jobs of a cut run in their order, so those before this one are over."""
    ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    cut.read(lambda _view: None, ended.set_result, lambda _error: ended.set_result(None))
    await ended


class WatchedCuts:
    """The database, except that the bench knows its cuts."""

    def __init__(self, database: AsyncpgDatabase, bench: ServerBench) -> None:
        self._database = database
        self.cut = bench.cut

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)
