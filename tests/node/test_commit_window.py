"""How long the last commits took: exact, bounded, and off when no look comes."""

from collections import deque

import pytest

from epoxy.model.writes import Path
from epoxy.node import commit_window
from epoxy.node.commit_window import IDLE_MS, MAX_MEASURED, WINDOW_MS, CommitWindow, nearest_rank_ms
from epoxy.node.keys.latency import RoundLatency
from tests.node.bench import HandClock


class Counting:
    """An Observer behind it."""

    def __init__(self) -> None:
        self.count = 0

    def proposal_done(
        self,
        outcome: str,  # noqa: ARG002
        path: Path | None,  # noqa: ARG002
        seconds: float,  # noqa: ARG002
        *,
        prepares: int = 0,  # noqa: ARG002
        retries: int = 0,  # noqa: ARG002
        bumps: int = 0,  # noqa: ARG002
    ) -> None:
        self.count += 1


class Bench:
    def __init__(self) -> None:
        self.clock, self.latency, self.behind = HandClock(), RoundLatency(), Counting()
        self.latency.then = self.behind
        self.commits = self.fast = 0
        self.window = CommitWindow(self.latency, self.clock, lambda: (self.commits, self.fast))

    def done(self, ms: float, outcome: str = "Committed", path: Path | None = Path.FAST) -> None:
        self.latency.proposal_done(outcome, path, ms / 1000)
        self.commits += 1
        self.fast += path is Path.FAST


def test_percentiles_of_what_was_committed_with_others() -> None:
    bench = Bench()
    bench.window.look()
    for ms in range(1, 101):
        bench.done(float(ms))
    bench.done(0.1, path=Path.LOCAL)
    bench.done(5000.0, "ConsensusFailed", None)
    found = bench.window.percentiles()
    assert (found.p50_ms, found.p99_ms, found.measured) == (50.0, 99.0, 100)
    assert bench.behind.count == 102, "what comes after it hears all the same"


@pytest.mark.parametrize(
    ("times", "percent", "expected"),
    [([0.001], 99, 1.0), ([0.001, 0.002], 50, 1.0), ([0.001, 0.002], 99, 2.0), ([0.001, 0.002, 0.003], 50, 2.0)],
)
def test_the_nearest_rank(times: list[float], percent: int, expected: float) -> None:
    assert nearest_rank_ms(times, percent) == expected
    assert nearest_rank_ms([], percent) is None


def test_it_is_in_nobodys_way_before_the_first_look_and_after_the_last() -> None:
    bench = Bench()
    assert isinstance(bench.latency.then, Counting)
    bench.done(1.0)
    bench.window.look()
    assert isinstance(bench.latency.then, CommitWindow)
    bench.done(2.0)
    for _ in range(3):
        bench.clock.advance(IDLE_MS - 1)
        bench.window.look()
        assert bench.window.is_on
    bench.clock.advance(IDLE_MS + 1)
    assert not bench.window.is_on
    assert isinstance(bench.latency.then, Counting)
    assert bench.clock.pending == []
    bench.done(3.0)
    found = bench.window.percentiles()
    assert (found.p50_ms, found.measured, found.window_s) == (None, 0, 0.0)
    assert (bench.window.commits_per_s(), bench.window.fast_share()) == (None, None)


def test_one_that_stays_in_the_way_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted fault: it never rests."""
    monkeypatch.setattr(CommitWindow, "_rest", lambda self: self.look())
    with pytest.raises(AssertionError):
        test_it_is_in_nobodys_way_before_the_first_look_and_after_the_last()


def test_it_forgets_what_is_older_than_the_window_and_keeps_so_many() -> None:
    bench = Bench()
    bench.window.look()
    bench.done(7.0)
    for _ in range(8):
        bench.clock.advance(WINDOW_MS / 8)
        bench.window.look()
    assert bench.window.percentiles().measured == 1
    bench.clock.advance(1)
    bench.window.look()
    assert bench.window.percentiles().measured == 0
    for _ in range(MAX_MEASURED + 5):
        bench.done(9.0)
    bench.clock.advance(2000)
    found = bench.window.percentiles()
    assert (found.measured, found.window_s) == (MAX_MEASURED, 2.0), "the window is as long as what is kept"
    assert isinstance(bench.window._took, deque)


def test_commits_a_second_and_the_fast_share() -> None:
    bench = Bench()
    bench.done(1.0)
    bench.window.look()
    assert bench.window.commits_per_s() is None
    assert bench.window.fast_share() is None, "those before the first look are not counted"
    for _ in range(3):
        bench.done(1.0)
    bench.done(1.0, path=Path.SLOW)
    bench.clock.advance(2000)
    bench.window.look()
    assert bench.window.commits_per_s() == 2.0
    assert bench.window.fast_share() == 0.75
    bench.clock.advance(6000)
    bench.window.look()
    bench.clock.advance(1000)
    bench.window.look()
    assert bench.window.commits_per_s() == 0.0, "of the last seconds"
    assert bench.window.fast_share() == 0.75, "of the whole window"


def test_readings_of_the_counts_are_few() -> None:
    bench = Bench()
    for _ in range(2000):
        bench.window.look()
        bench.clock.advance(100)
    assert len(bench.window._counted) <= WINDOW_MS / commit_window.APART_MS + 1
