"""The database of another process, over real sockets: it answers as the one in memory, whatever is under way."""

import asyncio
import random

import msgspec
import pytest

from epoxy.model.errors import StoreError, StoreUnavailable
from epoxy.ports import StoreCut
from epoxy.store.limits import MAX_ROW_VALUE_BYTES
from epoxy.store.local.database_client import LOAD_KEYS
from epoxy.store.local.database_messages import Order
from epoxy.store.shared.database import ExecutedBatch, GroupCommit, Reached, Verdict
from tests.store.local.linked import Linked, linked, local_database, until
from tests.store.postgres.playing import ask, asking, played
from tests.store.postgres.twins import LEASE_MS, STEPS, Twins


class LocalTwins(Twins):
    """The position of an embedded store rises with its syncs, and its rows have the shards that their keys say."""

    def comparable(self, answer: object) -> object:
        """A batch is answered when it is durable, with what a flush after it has reached."""
        found = list(answer) if isinstance(answer, tuple) else super().comparable(answer)
        if isinstance(found, ExecutedBatch):
            assert found.reached is None or found.reached.number == found.number
            return msgspec.structs.replace(found, reached=None)
        return msgspec.structs.replace(found, position=0) if isinstance(found, Reached) else found

    async def load_shard(self) -> None:
        pass

    async def compare_reads(self) -> None:
        def reads(place: int) -> object:
            each = self.both[place]
            everything = list(each.read_range(b"", b"\xff", 1000, False, flush=True))
            some = [*each.read_range(b"1", b"4", 2, True, flush=True)]
            return each.position()[0], everything, some, each.read_rows([b"0", b"none"], flush=True)

        assert await asyncio.to_thread(reads, 0) == reads(1)


@pytest.mark.parametrize("seed", range(6))
@played
async def test_it_answers_as_the_one_in_memory(seed: int) -> None:
    async with linked() as link:
        twins = LocalTwins(link.client, random.Random(seed))
        for _ in range(250):
            await twins.step()
        await twins.compare_reads()
        assert link.database.position()[0] > 2, "commits were stamped"


@pytest.mark.parametrize("seed", range(6))
@played
async def test_so_does_the_one_of_the_first_process(seed: int) -> None:
    async with local_database() as (_, database):
        twins = LocalTwins(database, random.Random(seed))
        for _ in range(250):
            await twins.step()
        found = [list(each.read_range(b"", b"\xff", 1000, False, flush=True)) for each in twins.both]
        assert found[0] == found[1]
        assert "load" in STEPS


async def session_of(link: Linked) -> int:
    session = await ask(link.client.open_session, "http://node", "1", LEASE_MS)
    assert isinstance(session, int)
    return session


@played
async def test_many_questions_are_under_way() -> None:
    """A fence is not held up by what waits for the disk."""
    async with linked() as link:
        session = await session_of(link)
        order: list[str] = []
        batch = GroupCommit(session, 1, 0, [(b"k", b"v" * 100_000, 1)])
        link.client.commit(batch, lambda _: order.append("batch"))
        link.client.flush(session, 0, lambda _: order.append("flush"))
        link.client.fence(session, 0, lambda _: order.append("fence"))
        await until(lambda: len(order) == 3)
        assert order == ["fence", "batch", "flush"]


@played
async def test_loads_of_many_and_of_large_rows() -> None:
    async with linked() as link:
        session = await session_of(link)
        rows = [(b"%06d" % number, b"v", 1) for number in range(2 * LOAD_KEYS + 1)]
        rows += [(b"large%d" % number, bytes(MAX_ROW_VALUE_BYTES), 1) for number in range(5)]
        assert (await ask(link.client.commit, GroupCommit(session, 1, 0, rows))).verdict is Verdict.DONE
        keys = [row[0] for row in rows]
        expected = {row[0]: row[1] for row in rows}
        assert await ask(link.client.load, keys) == expected
        assert await asyncio.to_thread(link.client.read_rows, keys, flush=True) == expected
        assert await ask(link.client.load, []) == {}


@played
async def test_a_cut_shows_one_moment() -> None:
    async with linked() as link:
        session = await session_of(link)
        await ask(link.client.commit, GroupCommit(session, 1, 0, [(b"a", b"1", 1), (b"b", b"1", 1)]))
        await ask(link.client.flush, session, 0)
        cut: StoreCut = await ask(link.client.cut)
        await ask(link.client.commit, GroupCommit(session, 2, 0, [(b"a", b"2", 1)], [b"b"]))
        found: list[object] = []
        cut.read(lambda view: (view.get(b"a"), list(view.range(b"", b"z", limit=9))), found.append, found.append)
        await until(lambda: len(found) == 1)
        assert found == [(b"1", [(b"a", b"1"), (b"b", b"1")])]
        await asyncio.to_thread(cut.close)
        failures: list[Exception] = []
        cut.read(lambda view: view.get(b"a"), found.append, failures.append)
        assert isinstance(failures[0], StoreError)


@played
async def test_orders_reach_the_other_process() -> None:
    async with linked() as link:
        for order in Order:
            link.server.order(order)
        await until(lambda: len(link.orders) == len(Order))
        assert link.orders == list(Order)


@played
async def test_when_the_first_process_ends_nothing_is_known_of_what_was_asked() -> None:
    async with linked() as link:
        session = await session_of(link)
        asked = asking(link.client.commit, GroupCommit(session, 1, 0, [(b"k", b"v", 1)]))
        fenced = asking(link.client.fence, session, 0)
        await asyncio.sleep(0)
        link.server.end()
        assert (await asked).verdict is Verdict.UNKNOWN
        assert await fenced is Verdict.UNKNOWN
        assert await ask(link.client.load, [b"k"]) is None
        await until(lambda: "client" in link.lost)
        with pytest.raises(StoreUnavailable, match="first process"):
            await asyncio.to_thread(link.client.read_rows, [b"k"], flush=True)


@played
async def test_a_closed_one_calls_nothing_back() -> None:
    async with linked() as link:
        session = await session_of(link)
        heard: list[object] = []
        link.client.fence(session, 0, heard.append)
        link.client.close()
        await until(lambda: link.lost == ["server"])
        assert heard == []
