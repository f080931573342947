"""The PostgreSQL store above a database in memory: what every store must do, and the rules of one that is shared."""

from collections.abc import Callable, Sequence

import pytest
from hypothesis import settings
from msgspec.structs import replace

from epoxy.model.errors import StoreUnavailable
from epoxy.model.shards import shard_of
from epoxy.ports import KeyValue, StoreCut
from epoxy.store.buffer import stamp
from epoxy.store.shared import rows as rows_module
from epoxy.store.shared.database import Database, ExecutedBatch, GroupCommit, Reached, Verdict
from epoxy.store.shared.load_ahead import LoadAhead, Post
from epoxy.store.shared.pending_batch import PendingBatch
from epoxy.store.shared.store import Asked, SharedStore
from epoxy_sim.datacenter.memory_database import DatabaseTables
from tests.store.conformance import StoreConformance, raised, rows
from tests.store.model import check_random_histories
from tests.store.shared.shared_bench import Life, LossyBench, SharedBench, SharedServer
from tests.store.shared.store_rules import StoreRules, Trial

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


class AnswersBeforeTheCommit(SharedStore):
    def _begin_batch(self, batch: PendingBatch) -> None:
        super()._begin_batch(batch)
        told, batch.waiting = batch.waiting, []
        self._call(told)


class DoesNotFenceReads(SharedStore):
    def when_durable(self, done: Callable[[], None], *, urgent: bool = True) -> None:
        if self.pending:
            super().when_durable(done, urgent=urgent)
        else:
            done()


class SharesAFenceUnderWay(SharedStore):
    """Also with those who asked after it began."""

    def when_durable(self, done: Callable[[], None], *, urgent: bool = True) -> None:
        if self._fencing:
            self._asked.append(done)
        else:
            super().when_durable(done, urgent=urgent)


class SharesAFlushUnderWay(SharedStore):
    def when_durable(self, done: Callable[[], None], *, urgent: bool = True) -> None:
        if self._flushing:
            self._rows.batches[0].waiting.append(done)
        else:
            super().when_durable(done, urgent=urgent)


class TellsWhatIsExecuted(SharedStore):
    def _sent(self, batch: PendingBatch, executed: ExecutedBatch) -> None:
        super()._sent(batch, executed)
        told, batch.waiting = batch.waiting, []
        self._call(told)


class ShowsWhatIsExecuted(SharedStore):
    def _sent(self, batch: PendingBatch, executed: ExecutedBatch) -> None:
        batch.before = {**batch.rows}
        super()._sent(batch, executed)


class CountsEarlierFlushes(SharedStore):
    """For whatever is executed when they are answered."""

    def _flushed(self, reached: Reached, asked: list[Asked], *, is_whole: bool) -> None:
        super()._flushed(replace(reached, number=self._number), asked, is_whole=is_whole)


class FlushesOneBehindTheOther(SharedStore):
    """Nothing is executed beside a flush."""

    def _begin_batch(self, batch: PendingBatch) -> None:
        if not self._flushing:
            super()._begin_batch(batch)


class ExecutesAhead(SharedStore):
    """As many batches beside a flush as there are."""

    def _begin_round(self) -> None:
        covered, self._covered = self._covered, self._number
        super()._begin_round()
        self._covered = max(covered, self._covered)


class LeavesLostBatches(SharedStore):
    def _lose_after(self, number: int) -> None:  # noqa: ARG002
        self._losses += 1


class ForgetsLosses(SharedStore):
    def _lose_after(self, number: int) -> None:
        super()._lose_after(number)
        self._losses -= 1


class KeepsWhomAFlushAnswers(SharedStore):
    def _flush_again(self, asked: list[Asked], later: Post) -> None:
        super()._flush_again([(0, done) for _, done in asked], later)


class ExecutesLostBatchesUnderTheNewest(SharedStore):
    def _lose_after(self, number: int) -> None:
        super()._lose_after(number)
        for batch in self._rows.batches:
            if batch.made is not None:
                batch.made = replace(batch.made, config_epoch=self.config_epoch)


class SurvivesItsDurableBatches(SharedStore):
    """Executes durable batches' successors under new numbers."""

    @property
    def _settled(self) -> int:
        return 0

    @_settled.setter
    def _settled(self, number: int) -> None:
        pass


class ShowsOthersAtOnce(SharedStore):
    def __init__(self, *arguments: object, **named: object) -> None:
        super().__init__(*arguments, **named)  # type: ignore[arg-type]
        self._rows._database = Hasty(self._database)  # type: ignore[assignment]


class Hasty:
    """Flushes nothing that was read."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def __getattr__(self, name: str) -> object:
        return getattr(self._database, name)

    def read_rows(self, keys: Sequence[bytes], *, flush: bool) -> dict[bytes, bytes]:  # noqa: ARG002
        return self._database.read_rows(keys, flush=False)

    def read_range(self, begin: bytes, end: bytes, limit: int, reverse: bool, *, flush: bool) -> Sequence[KeyValue]:  # noqa: ARG002
        return self._database.read_range(begin, end, limit, reverse, flush=False)


class ShowsTheWholeChangelog(SharedStore):
    def __init__(self, *arguments: object, **named: object) -> None:
        super().__init__(*arguments, **named)  # type: ignore[arg-type]
        self._rows.flushed_stamp = 1 << 60


class AsksForFlushesAllTheSame(SharedStore):
    def _sent(self, batch: PendingBatch, executed: ExecutedBatch) -> None:
        super()._sent(batch, replace(executed, reached=None))


class TellsLaterCommitsToo(SharedStore):
    """When a batch is durable that they are not in."""

    def _settle(self, reached: Reached) -> list[Callable[[], None]]:
        told = [*super()._settle(reached), *[done for _, done in self._waiting]]
        self._waiting.clear()
        return told


class TakesLateFlushesForLosses(SharedStore):
    def _flushed(self, reached: Reached, asked: list[Asked], *, is_whole: bool) -> None:
        if reached.number < self._settled:
            self._end(Verdict.FENCED)
        else:
            super()._flushed(reached, asked, is_whole=is_whole)


class OverlooksTheFence(SharedStore):
    """Takes what a fenced session is told for a success."""

    def _sent(self, batch: PendingBatch, executed: ExecutedBatch) -> None:
        if executed.verdict is Verdict.FENCED:
            self._flushed(Reached(Verdict.DONE), [(0, done) for done in batch.waiting], is_whole=True)
        else:
            super()._sent(batch, executed)


class KeepsItsMemory(SharedStore):
    def _forget(self, reason: str) -> None:
        self._die(reason)


class DropsWhatIsUnknown(SharedStore):
    """Takes a lost connection for a failure."""

    def _sent(self, batch: PendingBatch, executed: ExecutedBatch) -> None:
        if executed.verdict is Verdict.UNKNOWN:
            batch.rows, batch.stamped, batch.made = {}, [], None
        super()._sent(batch, executed)


class AsksAgainAtOnce(SharedStore):
    def __init__(self, *arguments: object, **named: object) -> None:
        super().__init__(*arguments, **{**named, "pause": named["schedule"]})  # type: ignore[arg-type]


class IgnoresConfigurations(SharedStore):
    def _note_config(self, record: bytes | None) -> int:  # noqa: ARG002
        return 0


class ReadsUnderAnOldConfiguration(SharedStore):
    def _fenced(self, known: int, verdict: Verdict) -> None:
        super()._fenced(known, Verdict.DONE if verdict is Verdict.STALE_CONFIG else verdict)


class SendsUnderTheNewestConfiguration(SharedStore):
    def _group_commit(self, batch: PendingBatch) -> GroupCommit:
        return replace(super()._group_commit(batch), config_epoch=self.config_epoch)


class KeepsDisownedRows(SharedStore):
    def disown(self, shards: object) -> None:
        pass


class KeepsEveryLoad(SharedStore):
    def __init__(self, *arguments: object, **named: object) -> None:
        super().__init__(*arguments, **named)  # type: ignore[arg-type]
        self._loads = Careless(self._rows, self._database, self._schedule, self._pause)


class Careless(LoadAhead):
    def written(self, rows: dict[bytes, bytes | None]) -> None:
        pass

    def disowned(self) -> None:
        pass


class DoesNotKnowWhatItReplaces(SharedStore):
    def _load_replaced(self, batch: PendingBatch) -> None:
        self._send(batch)


class WithoutTheFence(DatabaseTables):
    """The statement does not ask whether the session is fenced."""

    def commit(self, batch: GroupCommit) -> ExecutedBatch:
        session = self.sessions[batch.session]
        session.fenced, fenced = False, session.fenced
        executed = super().commit(batch)
        session.fenced = fenced
        return executed


class TwoSequences(DatabaseTables):
    """Each session draws stamps of its own."""

    def commit(self, batch: GroupCommit) -> ExecutedBatch:
        shared, self.sequence = self.sequence, self.sessions[batch.session].sequence
        executed = super().commit(batch)
        self.sequence = max(shared, self.sequence)
        return executed


class AppliesEveryBatch(DatabaseTables):
    """The statement does not compare the number of the batch."""

    def commit(self, batch: GroupCommit) -> ExecutedBatch:
        session = self.sessions[batch.session]
        if not session.fenced:
            session.batch = batch.number - 1
        return super().commit(batch)


def rejected_by(kind: type[SharedStore], tables: type[DatabaseTables]) -> set[str]:
    failed = set()
    for name in RULES:
        try:
            getattr(StoreRules(), name)(Trial(kind, tables))
        except Exception:
            failed.add(name)
    return failed


def test_the_rules_accept_the_store() -> None:
    assert len(RULES) >= 20
    assert rejected_by(SharedStore, DatabaseTables) == set()


@pytest.mark.parametrize(
    ("kind", "named"),
    [
        (AnswersBeforeTheCommit, "test_nothing_is_told_before_the_batch_is_durable"),
        (TellsWhatIsExecuted, "test_nothing_is_told_before_the_batch_is_durable"),
        (ShowsWhatIsExecuted, "test_nothing_is_told_before_the_batch_is_durable"),
        (CountsEarlierFlushes, "test_a_flush_that_began_before_a_batch_was_executed_does_not_count_for_it"),
        (
            FlushesOneBehindTheOther,
            "test_a_batch_is_executed_beside_the_flush_of_the_one_before_and_none_ahead_of_it",
        ),
        (ExecutesAhead, "test_a_batch_is_executed_beside_the_flush_of_the_one_before_and_none_ahead_of_it"),
        (LeavesLostBatches, "test_batches_that_a_crash_has_undone_are_executed_again_in_their_order"),
        (LeavesLostBatches, "test_an_answer_from_before_a_crash_does_not_count"),
        (ForgetsLosses, "test_what_was_read_of_a_batch_that_is_lost_is_told_when_it_is_durable"),
        (
            KeepsWhomAFlushAnswers,
            "test_a_flush_that_is_asked_for_again_after_a_loss_does_not_tell_what_was_lost",
        ),
        (ExecutesLostBatchesUnderTheNewest, "test_a_lost_batch_of_an_old_configuration_is_void"),
        (SurvivesItsDurableBatches, "test_a_session_whose_durable_batches_are_not_there_is_over"),
        (ShowsOthersAtOnce, "test_rows_of_others_are_shown_when_a_crash_cannot_undo_them"),
        (ShowsTheWholeChangelog, "test_the_changelog_is_shown_up_to_what_is_known_to_be_durable"),
        (DoesNotFenceReads, "test_what_was_read_is_told_after_a_fence_that_was_asked_for_later"),
        (SharesAFenceUnderWay, "test_a_fence_that_began_before_the_question_does_not_answer_it"),
        (SharesAFlushUnderWay, "test_a_flush_that_began_before_the_question_does_not_answer_it"),
        (AsksForFlushesAllTheSame, "test_a_batch_that_is_answered_as_durable_needs_no_flush"),
        (TellsLaterCommitsToo, "test_a_batch_that_is_answered_as_durable_needs_no_flush"),
        (TakesLateFlushesForLosses, "test_a_flush_that_is_answered_after_a_later_batch_is_durable_ends_nothing"),
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
def test_the_rules_reject_a_store(kind: type[SharedStore], named: str) -> None:
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
    assert named in rejected_by(SharedStore, tables)


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
