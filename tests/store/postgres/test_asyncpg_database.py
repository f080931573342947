"""The database over a real server: as the one in memory, which the simulator plays, and what only a real one has."""

import asyncio
import gc
import random
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from epoxy.model.errors import StoreUnavailable
from epoxy.model.shards import SYSTEM_SHARD
from epoxy.store.limits import MAX_ROW_KEY_BYTES, MAX_ROW_VALUE_BYTES, MAX_TRANSACTION_BYTES
from epoxy.store.postgres.asyncpg_database import LOAD_KEYS, LOAD_ROWS, AsyncpgDatabase
from epoxy.store.shared.database import GroupCommit, Verdict
from epoxy.testing.postgres_server import PostgresServer
from tests.store.conformance import StoreConformance
from tests.store.postgres.playing import (
    Place,
    ask,
    asking,
    by_hand,
    committed,
    everything,
    open_session,
    opened,
    played,
)
from tests.store.postgres.server_bench import ServerBench
from tests.store.postgres.twins import LEASE_MS, Twins


class TestPostgresStoreOnServer(StoreConformance):
    """What every store must do, with a real server below."""

    @pytest.fixture
    def bench(self, place: Place) -> Iterator[ServerBench]:
        bench = ServerBench(place)
        yield bench
        bench.close()


@pytest.mark.parametrize("seed", range(6))
@played
async def test_it_answers_as_the_one_in_memory(seed: int, place: Place) -> None:
    async with opened(place) as database:
        twins = Twins(database, random.Random(seed))
        for _ in range(250):
            await twins.step()
        twins.compare()
        assert database.position()[0] > 2, "commits were stamped"


@played
async def test_a_crash_undoes_what_was_not_flushed_as_in_memory() -> None:
    """Of batches that are executed and not flushed the last are lost, in the order of the log, and nothing else."""
    dice, lost = random.Random(1), 0
    with PostgresServer(fsync=False, settings={"wal_writer_delay": "10s"}) as server:
        place = Place(server, "crashes")
        async with opened(place) as database:
            twins = Twins(database, dice)
            for _ in range(6):
                for _ in range(20):
                    await twins.step()
                fresh = [await twins.ask("open_session", "u", "v", LEASE_MS) for _ in range(2)]
                await twins.ask("flush", fresh[0], 2)
                for session in fresh * 2:
                    assert isinstance(session, int)
                    await twins.commit(session)
                await asyncio.to_thread(server.restart, "immediate")
                async with by_hand(place) as hand:
                    numbers = dict(await hand.fetch("SELECT id, batch FROM session"))
                lost += twins.crashed(numbers)
                await reconnected(database)
                twins.compare()
    assert lost > 0


async def reconnected(database: AsyncpgDatabase) -> None:
    """Each of its connections."""
    batch = GroupCommit(0, 1, 0)
    while (await ask(database.commit, batch)).verdict is Verdict.UNKNOWN:
        pass
    while (await ask(database.flush, 0, 0)).verdict is Verdict.UNKNOWN:
        pass
    while await ask(database.fence, 0, 0) is Verdict.UNKNOWN:
        pass
    while await ask(database.load, [b""]) is None:
        pass
    while await ask(database.renew, 0, LEASE_MS) is None:
        pass
    while not await asyncio.to_thread(reads, database):
        pass


def reads(database: AsyncpgDatabase) -> bool:
    try:
        database.position()
    except StoreUnavailable:
        return False
    return True


# Sizes


@played
async def test_the_largest_rows_and_batches(place: Place) -> None:
    dice = random.Random(1)
    async with opened(place) as database:
        session = await open_session(database)
        key = dice.randbytes(MAX_ROW_KEY_BYTES)
        count = MAX_TRANSACTION_BYTES // MAX_ROW_VALUE_BYTES
        values = [dice.randbytes(MAX_ROW_VALUE_BYTES) for _ in range(count - 1)]
        rows = [(b"%02d" % number, value, 1) for number, value in enumerate(values)]
        stamped = [[(b"log", key[:-13], values[0])]]
        batch = GroupCommit(session, 1, 0, [*rows, (key, b"", 2)], (), stamped)
        assert (await ask(database.commit, batch)).verdict is Verdict.DONE
        found = await ask(database.load, [b"%02d" % number for number in range(count)] + [key])
        assert found == {**{row[0]: row[1] for row in rows}, key: b""}


@played
async def test_loads_of_many_rows_are_several_queries(place: Place) -> None:
    async with opened(place) as database:
        session = await open_session(database)
        rows = [(b"%06d" % number, b"v", number % 2) for number in range(2 * LOAD_KEYS + 1)]
        assert (await ask(database.commit, GroupCommit(session, 1, 0, rows))).verdict is Verdict.DONE
        assert len(await ask(database.load, [row[0] for row in rows])) == len(rows) > 2 * LOAD_KEYS
        system = await ask(database.load_shard, SYSTEM_SHARD)
        assert sorted(system) == [row[0] for row in rows if row[2] == SYSTEM_SHARD]
        assert len(system) > 2 * LOAD_ROWS


SCANS = "SELECT sum(seq_scan) FROM pg_stat_user_tables WHERE schemaname = $1 AND relname = 'row'"
"""Of the whole table; making its indexes takes some."""


@played
async def test_statements_use_the_keys_of_tables_that_were_empty_when_they_were_planned(place: Place) -> None:
    """A plan is made once. One that walks through a whole table would be slow when the table has grown."""
    async with opened(place) as database, by_hand(place) as hand:
        session = await open_session(database)
        await ended(hand, "tables")
        made = await hand.fetchval(SCANS, place.schema)
        for number in range(1, 4):
            await committed(database, GroupCommit(session, number, 0, [(b"k", b"v", 1)], [b"d"]))
            assert await ask(database.load, [b"k"]) == {b"k": b"v"}
            assert await ask(database.fence, session, 0) is Verdict.DONE
            await ask(database.load_shard, SYSTEM_SHARD)
            await ask(database.renew, session, LEASE_MS)
        assert await everything(database) == {b"k": b"v"}
        await ended(hand, "batches", "loads", "reads")
        assert await hand.fetchval(SCANS, place.schema) == made


async def ended(hand: Any, *roles: str) -> None:
    """A session of the server tells what it did at its end, if not before."""
    names = [f"epoxy {role}" for role in roles]
    await hand.execute(
        "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = ANY ($1)", names
    )


# The end


@played
async def test_a_closed_database_calls_nothing_back(place: Place) -> None:
    async with opened(place) as database, by_hand(place) as hand:
        session = await open_session(database)
        lock = hand.transaction()
        await lock.start()
        await hand.execute("UPDATE session SET batch = batch")
        heard: list[object] = []
        database.commit(GroupCommit(session, 1, 0), heard.append)
        database.renew(session, LEASE_MS, heard.append)
        database.fence(session, 0, heard.append)
        database.cut(heard.append)
        await asyncio.sleep(0)
        database.close()
        await lock.rollback()
        await asyncio.sleep(0.1)
        assert heard == []
        with pytest.raises(StoreUnavailable, match="closed"):
            database.position()
        database.close()


@played
async def test_what_is_asked_in_the_tick_of_the_end_is_never_begun(place: Place) -> None:
    """And leaves nothing behind that Python warns of."""
    async with opened(place) as database:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            database.fence(1, 1, lambda _: pytest.fail("closed"))
            database.close()
            await asyncio.sleep(0)
            gc.collect()
    assert not [str(each.message) for each in told]


@played
async def test_a_session_is_closed_when_it_says_so(place: Place) -> None:
    async with opened(place) as database:
        session = await open_session(database)
        await ask(database.take, session, [1, 2], [])
        await ask(database.close_session, session)
        assert await ask(database.fence, session, 0) is Verdict.FENCED
        other = await open_session(database)
        assert await ask(database.take, other, [1, 2, 3], []) == [1, 2, 3]


@played
async def test_sessions_that_open_together_have_ids_of_their_own(place: Place) -> None:
    async with opened(place) as one, opened(place) as two:
        opening = [asking(each.open_session, "u", "v", LEASE_MS) for each in (one, two) * 10]
        assert sorted(await asyncio.gather(*opening)) == list(range(1, 21))
