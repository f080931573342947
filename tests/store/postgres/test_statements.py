"""Statements that meet at one server. Every story is played with the true statement, and fails with a faulty one."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from epoxy.store.buffer import stamp
from epoxy.store.postgres import statements
from epoxy.store.postgres.asyncpg_database import AsyncpgDatabase
from epoxy.store.shared.database import ExecutedBatch, GroupCommit, Reached, Verdict
from tests.store.postgres.playing import (
    Place,
    ask,
    asking,
    by_hand,
    committed,
    everything,
    open_session,
    opened,
    until,
    until_waiting,
)

FIRST = ExecutedBatch(Verdict.DONE, 1, 1)
"""The answer to a first batch that stamps a row."""


def batch(session: int, number: int = 1, *, key: bytes = b"k", **fields: Any) -> GroupCommit:
    fields.setdefault("config_epoch", 0)
    return GroupCommit(session=session, number=number, rows=[(key, b"v", 1)], **fields)


async def a_fenced_session_writes_nothing(place: Place) -> None:
    async with opened(place) as database, by_hand(place) as hand:
        session = await open_session(database)
        await hand.execute("UPDATE session SET fenced = true WHERE id = $1", session)
        assert await ask(database.commit, batch(session)) == ExecutedBatch(verdict=Verdict.FENCED)
        assert await everything(database) == {}
        assert database.position() == (0, 0)


async def a_batch_waits_for_the_fencing_that_is_under_way(place: Place) -> None:
    async with opened(place) as database, by_hand(place) as hand:
        session = await open_session(database)
        fencing = hand.transaction()
        await fencing.start()
        await hand.execute("UPDATE session SET fenced = true WHERE id = $1", session)
        answer = asking(database.commit, batch(session))
        await until_waiting(hand)
        await fencing.commit()
        assert await answer == ExecutedBatch(verdict=Verdict.FENCED)
        assert await everything(database) == {}


async def a_fencing_that_is_undone_lets_the_batch_pass(place: Place) -> None:
    async with opened(place) as database, by_hand(place) as hand:
        session = await open_session(database)
        fencing = hand.transaction()
        await fencing.start()
        await hand.execute("UPDATE session SET fenced = true WHERE id = $1", session)
        answer = asking(database.commit, batch(session))
        await until_waiting(hand)
        await fencing.rollback()
        assert (await answer).verdict is Verdict.DONE
        assert await everything(database) == {b"k": b"v"}


async def a_fencing_waits_for_the_batch_that_is_under_way(place: Place) -> None:
    """The batch is held up at a row that another transaction has changed."""
    async with opened(place) as database, by_hand(place) as hand:
        old, new = await open_session(database, -1.0), await open_session(database)
        assert await ask(database.take, old, [1], []) == [1]
        await committed(database, batch(old))
        held = hand.transaction()
        await held.start()
        await hand.execute('UPDATE "row" SET shard = shard')
        answer = asking(database.commit, batch(old, 2))
        await until_waiting(hand)
        taking = asking(database.take, new, [1], [old])
        await until_waiting(hand, 2)
        await held.commit()
        assert (await answer).verdict is Verdict.DONE
        assert await taking == [1]
        assert (await ask(database.commit, batch(old, 3))).verdict is Verdict.FENCED


async def a_batch_is_applied_once(place: Place) -> None:
    async with opened(place) as database:
        session = await open_session(database)
        one = batch(session, stamped=[[(b"log", b"", b"x")]])
        first = await ask(database.commit, one)
        assert first == FIRST
        assert await ask(database.commit, one) == first
        assert await everything(database) == {b"k": b"v", b"log" + stamp(1, 0): b"x"}


async def two_attempts_of_a_batch_at_a_time_are_one(place: Place) -> None:
    async with opened(place) as database, opened(place) as again, by_hand(place) as hand:
        session = await open_session(database)
        one = batch(session, stamped=[[(b"log", b"", b"x")]])
        held = hand.transaction()
        await held.start()
        await hand.execute("UPDATE replica SET position = position")
        answers = [asking(database.commit, one), asking(again.commit, one)]
        await until_waiting(hand, 2)
        await held.commit()
        assert await asyncio.gather(*answers) == [FIRST] * 2
        assert len(await everything(database)) == 2


async def a_newer_configuration_refuses_the_batch_and_leaves_no_trace(place: Place) -> None:
    async with opened(place) as database, by_hand(place) as hand:
        old, new = await open_session(database), await open_session(database)
        assert (await committed(database, batch(new, config_epoch=5, next_config_epoch=6))).verdict is Verdict.DONE
        assert await ask(database.commit, batch(old, key=b"o", config_epoch=5)) == ExecutedBatch(
            verdict=Verdict.STALE_CONFIG
        )
        assert await everything(database) == {b"k": b"v"}
        changing = hand.transaction()
        await changing.start()
        await hand.execute("UPDATE replica SET config_epoch = 7")
        answer = asking(database.commit, batch(old, key=b"o", config_epoch=6))
        await until_waiting(hand)
        await changing.commit()
        assert await answer == ExecutedBatch(verdict=Verdict.STALE_CONFIG)
        assert (await committed(database, batch(old, key=b"o", config_epoch=7))).verdict is Verdict.DONE
        assert (await everything(database)).keys() == {b"k", b"o"}


async def stamps_become_visible_in_their_order(place: Place) -> None:
    """The batch with the first stamp is held up. The other session's batch must not overtake it."""
    async with opened(place) as database, opened(place) as other, by_hand(place) as hand:
        one, two = await open_session(database), await open_session(database)
        await committed(database, batch(one))
        held = hand.transaction()
        await held.start()
        await hand.execute('UPDATE "row" SET shard = shard')
        first = asking(database.commit, batch(one, 2, stamped=[[(b"log", b"", b"1")]]))
        await until_waiting(hand)
        second = asking(other.commit, batch(two, key=b"j", stamped=[[(b"log", b"", b"2")], [(b"log", b"", b"3")]]))
        await until_waiting(hand, 2)
        assert database.read_range(b"log", b"m", 10, False, flush=True) == []
        await held.commit()
        assert ((await first).sequence, (await second).sequence) == (1, 3)
        log = [(b"log" + stamp(number, 0), b"%d" % number) for number in (1, 2, 3)]
        assert database.read_range(b"log", b"m", 10, False, flush=True) == log


async def a_shard_is_taken_by_one(place: Place) -> None:
    async with opened(place) as database, opened(place) as other, by_hand(place) as hand:
        one, two = await open_session(database), await open_session(database)
        held = hand.transaction()
        await held.start()
        await hand.execute("UPDATE shard SET epoch = epoch WHERE id = 5")
        answers = [asking(database.take, one, [4, 5], []), asking(other.take, two, [5, 6], [])]
        await until_waiting(hand, 2)
        await held.commit()
        taken = await asyncio.gather(*answers)
        assert taken in ([[4, 5], [6]], [[4], [5, 6]])


async def a_session_that_came_during_the_wait_keeps_its_shard(place: Place) -> None:
    """A taker waits for the lock of a shard, and meanwhile a session is opened that takes the shard."""
    async with opened(place) as database, by_hand(place) as hand:
        session = await open_session(database)
        held = hand.transaction()
        await held.start()
        await hand.execute("SELECT FROM shard WHERE id = 5 FOR UPDATE")
        answer = asking(database.take, session, [5], [])
        await until_waiting(hand)
        await hand.execute(
            "INSERT INTO session SELECT 99, url, version, started, lease_end, false, 0, 0, format FROM session"
        )
        await hand.execute("UPDATE shard SET owner = 99 WHERE id = 5")
        await held.commit()
        assert await answer == []


async def a_lease_that_is_renewed_meanwhile_is_not_over(place: Place) -> None:
    async with opened(place) as database, by_hand(place) as hand:
        old, new = await open_session(database, -1.0), await open_session(database)
        assert await ask(database.take, old, [1], []) == [1]
        renewing = hand.transaction()
        await renewing.start()
        await hand.execute("UPDATE session SET lease_end = clock_timestamp() + interval '1 hour' WHERE id = $1", old)
        taking = asking(database.take, new, [1], [old])
        await until_waiting(hand)
        await renewing.commit()
        assert await taking == []
        assert await ask(database.fence, old, 0) is Verdict.DONE


async def a_late_hand_over_does_not_take_back_a_shard(place: Place) -> None:
    async with opened(place) as database:
        one, two = await open_session(database), await open_session(database)
        await ask(database.take, one, [1], [])
        assert await ask(database.give, one, 1, 1, two) is True
        assert await ask(database.give, two, 1, 2, one) is True
        assert await ask(database.give, one, 1, 1, two) is False
        assert (await ask(database.renew, one, 1000.0)).owners[1] == one


async def ids_of_sessions_are_not_used_again(place: Place) -> None:
    async with opened(place) as database, by_hand(place) as hand:
        first, second = await open_session(database), await open_session(database)
        await hand.execute("UPDATE session SET lease_end = lease_end - interval '2 days'")
        third = await open_session(database)
        assert first < second < third
        assert [row.id for row in (await ask(database.renew, third, 1000.0)).sessions] == [third]
        await hand.execute("UPDATE session SET lease_end = lease_end - interval '2 days'")
        assert await open_session(database) == third + 1


# Executed, flushed: with a server whose log is written by those alone who wait for it.

WRITTEN = "SELECT pg_current_wal_insert_lsn()::text"
WRITER = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'"


@asynccontextmanager
async def log_at_rest(hand: Any) -> AsyncIterator[None]:
    """The server's process is stopped that writes its log from time to time."""
    pid = await hand.fetchval(WRITER)
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


async def is_durable(hand: Any, written: str) -> bool:
    return bool(await hand.fetchval("SELECT pg_current_wal_flush_lsn() >= $1::text::pg_lsn", written))


async def a_batch_waits_for_no_sync_and_a_flush_makes_it_durable(place: Place) -> None:
    async with opened(place) as database, by_hand(place) as hand:
        session = await open_session(database)
        await committed(database, batch(session))
        await ask(database.flush, session, 0)
        async with log_at_rest(hand):
            for number in (2, 3):
                assert await ask(database.commit, batch(session, number)) == ExecutedBatch(Verdict.DONE, number)
            written = await hand.fetchval(WRITTEN)
            assert not await is_durable(hand, written)
            assert await everything_executed(database) == {b"k": b"v"}
            assert not await is_durable(hand, written), "a read without a flush"
            assert await ask(database.flush, session, 0) == Reached(Verdict.DONE, 0, 3, 0, 3)
            assert await is_durable(hand, written)


async def what_a_session_waits_for_is_durable(place: Place) -> None:
    """Everything but batches: also what a reader of others' rows is given, and a taker of shards."""
    async with opened(place) as database, by_hand(place) as hand:
        old, new = await open_session(database, -1.0), await open_session(database)
        await ask(database.take, old, [1, 2], [])
        waits: list[Callable[[], Awaitable[object]]] = [
            lambda: everything(database),
            lambda: asyncio.to_thread(database.position),
            lambda: ask(database.cut),
            lambda: ask(database.flush, new, 0),
            lambda: ask(database.commit, batch(old)),
            lambda: ask(database.give, old, 2, 1, 0),
            lambda: ask(database.take, new, [1], [old]),
        ]
        async with log_at_rest(hand):
            for number, wait in enumerate(waits, 1):
                assert (await ask(database.commit, batch(old, number))).verdict is Verdict.DONE
                written = await hand.fetchval(WRITTEN)
                assert not await is_durable(hand, written)
                await wait()
                assert await is_durable(hand, written), number


async def a_batch_holds_no_lock_while_the_disk_syncs(place: Place) -> None:
    """Neither does a flush: the next batch of the session, and those of others, pass while it waits for a standby that
    does not answer."""
    async with opened(place) as database, opened(place) as other, by_hand(place) as hand:
        one, two = await open_session(database), await open_session(database)
        await committed(database, batch(one))
        await committed(other, batch(two, key=b"j"))
        await ask(database.flush, one, 0)
        await hand.execute("ALTER SYSTEM SET synchronous_standby_names = 'absent'")
        await hand.execute("SELECT pg_reload_conf()")
        try:
            await until_true(hand, "SELECT current_setting('synchronous_standby_names') = 'absent'")
            await asyncio.sleep(0.2)  # The other sessions of the server read it when they are asked next.
            flushing = asking(database.flush, one, 0)
            await until_true(hand, SYNCING)
            assert (await ask(database.commit, batch(one, 2))).verdict is Verdict.DONE
            assert (await ask(other.commit, batch(two, 2, key=b"j"))).verdict is Verdict.DONE
            assert not flushing.done()
        finally:
            await hand.execute("ALTER SYSTEM RESET synchronous_standby_names")
            await hand.execute("SELECT pg_reload_conf()")
        assert (await flushing).number in (1, 2)


SYNCING = "SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event = 'SyncRep'"


async def until_true(hand: Any, question: str) -> None:
    async def is_true() -> bool:
        await hand.execute("SELECT pg_stat_clear_snapshot()")
        return bool(await hand.fetchval(question))

    await until(is_true)


async def everything_executed(database: AsyncpgDatabase) -> dict[bytes, bytes]:
    return dict(await asyncio.to_thread(database.read_range, b"", b"\xff", 100_000, False, flush=False))


Story = Callable[[Place], Coroutine[Any, Any, None]]

STORIES: list[Story] = [
    a_fenced_session_writes_nothing,
    a_batch_waits_for_the_fencing_that_is_under_way,
    a_fencing_that_is_undone_lets_the_batch_pass,
    a_fencing_waits_for_the_batch_that_is_under_way,
    a_batch_is_applied_once,
    two_attempts_of_a_batch_at_a_time_are_one,
    a_newer_configuration_refuses_the_batch_and_leaves_no_trace,
    stamps_become_visible_in_their_order,
    a_shard_is_taken_by_one,
    a_session_that_came_during_the_wait_keeps_its_shard,
    a_lease_that_is_renewed_meanwhile_is_not_over,
    a_late_hand_over_does_not_take_back_a_shard,
    ids_of_sessions_are_not_used_again,
    a_batch_waits_for_no_sync_and_a_flush_makes_it_durable,
    what_a_session_waits_for_is_durable,
    a_batch_holds_no_lock_while_the_disk_syncs,
]


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_story(story: Story, place: Place) -> None:
    asyncio.run(story(place))


FAULTS = {
    "no fence": ("COMMIT", "AND NOT fenced AND batch", "AND batch", a_fenced_session_writes_nothing),
    "fence not locked": (
        "COMMIT",
        "AND batch = $2::bigint - 1 FOR UPDATE",
        "AND batch = $2::bigint - 1",
        a_fencing_waits_for_the_batch_that_is_under_way,
    ),
    "batches without numbers": ("COMMIT", "AND batch = $2::bigint - 1", "AND $2::bigint > 0", a_batch_is_applied_once),
    "number used by a refused batch": (
        "COMMIT",
        "WHERE id = $1::bigint AND EXISTS (SELECT FROM reached)",
        "WHERE id = $1::bigint AND EXISTS (SELECT FROM held)",
        a_newer_configuration_refuses_the_batch_and_leaves_no_trace,
    ),
    "configuration not judged": (
        "COMMIT",
        "AND config_epoch <= $3::bigint",
        "AND $3::bigint >= 0",
        a_newer_configuration_refuses_the_batch_and_leaves_no_trace,
    ),
    "configuration not kept": (
        "COMMIT",
        "greatest(config_epoch, $6::bigint)",
        "least(config_epoch, $6::bigint)",
        a_newer_configuration_refuses_the_batch_and_leaves_no_trace,
    ),
    "stamps before the lock": (
        "COMMIT",
        "UPDATE replica\n",
        "SELECT sequence + $4::bigint AS sequence, position + $5::bigint AS position FROM replica\n"
        "    WHERE id = $7::bigint AND config_epoch <= $3::bigint AND $6::bigint >= 0 AND EXISTS (SELECT FROM held)\n"
        "), later AS (\n    UPDATE replica\n",
        stamps_become_visible_in_their_order,
    ),
    "batches wait for the disk": (
        "COMMIT",
        ", set_config('synchronous_commit', 'off', true)",
        "",
        a_batch_waits_for_no_sync_and_a_flush_makes_it_durable,
    ),
    "waiting for the disk is off for ever": (
        "COMMIT",
        "'off', true)",
        "'off', false)",
        what_a_session_waits_for_is_durable,
    ),
    "a flush that writes nothing": (
        "FLUSH",
        ", pg_logical_emit_message(true, 'epoxy', '')",
        "",
        a_batch_waits_for_no_sync_and_a_flush_makes_it_durable,
    ),
    "a flush that locks": (
        "FLUSH",
        "WHERE session.id = $1",
        "WHERE session.id = $1 FOR UPDATE OF session",
        a_batch_holds_no_lock_while_the_disk_syncs,
    ),
    "reads not flushed": ("FLUSH_LOG", "(true,", "(false,", what_a_session_waits_for_is_durable),
    "a take-over that is not durable": (
        "TAKE",
        "RETURNING id",
        "RETURNING id, set_config('synchronous_commit', 'off', true)",
        what_a_session_waits_for_is_durable,
    ),
    "a hand-over that is not durable": (
        "GIVE",
        "RETURNING id",
        "RETURNING id, set_config('synchronous_commit', 'off', true)",
        what_a_session_waits_for_is_durable,
    ),
    "leases not judged": (
        "FENCE_DEAD",
        "AND lease_end < clock_timestamp()",
        "",
        a_lease_that_is_renewed_meanwhile_is_not_over,
    ),
    "shards not locked": (
        "LOCK_SHARDS",
        "FOR UPDATE",
        "",
        a_session_that_came_during_the_wait_keeps_its_shard,
    ),
    "owners not judged": ("TAKE", "AND NOT session.fenced)", "AND session.fenced)", a_shard_is_taken_by_one),
    "epochs not judged": ("GIVE", "AND epoch = $3", "AND $3 > 0", a_late_hand_over_does_not_take_back_a_shard),
    "the newest session forgotten": (
        "FORGET_SESSIONS",
        "AND id < $1",
        "OR id = $1",
        ids_of_sessions_are_not_used_again,
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_faulty_statement_is_caught(fault: str, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    name, old, new, story = FAULTS[fault]
    text = getattr(statements, name)
    assert text.count(old) == 1, "the fault is planted in one place"
    monkeypatch.setattr("tests.store.postgres.playing.LIMIT_S", 3.0)
    monkeypatch.setattr(statements, name, text.replace(old, new))
    with pytest.raises((AssertionError, TimeoutError)):
        asyncio.run(story(place))
