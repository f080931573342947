"""Connections that are lost, at every point, and servers that go, come back or are replaced."""

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trustme

from epoxy.model.errors import StoreUnavailable
from epoxy.store.buffer import stamp
from epoxy.store.postgres import database_connection, statements
from epoxy.store.postgres.asyncpg_database import AsyncpgDatabase
from epoxy.store.postgres.database_connection import (
    ABORTED,
    LEASE_BACKOFF_S,
    DatabaseAddress,
    DatabaseConnection,
    described,
)
from epoxy.store.shared.database import ExecutedBatch, GroupCommit, Reached, Verdict
from epoxy.store.shared.ownership import STEADY
from epoxy.testing.postgres_server import PostgresServer
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
    until,
    until_waiting,
)
from tests.store.postgres.relay import relayed

END = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1"
UNKNOWN = ExecutedBatch(verdict=Verdict.UNKNOWN)


def logged(session: int, number: int) -> GroupCommit:
    """A batch of which rows and stamps say how often it was applied."""
    return GroupCommit(session, number, 0, [(b"k%d" % number, b"v", 1)], (), [[(b"log", b"", b"%d" % number)]])


def done(count: int) -> ExecutedBatch:
    """After so many of them."""
    return ExecutedBatch(Verdict.DONE, count, count)


def applied(count: int) -> dict[bytes, bytes]:
    rows = {b"k%d" % number: b"v" for number in range(1, count + 1)}
    return {**rows, **{b"log" + stamp(number, 0): b"%d" % number for number in range(1, count + 1)}}


@played
async def test_a_connection_that_ends_while_it_rests_is_made_again(place: Place) -> None:
    async with opened(place) as database, by_hand(place) as hand:
        session = await open_session(database)
        await committed(database, logged(session, 1))
        await ask(database.fence, session, 0)
        for role in ("batches", "fences", "leases"):
            await hand.execute(END, f"epoxy {role}")
        assert (await committed(database, logged(session, 2))).sequence == 2
        while await ask(database.fence, session, 0) is Verdict.UNKNOWN:
            pass
        while await ask(database.renew, session, 1000.0) is None:
            pass
        assert await everything(database) == applied(2)


@played
async def test_a_batch_whose_session_of_the_server_is_ended_is_unknown_and_can_be_asked_again(place: Place) -> None:
    async with opened(place) as database, by_hand(place) as hand:
        session = await open_session(database)
        lock = hand.transaction()
        await lock.start()
        await hand.execute("UPDATE replica SET position = position")
        answer = asking(database.commit, logged(session, 1))
        await until_waiting(hand)
        await hand.execute(END, "epoxy batches")
        assert await answer == UNKNOWN
        await lock.rollback()
        assert await committed(database, logged(session, 1)) == done(1)
        assert await everything(database) == applied(1)


@pytest.mark.parametrize("way", ["requests", "answers"])
@played
async def test_a_batch_is_applied_once_wherever_its_connection_is_cut(way: str, place: Place) -> None:
    """The first use of a connection makes it, examines the server and prepares the statement; the second does not."""
    async with relayed(place.server) as relay, opened(place, relay.dsn) as database:
        session = await open_session(database)
        number = outcomes = 0
        points = [0, 1, 5, 30, 60, 100, 150, 200, 300, 500, 800, 1500, 2500, 4000]
        for fresh in (True, False):
            for point in points:
                number += 1
                if fresh:
                    database._batches._drop()
                setattr(relay, way, point)
                first = await ask(database.commit, logged(session, number))
                relay.repair()
                outcomes += first == UNKNOWN
                assert first.verdict in (Verdict.UNKNOWN, Verdict.DONE)
                reached = await committed(database, logged(session, number))
                assert reached == done(number)
        assert relay.cuts >= outcomes >= len(points), "most of them were cut"
        assert await everything(database) == applied(number)


@played
async def test_power_cuts_in_the_middle_of_batches_lose_and_double_nothing(place: Place) -> None:
    async with opened(place) as database:
        session = await open_session(database)
        sending = asyncio.create_task(send(database, session, 1, 60))
        for row in (5, 25, 45):
            await until(partial(reached_row, database, row))
            await asyncio.to_thread(place.server.restart, "immediate")
        assert await sending == done(60)
        async with opened(place) as later:
            assert await everything(later) == applied(60)


async def send(database: AsyncpgDatabase, session: int, first: int, last: int) -> ExecutedBatch:
    """As the store does, with a flush after every third. Slow enough that a restart falls among them."""
    number, flushed, executed = first, 0, UNKNOWN
    while flushed < last:
        if number <= last:
            executed = await committed(database, logged(session, number))
            if executed.verdict is Verdict.LOST:
                assert executed.number >= flushed
                number = executed.number + 1
                continue
            await asyncio.sleep(0.005)
        if number % 3 == 0 or number >= last:
            reached: Reached = await ask(database.flush, session, 0)
            if reached.verdict is Verdict.DONE:
                assert reached.number >= flushed
                number = flushed = reached.number
        number += 1
    return executed


async def reached_row(database: AsyncpgDatabase, number: int) -> bool:
    return bool(await ask(database.load, [b"k%d" % number]))


@played
async def test_what_waits_too_long_for_a_lock_is_unknown_and_keeps_its_connection(place: Place) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(database_connection.SETTINGS, "lock_timeout", "100")
        async with opened(place) as database, by_hand(place) as hand:
            session = await open_session(database)
            lock = hand.transaction()
            await lock.start()
            await hand.execute("UPDATE replica SET position = position")
            assert await ask(database.commit, logged(session, 1)) == UNKNOWN
            pids = await hand.fetch("SELECT pid FROM pg_stat_activity WHERE application_name = 'epoxy batches'")
            await lock.rollback()
            assert (await committed(database, logged(session, 1))).verdict is Verdict.DONE
            assert pids == await hand.fetch("SELECT pid FROM pg_stat_activity WHERE application_name = 'epoxy batches'")


@played
async def test_a_statement_that_is_not_answered_in_time_is_unknown(place: Place) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(database_connection, "STATEMENT_S", 0.3)
        async with opened(place) as database, by_hand(place) as hand:
            session = await open_session(database)
            lock = hand.transaction()
            await lock.start()
            await hand.execute("UPDATE replica SET position = position")
            assert await ask(database.commit, logged(session, 1)) == UNKNOWN
            await lock.rollback()
            patch.setattr(database_connection, "STATEMENT_S", 30.0)
            assert (await committed(database, logged(session, 1))).verdict is Verdict.DONE
            assert await everything(database) == applied(1)


def test_leases_are_renewed_soon_after_the_database_is_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions of other nodes, whose connections were faster, fence those that do not renew their leases."""
    monkeypatch.setattr(database_connection, "LAST_BACKOFF_S", 2.0)
    address = DatabaseAddress(dsn="postgresql://127.0.0.1:1/none", schema="epoxy", cluster="", replica=1)

    async def story() -> None:
        connection = DatabaseConnection(address, "leases", LEASE_BACKOFF_S)
        for _ in range(5):
            with pytest.raises(StoreUnavailable):
                await connection.run(lambda _: asyncio.sleep(0))
        assert connection._backoff_s <= LEASE_BACKOFF_S

    asyncio.run(story())
    assert LEASE_BACKOFF_S < STEADY * 0.5, "of the shortest lease"


@played
async def test_a_server_that_is_away_answers_none_and_is_asked_slowly(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "epoxy.store.postgres")
    async with opened(place) as database:
        session = await open_session(database)
        place.server.stop()
        try:
            pauses = []
            for _ in range(4):
                assert await ask(database.renew, session, 1000.0) is None
                pauses.append(database._leases._backoff_s)
            assert await ask(database.commit, logged(session, 1)) == UNKNOWN
            assert await ask(database.fence, session, 0) is Verdict.UNKNOWN
            assert await ask(database.load, [b"k"]) is None
            assert await ask(database.load_shard, 0) is None
            assert await ask(database.take, session, [1], []) is None
            assert await ask(database.give, session, 1, 1, 0) is None
            assert await ask(database.open_session, "u", "v", 1.0) is None
            await ask(database.close_session, session)
            assert pauses == sorted(pauses)
            assert pauses[0] < pauses[-1] == database_connection.LAST_BACKOFF_S
        finally:
            place.server.start()
        assert (await committed(database, logged(session, 1))).verdict is Verdict.DONE
    told = [record.getMessage() for record in caplog.records if "(batches)" in record.getMessage()]
    assert len(told) == 2, "once that it is away, once that it is back"


# Transactions that the server aborts


@asynccontextmanager
async def connection_to(place: Place) -> AsyncIterator[DatabaseConnection]:
    async with opened(place):
        address = DatabaseAddress(
            dsn=place.server.dsn, schema=place.schema, cluster=place.cluster, replica=place.replica
        )
        connection = DatabaseConnection(address, "test")
        yield connection
        connection.close()


@pytest.mark.parametrize("code", ABORTED)
@played
async def test_what_the_server_aborts_for_another_is_run_again(code: str, place: Place) -> None:
    async with connection_to(place) as connection:
        attempts = []

        async def work(server: Any) -> int:
            attempts.append(1)
            if len(attempts) < 3:
                await server.execute(f"DO $$ BEGIN RAISE EXCEPTION 'aborted' USING ERRCODE = '{code}'; END $$")
            return len(attempts)

        assert await connection.run(work) == 3
        attempts.clear()
        with pytest.raises(StoreUnavailable, match="aborted"):
            await connection.run(
                lambda server: server.execute(f"DO $$ BEGIN RAISE EXCEPTION 'aborted' USING ERRCODE = '{code}'; END $$")
            )


@played
async def test_an_answer_with_a_warning_is_none(place: Place) -> None:
    async with connection_to(place) as connection:
        with pytest.raises(StoreUnavailable, match="warning"):
            await connection.run(lambda server: server.execute("DO $$ BEGIN RAISE WARNING 'not sure'; END $$"))
        assert await connection.run(lambda server: server.fetchval("SELECT 1")) == 1


@played
async def test_an_answer_that_is_not_understood_is_unknown_and_told_once(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    """A caller that is not called back waits for ever: the store sends no batch beside one that is under way."""
    async with opened(place) as database, by_hand(place) as hand:
        session = await open_session(database)
        await committed(database, logged(session, 1))
        await hand.execute("ALTER TABLE replica RENAME TO away")
        await hand.execute("CREATE TABLE replica (LIKE away)")
        for _ in range(3):
            assert await ask(database.commit, logged(session, 2)) == UNKNOWN
        assert len([each for each in caplog.records if "not understood" in each.message]) == 1
        await hand.execute("DROP TABLE replica")
        await hand.execute("ALTER TABLE away RENAME TO replica")
        assert (await committed(database, logged(session, 2))).sequence == 2
        assert await everything(database) == applied(2)


@played
async def test_callers_that_wait_are_bounded(place: Place) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(database_connection, "MAX_WAITING", 2)
        async with connection_to(place) as connection:
            calls = [connection.run(lambda server: server.fetchval("SELECT 1")) for _ in range(5)]
            answers = await asyncio.gather(*calls, return_exceptions=True)
            assert answers[:2] == [1, 1]
            assert [type(each) for each in answers[2:]] == [StoreUnavailable] * 3


# TLS


@played
async def test_tls_is_as_the_address_says(place: Place, tmp_path: Path) -> None:
    authority, other = trustme.CA(), trustme.CA()
    known, unknown = tmp_path / "known.pem", tmp_path / "unknown.pem"
    authority.cert_pem.write_to_path(str(known))
    other.cert_pem.write_to_path(str(unknown))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    async with relayed(place.server, context) as relay:
        async with opened(place, f"{relay.dsn}&sslmode=verify-full&sslrootcert={known}") as database:
            session = await open_session(database)
            assert (await committed(database, logged(session, 1))).verdict is Verdict.DONE
        with pytest.raises(StoreUnavailable, match="certificate verify failed"):
            async with opened(place, f"{relay.dsn}&sslmode=verify-full&sslrootcert={unknown}"):
                raise AssertionError("it opened")
        with pytest.raises(StoreUnavailable):
            async with opened(place, f"{relay.dsn}&sslmode=disable"):
                raise AssertionError("it opened")


# A synchronous standby


@asynccontextmanager
async def replicated() -> AsyncIterator[tuple[Place, PostgresServer]]:
    with PostgresServer(fsync=False) as primary:
        place = Place(server=primary, schema="epoxy")
        async with opened(place):
            pass
        standby = await asyncio.to_thread(primary.standby)
        try:
            yield place, standby
        finally:
            standby.close()


WAITS = "SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND application_name = 'epoxy flushes'"


async def waits_for_the_standby(hand: Any) -> bool:
    return bool(await hand.fetchval(WAITS))


@played
async def test_a_failover_to_the_synchronous_standby_loses_nothing() -> None:
    async with replicated() as (place, standby):
        both = place.server.dsn_with(standby)
        async with opened(place, both) as database:
            session = await open_session(database)
            sending = asyncio.create_task(send(database, session, 1, 40))
            await until(lambda: reached_row(database, 10))
            await asyncio.to_thread(place.server.stop, "immediate")
            await asyncio.to_thread(standby.promote)
            assert await sending == done(40)
            async with opened(place, standby.dsn) as later:
                assert await everything(later) == applied(40)


@played
async def test_a_commit_that_is_cancelled_before_the_standby_has_it_is_unknown() -> None:
    """The server says that it is committed, with a warning. An operator's pg_cancel_backend is enough for it."""
    async with replicated() as (place, standby), opened(place) as database:
        session = await open_session(database)
        await committed(database, logged(session, 1))
        standby.stop("immediate")
        async with by_hand(place) as hand:
            assert await ask(database.commit, logged(session, 2)) == done(2)
            answer = asking(database.flush, session, 0)
            await until(lambda: waits_for_the_standby(hand))
            await hand.execute(END.replace("terminate", "cancel"), "epoxy flushes")
            assert await answer == Reached(verdict=Verdict.UNKNOWN)
        standby.start()
        assert await flushed_in_the_end(database, session) == 2


async def flushed_in_the_end(database: AsyncpgDatabase, session: int) -> int:
    while True:
        reached: Reached = await ask(database.flush, session, 0)
        if reached.verdict is not Verdict.UNKNOWN:
            return reached.number


async def recovered_but_not_replicated(patch: pytest.MonkeyPatch, question: str) -> None:
    """The server crashes while a flush waits for its standby. Its own disk has the batch, so it is visible after the
    restart; the standby does not have it."""
    async with replicated() as (place, standby), opened(place) as database:
        session = await open_session(database)
        await committed(database, logged(session, 1))
        standby.stop("immediate")
        async with by_hand(place) as hand:
            assert await ask(database.commit, logged(session, 2)) == done(2)
            answer = asking(database.flush, session, 0)
            await until(lambda: waits_for_the_standby(hand))
            await asyncio.to_thread(place.server.restart, "immediate")
            assert await answer == Reached(verdict=Verdict.UNKNOWN)
        while not (found := await ask(database.load, [b"k2"])):
            assert found is None
        patch.setattr(statements, "FLUSH", question)
        patch.setattr(database_connection, "STATEMENT_S", 0.5)
        for _ in range(3):
            assert await ask(database.commit, logged(session, 2)) == UNKNOWN
            assert (await ask(database.flush, session, 0)).verdict is Verdict.UNKNOWN
        patch.setattr(database_connection, "STATEMENT_S", 30.0)
        standby.start()
        assert (await committed(database, logged(session, 2))).sequence == 2
        assert await flushed_in_the_end(database, session) == 2


def test_a_batch_that_only_the_crashed_server_has_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    asyncio.run(recovered_but_not_replicated(monkeypatch, statements.FLUSH))


def test_a_question_that_does_not_wait_for_the_standby_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    question = statements.FLUSH.replace(", pg_logical_emit_message(true, 'epoxy', '')", "")
    assert question != statements.FLUSH
    with pytest.raises(AssertionError):
        asyncio.run(recovered_but_not_replicated(monkeypatch, question))


async def left_alone(patch: pytest.MonkeyPatch) -> None:
    """The standby was promoted, and the server before it does not know. Another session takes the shards there."""
    async with replicated() as (place, standby), opened(place) as database:
        session = await open_session(database)
        await ask(database.take, session, [1], [])
        assert await ask(database.fence, session, 0) is Verdict.DONE
        await asyncio.to_thread(standby.promote)
        async with opened(place, standby.dsn) as there:
            await ask(there.close_session, session)
            assert await ask(there.fence, session, 0) is Verdict.FENCED
        patch.setattr(database_connection, "STATEMENT_S", 0.5)
        assert await ask(database.fence, session, 0) is Verdict.UNKNOWN


def test_a_server_whose_standby_was_promoted_tells_no_session_that_it_is_in_force(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asyncio.run(left_alone(monkeypatch))


def test_a_fence_that_does_not_wait_for_the_standby_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statements, "FENCE", statements.FENCE.replace("<> ''", "= 'none of these'"))
    with pytest.raises(AssertionError):
        asyncio.run(left_alone(monkeypatch))


def test_an_error_without_words_is_named() -> None:
    assert described(TimeoutError()) == "no answer in time"
    assert described(ConnectionResetError()) == "ConnectionResetError"
    assert described(ConnectionResetError("reset\nHINT: none")) == "reset"
