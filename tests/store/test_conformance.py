"""The suite on trial: stores with one planted fault each. A suite that accepts one proves nothing about the rest."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import pytest
from hypothesis import Phase, settings

from epoxy.model.errors import Conflict
from epoxy.ports import KeyValue, Snapshot, StoreCut, Transaction
from epoxy.store.buffer import BufferedTransaction, DirectTransaction, plus, stamp
from epoxy.store.cut import ViewCut, at_once
from epoxy.store.memory import SEQUENCE_ROW, MemoryStore
from epoxy.store.versioned import MapView
from tests.store.bench import MemoryBench
from tests.store.conformance import StoreConformance
from tests.store.model import check_random_histories

pytestmark = pytest.mark.pure("plants faults in stores, in classes that inherit from them")

T = TypeVar("T")

TESTS = [name for name in vars(StoreConformance) if name.startswith("test_")]
TRIAL = settings(max_examples=1000, stateful_step_count=40, phases=[Phase.generate], database=None, derandomize=True)
"""The same histories every time, and the first that fails is enough."""


class Planted(MemoryStore):
    """A store whose transactions are of another kind."""

    kind: type[BufferedTransaction] = BufferedTransaction

    def begin(self) -> BufferedTransaction:
        return self.kind(super().begin().view, self._apply)

    def transact(self, body: Callable[[Transaction], T]) -> T:
        return self.transact_tracking_reads(body)


class SeesLaterCommits(MemoryStore):
    def view(self) -> MapView:
        return LiveView(self._visible)


class LiveView(MapView):
    def get(self, key: bytes) -> bytes | None:
        return self._map.get(key)

    def range(self, begin: bytes, end: bytes, *, limit: int, reverse: bool = False) -> Sequence[KeyValue]:
        return list(self._map.rows(begin, end, reverse))[:limit]


class RangesDoNotConflict(Planted):
    class kind(BufferedTransaction):  # noqa: N801
        def add_read_conflict(self, begin: bytes, end: bytes) -> None:
            pass


class PhantomsDoNotConflict(Planted):
    class kind(BufferedTransaction):  # noqa: N801
        def range(self, begin: bytes, end: bytes, *, limit: int, reverse: bool = False) -> Sequence[KeyValue]:
            rows = self.peek_range(begin, end, limit, reverse)
            self.read_keys.update(key for key, _ in rows)
            return rows


class KeysDoNotConflict(Planted):
    class kind(BufferedTransaction):  # noqa: N801
        def get(self, key: bytes) -> bytes | None:
            return self.peek(key)


class OnlyOwnKeysConflict(Planted):
    """Write skew: what was read matters only where it was written too. Snapshot isolation, in short."""

    class kind(BufferedTransaction):  # noqa: N801
        def commit(self) -> None:
            self.read_keys &= set(self.values)
            self.read_ranges = ()
            super().commit()


class BlindWritesConflict(Planted):
    class kind(BufferedTransaction):  # noqa: N801
        def commit(self) -> None:
            self.read_keys |= set(self.values)
            super().commit()


class SnapshotReadsConflict(Planted):
    class kind(BufferedTransaction):  # noqa: N801
        @property
        def snapshot(self) -> Snapshot:
            return self


class WholeRangesConflict(Planted):
    class kind(BufferedTransaction):  # noqa: N801
        def range(self, begin: bytes, end: bytes, *, limit: int, reverse: bool = False) -> Sequence[KeyValue]:
            self.add_read_conflict(begin, end)
            return self.peek_range(begin, end, limit, reverse)


class LosesAdds(Planted):
    class kind(BufferedTransaction):  # noqa: N801
        def add(self, key: bytes, delta: int) -> None:
            self.set(key, plus(self.peek(key), delta))


class AddsConflict(Planted):
    class kind(BufferedTransaction):  # noqa: N801
        def add(self, key: bytes, delta: int) -> None:
            self.set(key, plus(self.get(key), delta))


class RangesMissOwnWrites(Planted):
    class kind(BufferedTransaction):  # noqa: N801
        def peek_range(self, begin: bytes, end: bytes, limit: int, reverse: bool) -> Sequence[KeyValue]:
            return self.view.range(begin, end, limit=limit, reverse=reverse)


class ClearRangeSparesOwnWrites(Planted):
    class kind(BufferedTransaction):  # noqa: N801
        def clear_range(self, begin: bytes, end: bytes) -> None:
            self.cleared += ((begin, end),)


class StampsBeforeTheCommit(Planted):
    """The order of the calls, not of the commits: a cursor passes rows that commit late."""

    class kind(BufferedTransaction):  # noqa: N801
        drawn = 0

        def set_stamped(self, prefix: bytes, suffix: bytes, value: bytes) -> None:
            type(self).drawn += 1
            self.set(prefix + stamp(self.drawn, 0) + suffix, value)


class ForgetsItsStamps(MemoryStore):
    def survivors(self, keep: int = 0) -> dict[bytes, bytes]:
        return {key: value for key, value in super().survivors(keep).items() if key != SEQUENCE_ROW}


class NeverRetries(MemoryStore):
    def transact(self, body: Callable[[Transaction], T]) -> T:
        transaction = self.begin()
        result = body(transaction)
        transaction.commit()
        return result


class RetriesForEver(MemoryStore):
    def transact(self, body: Callable[[Transaction], T]) -> T:
        while True:
            transaction = self.begin()
            result = body(transaction)
            try:
                transaction.commit()
            except Conflict:
                continue
            return result


class OverlooksCommitsInside(MemoryStore):
    """The direct way, taken even when somebody else was on it."""

    def transact(self, body: Callable[[Transaction], T]) -> T:
        transaction = DirectTransaction(self.newest())
        result = body(transaction)
        self.write(transaction)
        return result


class CommitsWhatFailed(MemoryStore):
    def transact(self, body: Callable[[Transaction], T]) -> T:
        transaction = self.begin()
        try:
            return body(transaction)
        finally:
            transaction.commit()


class AcknowledgesBeforeTheSync(MemoryStore):
    def when_durable(self, done: Callable[[], None], *, urgent: bool = True) -> None:  # noqa: ARG002
        done()


class AcknowledgesInDisorder(MemoryStore):
    def when_durable(self, done: Callable[[], None], *, urgent: bool = True) -> None:
        super().when_durable(done, urgent=urgent)
        self._waiting.rotate()


class ShowsWhatIsNotSynced(MemoryStore):
    def durable(self) -> Snapshot:
        return MapView(self._visible)


class DurableMovesOn(MemoryStore):
    def durable(self) -> Snapshot:
        return LiveView(self._durable)


class CutsMoveOn(MemoryStore):
    def cut(self, done: Callable[[StoreCut], None]) -> None:
        self.when_durable(lambda: done(ViewCut(LiveView(self._durable), at_once)))


class CutsBeforeTheSync(MemoryStore):
    def cut(self, done: Callable[[StoreCut], None]) -> None:
        done(ViewCut(MapView(self._durable), at_once))


class NeverCloses(MemoryStore):
    def close(self) -> None:
        pass


class HasNoLimits(Planted):
    class kind(BufferedTransaction):  # noqa: N801
        def _examine(self, key: bytes, value: bytes) -> None:
            pass


def rejected_by(kind: type[MemoryStore]) -> set[str]:
    suite, failed = StoreConformance(), set()
    for name in TESTS:
        try:
            getattr(suite, name)(MemoryBench(kind))
        except (Exception, pytest.fail.Exception):
            failed.add(name)
    return failed


def test_a_sound_store_passes_everything() -> None:
    assert len(TESTS) >= 40
    assert rejected_by(MemoryStore) == rejected_by(Planted) == set()


@pytest.mark.parametrize(
    ("kind", "named"),
    [
        (SeesLaterCommits, "test_a_transaction_reads_the_state_it_began_with"),
        (RangesDoNotConflict, "test_changes_within_a_range_read_conflict"),
        (PhantomsDoNotConflict, "test_a_phantom_conflicts"),
        (KeysDoNotConflict, "test_a_key_read_and_changed_conflicts"),
        (OnlyOwnKeysConflict, "test_write_skew_is_prevented"),
        (BlindWritesConflict, "test_blind_writes_do_not_conflict"),
        (SnapshotReadsConflict, "test_snapshot_reads_do_not_conflict"),
        (WholeRangesConflict, "test_rows_beyond_a_limit_were_not_read"),
        (LosesAdds, "test_adds_do_not_conflict_and_none_is_lost"),
        (AddsConflict, "test_adds_do_not_conflict_and_none_is_lost"),
        (RangesMissOwnWrites, "test_own_writes_are_seen_and_nobody_else_sees_them"),
        (ClearRangeSparesOwnWrites, "test_a_cleared_range_hides_what_came_before_it_alone"),
        (StampsBeforeTheCommit, "test_stamps_rise_in_the_order_of_commits"),
        (ForgetsItsStamps, "test_stamps_go_on_rising_after_a_restart"),
        (NeverRetries, "test_a_body_runs_again_until_it_commits"),
        (RetriesForEver, "test_a_body_that_never_wins_is_given_up"),
        (OverlooksCommitsInside, "test_a_body_sees_one_state_even_if_it_commits_something_else"),
        (CommitsWhatFailed, "test_a_body_that_raises_writes_nothing"),
        (AcknowledgesBeforeTheSync, "test_durability_is_announced_in_order_and_not_before"),
        (AcknowledgesInDisorder, "test_durability_is_announced_in_order_and_not_before"),
        (ShowsWhatIsNotSynced, "test_durable_hides_what_is_not_synced"),
        (DurableMovesOn, "test_durable_hides_what_is_not_synced"),
        (CutsMoveOn, "test_a_cut_has_all_that_was_committed_before_it_and_nothing_by_halves"),
        (CutsBeforeTheSync, "test_a_cut_has_all_that_was_committed_before_it_and_nothing_by_halves"),
        (NeverCloses, "test_a_closed_store_refuses_and_acknowledges_nothing"),
        (HasNoLimits, "test_what_is_too_large_is_refused_and_writes_nothing"),
    ],
)
def test_the_suite_rejects(kind: type[MemoryStore], named: str) -> None:
    assert named in rejected_by(kind)


@pytest.mark.parametrize(
    "kind",
    [
        SeesLaterCommits,
        RangesDoNotConflict,
        KeysDoNotConflict,
        OnlyOwnKeysConflict,
        SnapshotReadsConflict,
        LosesAdds,
        RangesMissOwnWrites,
        ClearRangeSparesOwnWrites,
        StampsBeforeTheCommit,
        AcknowledgesBeforeTheSync,
        AcknowledgesInDisorder,
        ShowsWhatIsNotSynced,
    ],
)
def test_random_histories_reject(kind: type[MemoryStore]) -> None:
    with pytest.raises(Exception):  # noqa: B017, PT011 (whatever breaks first)
        check_random_histories(lambda: MemoryBench(kind), TRIAL)
