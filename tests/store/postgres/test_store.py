"""The PostgreSQL store above a database in memory: what every store must do, and the rules of one that is shared."""

from collections.abc import Callable

import pytest
from hypothesis import settings
from msgspec.structs import replace

from epoxy.model.errors import StoreUnavailable
from epoxy.model.shards import shard_of
from epoxy.ports import KeyValue, StoreCut
from epoxy.store.buffer import stamp
from epoxy.store.postgres import rows as rows_module
from epoxy.store.postgres.database import GroupCommit, Reached, Verdict
from epoxy.store.postgres.load_ahead import LoadAhead
from epoxy.store.postgres.pending_batch import PendingBatch
from epoxy.store.postgres.store import PostgresStore
from epoxy_sim.datacenter.memory_database import DatabaseTables
from tests.store.conformance import StoreConformance, raised, rows
from tests.store.model import check_random_histories
from tests.store.postgres.shared_bench import Life, LossyBench, SharedBench, SharedServer
from tests.store.postgres.store_rules import StoreRules, Trial

pytestmark = pytest.mark.pure("plants faults in stores, in classes that inherit from them")

BUDGET = settings(max_examples=100, stateful_step_count=40, deadline=None)
RULES = [name for name in vars(StoreRules) if name.startswith("test_")]


class TestPostgresStore(StoreConformance):
    def open_bench(self) -> SharedBench:
        return SharedBench()


class TestWithoutMemory(StoreConformance):
    """No row is of the system shard, and the cache holds one."""

    def open_bench(self) -> SharedBench:
        return SharedBench(first=b"", cache_bytes=0)


class TestWithLosses(StoreConformance):
    """Every statement is lost before it is run, then after it, and answered when it is asked for the third time."""

    def open_bench(self) -> SharedBench:
        return LossyBench()


@pytest.mark.parametrize("kind", [SharedBench, LossyBench])
@pytest.mark.parametrize("cache_bytes", [0, 1 << 20])
def test_random_histories(kind: type[SharedBench], cache_bytes: int) -> None:
    check_random_histories(lambda: kind(cache_bytes=cache_bytes), BUDGET)


class TestRules(StoreRules):
    @pytest.fixture
    def trial(self) -> Trial:
        return Trial()


# Planted faults.


class AnswersBeforeTheCommit(PostgresStore):
    def _begin_batch(self, batch: PendingBatch) -> None:
        super()._begin_batch(batch)
        told, batch.waiting = batch.waiting, []
        self._call(told)


class DoesNotFenceReads(PostgresStore):
    def when_durable(self, done: Callable[[], None]) -> None:
        if self.pending:
            super().when_durable(done)
        else:
            done()


class SharesAFenceUnderWay(PostgresStore):
    """Also with those who asked after it began."""

    def when_durable(self, done: Callable[[], None]) -> None:
        if self._fencing:
            self._asked.append(done)
        else:
            super().when_durable(done)


class SharesABatchUnderWay(PostgresStore):
    def when_durable(self, done: Callable[[], None]) -> None:
        if self._sending:
            self._rows.batches[0].waiting.append(done)
        else:
            super().when_durable(done)


class OverlooksTheFence(PostgresStore):
    """Takes what a fenced session is told for a success."""

    def _sent(self, commit: GroupCommit, batch: PendingBatch, reached: Reached) -> None:
        if reached.verdict is Verdict.FENCED:
            reached = Reached(verdict=Verdict.DONE, sequence=self._newest_stamp, position=self._position)
        super()._sent(commit, batch, reached)


class KeepsItsMemory(PostgresStore):
    def _forget(self, reason: str) -> None:
        self._die(reason)


class DropsWhatIsUnknown(PostgresStore):
    """Takes a lost connection for a failure."""

    def _sent(self, commit: GroupCommit, batch: PendingBatch, reached: Reached) -> None:
        if reached.verdict is Verdict.UNKNOWN:
            reached = Reached(verdict=Verdict.DONE, sequence=self._newest_stamp, position=self._position)
        super()._sent(commit, batch, reached)


class AsksAgainAtOnce(PostgresStore):
    def __init__(self, *arguments: object, **named: object) -> None:
        super().__init__(*arguments, **{**named, "pause": named["schedule"]})  # type: ignore[arg-type]


class IgnoresConfigurations(PostgresStore):
    def _note_config(self, record: bytes | None) -> int:  # noqa: ARG002
        return 0


class ReadsUnderAnOldConfiguration(PostgresStore):
    def _fenced(self, known: int, verdict: Verdict) -> None:
        super()._fenced(known, Verdict.DONE if verdict is Verdict.STALE_CONFIG else verdict)


class SendsUnderTheNewestConfiguration(PostgresStore):
    def _group_commit(self, batch: PendingBatch) -> GroupCommit:
        return replace(super()._group_commit(batch), config_epoch=self.config_epoch)


class KeepsDisownedRows(PostgresStore):
    def disown(self, shards: object) -> None:
        pass


class KeepsEveryLoad(PostgresStore):
    def __init__(self, *arguments: object, **named: object) -> None:
        super().__init__(*arguments, **named)  # type: ignore[arg-type]
        self._loads = Careless(self._rows, self._database, self._schedule, self._pause)


class Careless(LoadAhead):
    def written(self, rows: dict[bytes, bytes | None]) -> None:
        pass

    def disowned(self) -> None:
        pass


class DoesNotKnowWhatItReplaces(PostgresStore):
    def _load_replaced(self, batch: PendingBatch) -> None:
        self._send(self._group_commit(batch), batch)


class WithoutTheFence(DatabaseTables):
    """The statement does not ask whether the session is fenced."""

    def commit(self, batch: GroupCommit) -> Reached:
        session = self.sessions[batch.session]
        session.fenced, fenced = False, session.fenced
        reached = super().commit(batch)
        session.fenced = fenced
        return reached


class TwoSequences(DatabaseTables):
    """Each session draws stamps of its own."""

    def commit(self, batch: GroupCommit) -> Reached:
        shared, self.sequence = self.sequence, self.sessions[batch.session].sequence
        reached = super().commit(batch)
        self.sequence = max(shared, self.sequence)
        return reached


class AppliesEveryBatch(DatabaseTables):
    """The statement does not compare the number of the batch."""

    def commit(self, batch: GroupCommit) -> Reached:
        session = self.sessions[batch.session]
        if not session.fenced:
            session.batch = batch.number - 1
        return super().commit(batch)


def rejected_by(kind: type[PostgresStore], tables: type[DatabaseTables]) -> set[str]:
    failed = set()
    for name in RULES:
        try:
            getattr(StoreRules(), name)(Trial(kind, tables))
        except Exception:
            failed.add(name)
    return failed


def test_the_rules_accept_the_store() -> None:
    assert len(RULES) >= 20
    assert rejected_by(PostgresStore, DatabaseTables) == set()


@pytest.mark.parametrize(
    ("kind", "named"),
    [
        (AnswersBeforeTheCommit, "test_nothing_is_told_before_the_batch_has_taken_effect"),
        (DoesNotFenceReads, "test_what_was_read_is_told_after_a_fence_that_was_asked_for_later"),
        (SharesAFenceUnderWay, "test_a_fence_that_began_before_the_question_does_not_answer_it"),
        (SharesABatchUnderWay, "test_a_batch_that_began_before_the_question_does_not_answer_it"),
        (OverlooksTheFence, "test_a_fenced_batch_writes_nothing_and_tells_nothing"),
        (KeepsItsMemory, "test_a_fenced_store_has_forgotten_everything"),
        (DropsWhatIsUnknown, "test_a_batch_of_unknown_outcome_is_sent_again_and_applied_once"),
        (AsksAgainAtOnce, "test_a_batch_of_unknown_outcome_is_sent_again_and_applied_once"),
        (IgnoresConfigurations, "test_a_configuration_is_in_force_with_its_row"),
        (ReadsUnderAnOldConfiguration, "test_a_newer_configuration_ends_a_session_that_does_not_know_it"),
        (SendsUnderTheNewestConfiguration, "test_what_was_committed_under_an_older_configuration_is_void"),
        (KeepsDisownedRows, "test_a_shard_that_is_handed_over_is_forgotten"),
        (KeepsEveryLoad, "test_a_load_that_is_answered_after_a_write_does_not_bring_the_old_value_back"),
        (KeepsEveryLoad, "test_a_load_from_before_a_hand_over_is_not_kept"),
        (DoesNotKnowWhatItReplaces, "test_durable_rows_are_those_before_the_batch_until_its_outcome_is_known"),
    ],
)
def test_the_rules_reject_a_store(kind: type[PostgresStore], named: str) -> None:
    assert named in rejected_by(kind, DatabaseTables)


@pytest.mark.parametrize(
    ("tables", "named"),
    [
        (WithoutTheFence, "test_a_batch_under_way_when_the_session_is_fenced_writes_nothing"),
        (TwoSequences, "test_stamps_of_two_sessions_rise_in_the_order_of_their_commits"),
        (AppliesEveryBatch, "test_a_batch_that_arrives_late_is_not_applied_twice"),
    ],
)
def test_the_rules_reject_a_database(tables: type[DatabaseTables], named: str) -> None:
    assert named in rejected_by(PostgresStore, tables)


# What the store does beside the rules.


@pytest.fixture
def server() -> SharedServer:
    return SharedServer()


@pytest.fixture
def life(server: SharedServer) -> Life:
    return Life(server)


def test_a_system_shard_is_loaded_as_a_whole_and_again_while_the_database_is_away(server: SharedServer) -> None:
    life = Life(server, shards=())
    server.tables.take(life.session, (0, 1), ())
    server.tables.rows.apply({b"a": b"1"})
    server.tables.shard_of_row[b"a"] = 0
    life.store.own((0, 1), lambda: life.heard.append("owned"))
    life.statement().lose()
    assert (life.heard, life.under_way()) == ([], [])
    life.rest()
    life.step()
    assert (life.heard, life.under_way()) == ([], ["commit"])
    life.step()
    assert life.heard == ["owned"]
    life.database.is_reachable = False
    assert rows(life.store.newest(), b"a", b"b") == [(b"a", b"1")]
    assert (life.store.newest().get(b"a"), life.store.newest().get(b"aa")) == (b"1", None)


def test_system_rows_are_read_from_memory_and_others_from_the_database(life: Life) -> None:
    life.store.put({b"a1": b"1", b"a2": b"2", b"k1": b"1", b"k2": b"2"}, None)
    life.run()
    life.store.put({b"a2": None, b"a3": b"3", b"k2": None, b"k3": b"3"}, None)
    assert rows(life.store.newest(), b"k") == [(b"k1", b"1"), (b"k3", b"3")]
    life.database.is_reachable = False
    assert rows(life.store.newest(), b"a", b"b") == [(b"a1", b"1"), (b"a3", b"3")]
    assert rows(life.store.durable(), b"a", b"b") == [(b"a1", b"1"), (b"a2", b"2")]
    with pytest.raises(StoreUnavailable):
        rows(life.store.newest(), b"k")
    assert life.store.newest().get(b"k3") == b"3", "pending rows are in memory"
    with pytest.raises(StoreUnavailable):
        life.store.newest().get(b"k4")


def test_writes_go_on_while_the_database_is_away_up_to_a_limit(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows_module, "MAX_PENDING_BYTES", 1000)
    for index in range(5):
        life.store.put({b"k%d" % index: bytes(200)}, None)
    with pytest.raises(StoreUnavailable):
        life.store.put({b"k": b""}, None)
    assert life.store.newest().get(b"k4") == bytes(200)
    life.ask("all")
    life.run()
    assert life.heard == ["all"]
    life.store.put({b"k": b""}, None)


def test_a_long_batch_takes_no_more_commits(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows_module, "BATCH_BYTES", 1000)
    for index in range(12):
        life.store.put({b"a": b"%d" % index, b"a%d" % index: bytes(200)}, None)
        life.ask(str(index))
    commits, reached = 0, -1
    while life.under_way():
        life.step()
        life.tick()
        commits += 1
        reached = int(life.store.durable().get(b"a") or b"")
        assert life.heard == [str(index) for index in range(reached + 1)]
    assert commits == 3
    assert reached == 11


def test_a_row_of_another_owner_is_not_written(server: SharedServer) -> None:
    life = Life(server, shards=(0, shard_of(b"k")))
    life.store.put({b"k": b"1"}, None)
    with pytest.raises(AssertionError):
        life.store.put({b"l": b"1"}, None)


def test_shards_with_rows_that_are_not_durable_are_not_disowned(life: Life) -> None:
    life.store.put({b"k": b"1"}, None)
    with pytest.raises(AssertionError):
        life.store.disown((shard_of(b"k"),))
    life.run()
    life.store.disown((shard_of(b"k"),))


def test_a_callback_that_raises_does_not_stop_the_others(life: Life) -> None:
    life.store.when_durable(lambda: raised(ZeroDivisionError()))
    life.ask("next")
    with pytest.raises(ZeroDivisionError):
        life.run()
    life.run()
    assert life.heard == ["next"]


def test_a_callback_that_closes_the_store_is_the_last(life: Life) -> None:
    life.store.when_durable(life.store.close)
    life.ask("next")
    life.run()
    assert life.heard == []


def test_a_cut_is_asked_for_again_and_has_all_that_was_committed(life: Life) -> None:
    life.store.put({b"k": b"1"}, None)
    cuts: list[StoreCut] = []
    life.store.cut(cuts.append)
    life.step()
    life.step()
    cut = life.statement()
    assert cut.name == "cut"
    cut.run()
    cut.lose()
    assert cuts == []
    life.rest()
    life.step()
    life.store.put({b"k": b"2"}, None)
    life.run()
    found: list[list[KeyValue]] = []
    cuts[0].read(rows, found.append, raised)
    assert found == [[(b"k", b"1")]]


def test_a_cut_that_comes_after_the_end_is_closed(life: Life) -> None:
    cuts: list[StoreCut] = []
    life.store.cut(cuts.append)
    life.step()
    cut = life.statement()
    cut.run()
    life.store.close()
    cut.answer()
    assert cuts == []


def test_stamps_and_position_are_those_of_the_database(life: Life, server: SharedServer) -> None:
    for _ in range(3):
        life.store.put({}, (b"log/", b"/x", b"v"))
    assert life.store.newest_stamp() == 0
    life.run()
    assert life.store.newest_stamp() == server.tables.sequence == 3
    logged = rows(life.store.newest(), b"log/", b"log0")
    assert life.store.stamped_bytes() == sum(len(key) + len(value) for key, value in logged)
    assert life.store.position() == server.tables.position == 1
    assert rows(life.store.newest(), b"log/", b"log0")[-1][0] == b"log/" + stamp(3, 0) + b"/x"
    server.let_leases_end()
    assert (Life(server).store.newest_stamp(), Life(server).store.position()) == (3, 1)


def test_an_owner_of_the_system_shard_knows_what_all_sessions_have_stamped(server: SharedServer) -> None:
    """The changelog is bounded where that is owned."""
    gateway, other = Life(server, shards=(0,)), Life(server, shards=(1,))
    for number in range(3):
        other.store.put({}, (b"log/", b"", b"%d" % number))
        other.run()
    gateway.store.put({b"a": b"1"}, None)
    gateway.run()
    assert (gateway.store.newest_stamp(), gateway.store.stamped_bytes()) == (3, 3 * (4 + 10 + 1))
    server.let_leases_end()
    after = Life(server, shards=(0,))
    assert (after.store.newest_stamp(), after.store.stamped_bytes()) == (3, 3 * (4 + 10 + 1))
