"""The embedded store as a database: what every store must do above it, the rules of sessions, and faulty databases that
break them."""

from collections.abc import Callable, Sequence

import pytest

from epoxy.codec import wire
from epoxy.model.cluster import CONFIG_KEY
from epoxy.model.records import CommittedRecord, Proposal, ProposalId
from epoxy.ports import KeyValue
from epoxy.store.keyspace import Keyspace
from epoxy.store.local.local_database import LocalDatabase
from epoxy.store.local.session_table import LocalSession
from epoxy.store.shared.database import ExecutedBatch, GroupCommit, Reached, Verdict
from tests.store.conformance import StoreConformance
from tests.store.local.local_bench import LocalBench, LocalDisk
from tests.store.shared.shared_bench import LEASE_MS, REPLICA

Rule = Callable[[type[LocalDatabase]], None]


class TestPostgresStoreOnLocalDatabase(StoreConformance):
    """What every store must do, with the data directory of the first process below."""

    def open_bench(self) -> LocalBench:
        return LocalBench()


# Rules


def a_batch_is_told_of_when_it_is_durable(kind: type[LocalDatabase]) -> None:
    place = LocalDisk(kind)
    session = place.session()
    executed, early = place.commit(session, 1), place.flush(session)
    place.tick()
    assert (executed, early) == ([], [])
    later, late = place.commit(session, 2, key=b"l"), place.flush(session)
    place.settle()
    assert [(reached.verdict, reached.number) for reached in (*early, *late)] == [(Verdict.DONE, 1), (Verdict.DONE, 2)]
    assert executed == [ExecutedBatch(Verdict.DONE, 1, 0, early[0])]
    assert later == [ExecutedBatch(Verdict.DONE, 2, 0, late[0])], "no flush has to be asked for"
    place.crash()
    assert place.database.read_rows([b"k"], flush=True) == {b"k": b"v"}


def readers_see_what_is_durable(kind: type[LocalDatabase]) -> None:
    place = LocalDisk(kind)
    session = place.session()
    place.commit(session, 1)
    place.tick()
    assert place.database.read_rows([b"k"], flush=True) == {}
    assert place.database.read_range(b"", b"\xff", 10, False, flush=True) == []
    place.settle()
    assert place.database.read_rows([b"k", b"none"], flush=True) == {b"k": b"v"}


def a_fenced_session_changes_nothing(kind: type[LocalDatabase]) -> None:
    place = LocalDisk(kind)
    session, other = place.session(), place.session(())
    place.now_ms += 2 * LEASE_MS
    place.database.table.renew(other, LEASE_MS)
    taken: list[Sequence[int] | None] = []
    place.database.take(other, [1, 2], [session], taken.append)
    place.settle()
    assert taken == [[1, 2]]
    heard, flushed = place.commit(session, 1), place.flush(session)
    fenced: list[Verdict] = []
    place.database.fence(session, 0, fenced.append)
    place.settle()
    assert [reached.verdict for reached in heard] == [Verdict.FENCED]
    assert fenced == [reached.verdict for reached in flushed] == [Verdict.FENCED]
    assert place.database.read_rows([b"k"], flush=True) == {}


def the_next_owner_reads_the_last_batch_of_the_one_before(kind: type[LocalDatabase]) -> None:
    """Which may be under way when its session ends: the shards are the next owner's when it is durable."""
    place = LocalDisk(kind)
    session, other = place.session(), place.session(())
    place.commit(session, 1)
    place.database.table.close(session)
    found: list[dict[bytes, bytes]] = []
    place.database.take(other, [1], [], lambda _: found.append(place.database.read_rows([b"k"], flush=True)))
    place.settle()
    assert found == [{b"k": b"v"}]


def a_batch_is_applied_once(kind: type[LocalDatabase]) -> None:
    place = LocalDisk(kind)
    session = place.session()
    batch = GroupCommit(session, 1, 0, [(b"k", b"v", 1)], (), [[(b"log", b"", b"e")]])
    heard: list[ExecutedBatch] = []
    for _ in range(3):
        place.database.commit(batch, heard.append)
        place.settle()
    assert [reached.verdict for reached in heard] == [Verdict.DONE] * 3
    assert [reached.sequence for reached in heard] == [1] * 3
    assert len(place.database.read_range(b"log", b"loh", 10, False, flush=True)) == 1


def a_batch_that_skips_one_is_of_a_session_that_is_lost(kind: type[LocalDatabase]) -> None:
    place = LocalDisk(kind)
    heard = place.commit(place.session(), 2)
    place.settle()
    assert [reached.verdict for reached in heard] == [Verdict.FENCED]


def a_batch_of_an_old_configuration_is_void(kind: type[LocalDatabase]) -> None:
    place = LocalDisk(kind)
    session = place.session()
    place.database.adopted(2)
    heard, verdicts = place.commit(session, 1, epoch=1), list[Verdict]()
    place.database.fence(session, 1, verdicts.append)
    place.database.fence(session, 2, verdicts.append)
    flushed = place.flush(session, 1), place.flush(session, 2)
    place.settle()
    assert [reached.verdict for heard_now in flushed for reached in heard_now] == [Verdict.STALE_CONFIG, Verdict.DONE]
    assert [reached.verdict for reached in heard] == [Verdict.STALE_CONFIG]
    assert verdicts == [Verdict.STALE_CONFIG, Verdict.DONE]
    assert place.database.read_rows([b"k"], flush=True) == {}


def the_session_of_the_first_process_is_never_fenced(kind: type[LocalDatabase]) -> None:
    place = LocalDisk(kind)
    first, other = place.session(), place.session(())
    place.database.table.keep(first)
    place.now_ms += 2 * LEASE_MS
    place.database.table.renew(first, LEASE_MS)
    place.now_ms += 2 * LEASE_MS
    taken: list[Sequence[int] | None] = []
    place.database.take(other, [1], [first], taken.append)
    heard = place.commit(first, 1)
    place.settle()
    assert taken == [[]]
    assert [reached.verdict for reached in heard] == [Verdict.DONE]


RULES: tuple[Rule, ...] = (
    a_batch_is_told_of_when_it_is_durable,
    readers_see_what_is_durable,
    a_fenced_session_changes_nothing,
    the_next_owner_reads_the_last_batch_of_the_one_before,
    a_batch_is_applied_once,
    a_batch_that_skips_one_is_of_a_session_that_is_lost,
    a_batch_of_an_old_configuration_is_void,
    the_session_of_the_first_process_is_never_fenced,
)


@pytest.mark.parametrize("rule", RULES)
def test_rules(rule: Rule) -> None:
    rule(LocalDatabase)


# Faults


class AnswersBeforeTheDisk(LocalDatabase):
    def flush(self, session: int, config_epoch: int, done: Callable[[Reached], None]) -> None:
        super().flush(session, config_epoch, lambda _: None)
        self._answer(done, Reached(verdict=Verdict.DONE, number=1))


class AnswersBatchesBeforeTheDisk(LocalDatabase):
    def _confirm(self, session: LocalSession, done: Callable[[ExecutedBatch], None]) -> None:
        self._answer(done, ExecutedBatch(Verdict.DONE, session.batch, reached=Reached(Verdict.DONE, number=1)))


class ReadsTheNewest(LocalDatabase):
    def read_rows(self, keys: Sequence[bytes], *, flush: bool) -> dict[bytes, bytes]:  # noqa: ARG002
        found = {key: self._store.newest().get(key) for key in keys}
        return {key: value for key, value in found.items() if value is not None}


class RangesOfTheNewest(LocalDatabase):
    def read_range(
        self,
        begin: bytes,
        end: bytes,
        limit: int,
        reverse: bool,
        *,
        flush: bool,  # noqa: ARG002
    ) -> Sequence[KeyValue]:
        return self._store.newest().range(begin, end, limit=limit, reverse=reverse)


class KnowsNoFence(LocalDatabase):
    def commit(self, batch: GroupCommit, done: Callable[[ExecutedBatch], None]) -> None:
        rows: dict[bytes, bytes | None] = {key: value for key, value, _ in batch.rows}
        self._store.put_batch(rows, batch.stamped, counts=True)
        super().commit(batch, done)


class TakesBeforeTheDisk(LocalDatabase):
    def take(
        self, session: int, shards: Sequence[int], dead: Sequence[int], done: Callable[[Sequence[int] | None], None]
    ) -> None:
        self._answer(done, self.table.take(session, shards, dead))


class KnowsNoEpoch(LocalDatabase):
    def adopted(self, epoch: int) -> None:
        pass


class ForgetsNumbers(LocalDatabase):
    def commit(self, batch: GroupCommit, done: Callable[[ExecutedBatch], None]) -> None:
        found = self.table.find(batch.session)
        if found is not None:
            found.batch = batch.number - 1
        super().commit(batch, done)


class KeepsNoSession(LocalDatabase):
    def take(
        self, session: int, shards: Sequence[int], dead: Sequence[int], done: Callable[[Sequence[int] | None], None]
    ) -> None:
        for each in dead:
            self.table.close(each)
        super().take(session, shards, dead, done)


FAULTS: dict[type[LocalDatabase], Rule] = {
    AnswersBeforeTheDisk: a_batch_is_told_of_when_it_is_durable,
    AnswersBatchesBeforeTheDisk: a_batch_is_told_of_when_it_is_durable,
    ReadsTheNewest: readers_see_what_is_durable,
    RangesOfTheNewest: readers_see_what_is_durable,
    KnowsNoFence: a_fenced_session_changes_nothing,
    TakesBeforeTheDisk: the_next_owner_reads_the_last_batch_of_the_one_before,
    ForgetsNumbers: a_batch_is_applied_once,
    KnowsNoEpoch: a_batch_of_an_old_configuration_is_void,
    KeepsNoSession: the_session_of_the_first_process_is_never_fenced,
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_break_a_rule(fault: type[LocalDatabase]) -> None:
    with pytest.raises(AssertionError):
        FAULTS[fault](fault)


def test_a_batch_that_skips_one_is_not_applied_by_a_database_that_forgets_numbers() -> None:
    with pytest.raises(AssertionError):
        a_batch_that_skips_one_is_of_a_session_that_is_lost(ForgetsNumbers)


# The data directory


def test_the_epoch_of_a_configuration_that_is_stored_is_known_at_the_start() -> None:
    place = LocalDisk()
    record = CommittedRecord(committed=Proposal(proposal_id=ProposalId(1, 1), version=3, value=b"x", mutable=True))
    row = Keyspace(REPLICA).value_row(CONFIG_KEY)
    place.disk.store.put({row: wire.encode_committed_record(record)}, None)
    place.settle()
    place.crash()
    assert place.database.config_epoch == 3


def test_a_session_ends_with_the_process_and_its_number_is_used_again() -> None:
    place = LocalDisk()
    first = place.session()
    place.commit(first, 1)
    place.settle()
    place.crash()
    again = place.session()
    assert again == first
    heard = place.commit(again, 1, value=b"w")
    place.settle()
    assert [reached.verdict for reached in heard] == [Verdict.DONE]
    assert place.database.read_rows([b"k"], flush=True) == {b"k": b"w"}
