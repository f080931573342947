"""The database in memory: what its statements do, and what becomes of them on their way."""

from collections.abc import Callable

import pytest

from epoxy.model.errors import StoreUnavailable
from epoxy.model.shards import ALL_SHARDS
from epoxy.ports import StoreCut
from epoxy.store.buffer import stamp
from epoxy.store.shared.database import ExecutedBatch, GroupCommit, Reached, Verdict
from epoxy_sim.datacenter.memory_database import DatabaseTables, MemoryDatabase, Statement
from tests.store.conformance import raised, rows

LEASE_MS = 1000.0
STAMPED = 3 * (4 + 10 + 1) + 2
"""Bytes that `batch` stamps."""


class Clock:
    now_ms = 0.0

    def __call__(self) -> float:
        return self.now_ms


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def tables(clock: Clock) -> DatabaseTables:
    return DatabaseTables(clock)


def opened(tables: DatabaseTables) -> int:
    return tables.open_session("http://node", "1", LEASE_MS)


def batch(session: int, number: int, value: bytes = b"v", config_epoch: int = 0) -> GroupCommit:
    return GroupCommit(
        session=session,
        number=number,
        config_epoch=config_epoch,
        rows=[(b"k", value, 5), (b"l", value, 6)],
        deleted=[b"gone"],
        stamped=[[(b"log/", b"", value), (b"log/", b"/x", value)], [(b"log/", b"", value)]],
    )


def test_a_batch_is_applied_once(tables: DatabaseTables) -> None:
    me = opened(tables)
    tables.rows.apply({b"gone": b"1"})
    assert tables.commit(batch(me, 1)) == ExecutedBatch(Verdict.DONE, 1, 2)
    assert tables.flush(me, 0) == Reached(Verdict.DONE, 2, 1, STAMPED, 1)
    keys = [b"k", b"l", b"log/" + stamp(1, 0), b"log/" + stamp(1, 1) + b"/x", b"log/" + stamp(2, 0)]
    assert [key for key, _ in rows(tables.rows)] == keys
    assert tables.load_shard(5) == {b"k": b"v"}
    assert len(tables.load_shard(-1)) == 3
    other = opened(tables)
    assert tables.commit(batch(other, 1, b"w")) == ExecutedBatch(Verdict.DONE, 1, 4)
    assert tables.commit(batch(me, 1)) == ExecutedBatch(Verdict.DONE, 1, 2), "its own stamps"
    assert tables.flush(me, 0) == Reached(Verdict.DONE, 4, 2, 2 * STAMPED, 1), "those of all"
    assert (tables.rows.get(b"k"), tables.sequence) == (b"w", 4)


def test_a_crash_undoes_the_last_batches_that_were_not_flushed(tables: DatabaseTables) -> None:
    first, second = opened(tables), opened(tables)
    tables.rows.apply({b"gone": b"1"})
    tables.commit(batch(first, 1, b"1"))
    tables.flush(first, 0)
    before = rows(tables.rows), dict(tables.shard_of_row), tables.flush(first, 0)
    tables.commit(batch(second, 1, b"2"))
    kept = rows(tables.rows), dict(tables.shard_of_row)
    tables.commit(GroupCommit(first, 2, 0, [(b"m", b"3", 7)], [b"k"], [[(b"log/", b"", b"3")]], next_config_epoch=4))
    tables.commit(batch(first, 3, b"4", config_epoch=4))
    assert tables.flushed_sequence == 2
    tables.crash(2)
    assert (rows(tables.rows), tables.shard_of_row, tables.config_epoch) == (*kept, 0)
    assert (tables.flush(first, 0).number, tables.flush(second, 0).number) == (1, 1)
    assert tables.commit(batch(first, 3)) == ExecutedBatch(Verdict.LOST, 1)
    assert (rows(tables.rows), tables.flushed_sequence) == (kept[0], 4)
    tables.crash(9)
    assert rows(tables.rows) == kept[0] != before[0], "what was flushed is durable"


@pytest.mark.parametrize("use", ["flush", "open_session", "renew", "take", "give", "close_session", "cut", "read"])
def test_what_others_wait_for_makes_everything_before_it_durable(tables: DatabaseTables, use: str) -> None:
    me = opened(tables)
    tables.take(me, (1,), ())
    line = Line(tables)
    tables.commit(batch(me, 1))
    uses: dict[str, Callable[[], object]] = {
        "flush": lambda: tables.flush(me, 0),
        "open_session": lambda: opened(tables),
        "renew": lambda: tables.renew(me, LEASE_MS),
        "take": lambda: tables.take(me, (2,), ()),
        "give": lambda: tables.give(me, 1, 1, 0),
        "close_session": lambda: tables.close_session(me),
        "cut": line.database._cut,
        "read": lambda: line.database.read_rows([b"k"], flush=True),
    }
    tables.load([b"k"])
    tables.fence(me, 0)
    line.database.read_rows([b"k"], flush=False)
    assert tables.unflushed
    uses[use]()
    tables.crash(9)
    assert tables.rows.get(b"k") == b"v"


def test_a_batch_after_one_that_is_not_there_writes_nothing(tables: DatabaseTables) -> None:
    me = opened(tables)
    assert tables.commit(batch(me, 2)) == ExecutedBatch(Verdict.LOST, 0)
    assert rows(tables.rows) == []


def test_a_batch_that_only_remembers_does_not_raise_the_position(tables: DatabaseTables) -> None:
    me = opened(tables)
    remembered = GroupCommit(session=me, number=1, config_epoch=0, rows=[(b"k", b"v", 0)], counts=False)
    tables.commit(remembered)
    assert tables.flush(me, 0).position == 0


def test_a_deleted_row_has_no_shard(tables: DatabaseTables) -> None:
    me = opened(tables)
    tables.commit(batch(me, 1))
    tables.commit(GroupCommit(session=me, number=2, config_epoch=0, deleted=[b"k"]))
    assert tables.load_shard(5) == {}


def test_fenced_and_unknown_sessions_write_nothing(tables: DatabaseTables) -> None:
    me = opened(tables)
    tables.close_session(me)
    for session in (me, 77):
        assert tables.commit(batch(session, 1)).verdict is tables.fence(session, 0) is Verdict.FENCED
    assert rows(tables.rows) == []
    assert tables.sequence == tables.position == 0


def test_an_older_configuration_writes_nothing(tables: DatabaseTables) -> None:
    me = opened(tables)
    raising = GroupCommit(session=me, number=1, config_epoch=2, next_config_epoch=3)
    assert tables.commit(raising).verdict is Verdict.DONE
    assert tables.commit(batch(me, 2, config_epoch=2)).verdict is tables.fence(me, 2) is Verdict.STALE_CONFIG
    assert tables.commit(raising).verdict is Verdict.DONE, "it was applied before"
    assert rows(tables.rows) == []
    assert tables.fence(me, 3) is tables.commit(batch(me, 2, config_epoch=3)).verdict is Verdict.DONE


def test_leases_are_on_the_databases_clock(tables: DatabaseTables, clock: Clock) -> None:
    first, second = opened(tables), opened(tables)
    assert tables.take(first, ALL_SHARDS, ()) == list(ALL_SHARDS)
    clock.now_ms = 600
    tables.renew(second, LEASE_MS)
    clock.now_ms = 1000
    assert tables.take(second, (1, 2), (first,)) == [], "not over yet"
    assert [each.left_ms for each in tables.table().sessions] == [0, 600]
    clock.now_ms = 1001
    assert tables.fence(first, 0) is Verdict.DONE, "over, and fenced by none"
    assert tables.take(second, (1, 2), (first,)) == [1, 2]
    assert tables.fence(first, 0) is Verdict.FENCED
    table = tables.renew(first, LEASE_MS)
    assert [each.id for each in table.sessions] == [second]
    assert (table.owners[:4], table.epochs[:4]) == ([0, second, second, 0], [1, 2, 2, 1])
    assert tables.take(first, (3,), ()) == (), "a fenced session takes nothing"


def test_a_renewed_lease_keeps_the_shards(tables: DatabaseTables, clock: Clock) -> None:
    first, second = opened(tables), opened(tables)
    tables.take(first, (1,), ())
    clock.now_ms = 5000
    assert tables.take(first, (2,), (first,)) == [2], "a session does not fence itself"
    tables.renew(first, LEASE_MS)
    assert tables.take(second, (1,), (first,)) == []


def test_a_shard_is_given_by_its_owner_alone(tables: DatabaseTables) -> None:
    first, second = opened(tables), opened(tables)
    tables.take(first, (1, 2), ())
    assert not tables.give(second, 1, 1, second)
    assert not tables.give(first, 1, 7, second), "another epoch"
    assert tables.give(first, 1, 1, second)
    assert not tables.give(first, 1, 1, second), "it is gone"
    assert tables.give(second, 1, 2, first)
    assert tables.give(first, 1, 3, 0)
    assert tables.table().owners[1:3] == [0, first]
    tables.close_session(second)
    assert not tables.give(first, 2, 1, second), "to a fenced one"
    tables.close_session(first)
    assert not tables.give(first, 2, 1, 0), "by a fenced one"


def test_ids_are_not_used_again(tables: DatabaseTables) -> None:
    first = opened(tables)
    tables.close_session(first)
    assert opened(tables) == first + 1


class Line:
    """Statements wait here."""

    def __init__(self, tables: DatabaseTables) -> None:
        self.sent: list[Statement] = []
        self.heard: list[object] = []
        self.database = MemoryDatabase(tables, self.sent.append)


def test_nothing_happens_before_a_statement_is_run_and_answered(tables: DatabaseTables) -> None:
    line, me = Line(tables), opened(tables)
    line.database.commit(batch(me, 1), line.heard.append)
    assert (tables.sequence, line.heard) == (0, [])
    line.sent[0].run()
    assert (tables.sequence, line.heard) == (2, [])
    line.sent[0].answer()
    assert line.heard == [ExecutedBatch(Verdict.DONE, 1, 2)]


def test_a_lost_statement_may_still_be_run(tables: DatabaseTables) -> None:
    line, me = Line(tables), opened(tables)
    line.database.commit(batch(me, 1), line.heard.append)
    line.sent[0].lose()
    assert line.heard == [ExecutedBatch(verdict=Verdict.UNKNOWN)]
    line.sent[0].run()
    assert (tables.sequence, len(line.heard)) == (2, 1)


def test_every_statement_says_that_it_was_lost(tables: DatabaseTables) -> None:
    line, me = Line(tables), opened(tables)
    database, heard = line.database, line.heard
    database.fence(me, 0, heard.append)
    database.flush(me, 0, heard.append)
    database.load([b"k"], heard.append)
    database.load_shard(0, heard.append)
    database.open_session("http://node", "1", LEASE_MS, heard.append)
    database.renew(me, LEASE_MS, heard.append)
    database.take(me, (1,), (), heard.append)
    database.give(me, 1, 1, 0, heard.append)
    database.cut(heard.append)
    database.close_session(me, lambda: heard.append("closed, or not"))
    for statement in line.sent:
        statement.lose()
    assert heard == [Verdict.UNKNOWN, Reached(Verdict.UNKNOWN), *[None] * 7, "closed, or not"]


def test_blocking_reads_fail_while_the_database_is_not_reachable(tables: DatabaseTables) -> None:
    database = Line(tables).database
    tables.commit(batch(opened(tables), 1))
    assert database.read_rows([b"k", b"absent"], flush=False) == {b"k": b"v"}
    assert database.read_range(b"k", b"la", 1, True, flush=False) == [(b"l", b"v")]
    assert database.position() == (2, 1)
    database.is_reachable = False
    with pytest.raises(StoreUnavailable):
        database.read_rows([b"k"], flush=False)
    with pytest.raises(StoreUnavailable):
        database.read_range(b"", b"z", 1, False, flush=False)
    with pytest.raises(StoreUnavailable):
        database.position()


def test_a_cut_stays_as_it_was(tables: DatabaseTables) -> None:
    line = Line(tables)
    tables.rows.apply({b"k": b"1"})
    cuts: list[StoreCut | None] = []
    line.database.cut(cuts.append)
    line.sent[0].run()
    tables.rows.apply({b"k": b"2"})
    line.sent[0].answer()
    (cut,) = cuts
    assert cut is not None
    cut.read(rows, line.heard.append, raised)
    assert line.heard == [[(b"k", b"1")]]
