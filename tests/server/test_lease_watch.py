"""Nodes of one datacenter with different leases: which differences are told, and when."""

import pytest

from epoxy.model.shards import ALL_SHARDS
from epoxy.server.lease_watch import LOOK_MS, LOOKS, LeaseWatch
from epoxy.store.shared.database import SessionRow, ShardTable
from tests.node.bench import HandClock

ME, OTHER = 1, 2
MINE_MS = 5000.0


class Bench:
    def __init__(self, lease_ms: float, *, owner: int = OTHER) -> None:
        self.lease_ms = lease_ms
        self.owner = owner
        self.told: list[tuple[str, float]] = []
        self.clock = HandClock()
        self.watch = LeaseWatch(
            self._table,
            self.clock,
            session=ME,
            lease_ms=MINE_MS,
            differs=lambda url, lease_ms: self.told.append((url, lease_ms)),
        )
        self.watch.start()

    def _table(self) -> ShardTable:
        """Renewed when a fifth is over."""
        left_ms = self.lease_ms - self.clock.now % (self.lease_ms / 5)
        rows = [SessionRow(each, f"http://{each}", "1", left_ms, False) for each in (ME, OTHER)]
        return ShardTable(rows, [self.owner] * len(ALL_SHARDS), [0] * len(ALL_SHARDS))


@pytest.mark.parametrize("lease_ms", [500.0, 1000.0, 2500.0, 3000.0])
def test_a_lease_that_stays_shorter_is_told_once(lease_ms: float) -> None:
    bench = Bench(lease_ms)
    bench.clock.advance((LOOKS - 1) * LOOK_MS)
    assert bench.told == []
    bench.clock.advance(LOOKS * LOOK_MS)
    ((url, about_ms),) = bench.told
    assert url == "http://2"
    assert 0.8 * lease_ms <= about_ms <= lease_ms


@pytest.mark.parametrize("lease_ms", [8000.0, 60_000.0])
def test_a_longer_lease_is_told_at_once_and_once(lease_ms: float) -> None:
    bench = Bench(lease_ms)
    bench.clock.advance(LOOK_MS)
    assert len(bench.told) == 1
    bench.clock.advance(2 * LOOKS * LOOK_MS)
    assert len(bench.told) == 1


@pytest.mark.parametrize("lease_ms", [4500.0, MINE_MS, 6000.0])
def test_what_is_nearly_the_same_is_not_told(lease_ms: float) -> None:
    bench = Bench(lease_ms)
    bench.clock.advance(3 * LOOKS * LOOK_MS)
    assert bench.told == []


def test_a_session_that_begins_or_ends_is_not_told() -> None:
    bench = Bench(MINE_MS / 2, owner=0)
    bench.clock.advance(2 * LOOKS * LOOK_MS)
    bench.owner, bench.lease_ms = OTHER, MINE_MS
    bench.clock.advance(LOOKS // 2 * LOOK_MS)
    bench.lease_ms = MINE_MS / 2
    bench.clock.advance(LOOKS * LOOK_MS)
    assert bench.told == []


def test_a_stopped_one_leaves_no_timer() -> None:
    bench = Bench(MINE_MS)
    bench.watch.stop()
    assert bench.clock.pending == []
