"""What is held against the promises, and how it is shown. Every judge is shown a miss as well."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from benchmarks.findings import Counted, Local, Survivor, Verdict, at_home, faster, near_floor, unharmed
from benchmarks.machine import Conditions, CpuTimes, ProcessTimes, Quiet, cpu_times, process_times, shares
from benchmarks.peers.epoxy import handled_for_peers, slow_writes
from benchmarks.report import BEGIN, END, floor_table, promises, replaced, share, table
from benchmarks.stats import Ratios, Summary

T = TypeVar("T")

CALM = Conditions(seconds=1.0, busy_share=0.2, others_share=0.0, stolen_share=0.0, fsync_ms=(0.2, 0.2))


def summary(p50: float, p99: float) -> Summary:
    return Summary(count=100, failed=0, mean=p50, p50=p50, p99=p99, most=p99)


def held(found: list[Verdict]) -> list[bool]:
    return [verdict.held for verdict in found]


def test_every_region_must_be_near_its_floor() -> None:
    floors = {"a": 70.0, "b": 100.0}
    assert held(list(near_floor("x", {"a": summary(75.0, 80.0), "b": summary(102.0, 104.0)}, floors))) == [True, True]
    found = list(near_floor("x", {"a": summary(75.1, 80.0), "b": summary(102.0, 110.5)}, floors))
    assert held(found) == [False, False]
    assert [verdict.found for verdict in found] == ["5.1 ms (a)", "10.5 ms (b)"]


def survivor(*, worst_ms: float, failed: int = 0) -> Survivor:
    usual = summary(72.0, 75.0)
    return Survivor(
        floor=70.0,
        before=usual,
        after=usual,
        failed=failed,
        worst_ms=worst_ms,
        pause_before_ms=70.0,
        pause_after_ms=70.0,
    )


@pytest.mark.parametrize(
    ("worst_ms", "failed", "expected"), [(150.0, 0, [True, True]), (151.0, 0, [True, False]), (80.0, 1, [False, True])]
)
def test_a_kill_may_fail_no_write_and_slow_none_to_twice_the_usual(
    worst_ms: float, failed: int, expected: list[bool]
) -> None:
    others = {"calm": survivor(worst_ms=90.0), "struck": survivor(worst_ms=worst_ms, failed=failed)}
    assert held(list(unharmed(others))) == expected


@pytest.mark.parametrize(
    ("best", "average", "expected"), [(0.85, 0.6, [True, True]), (0.86, 0.6, [False, True]), (0.8, 0.61, [True, False])]
)
def test_ratios_have_limits(best: float, average: float, expected: list[bool]) -> None:
    ratios = Ratios(best_leader="a", ours=1.0, best=1.0, average=1.0, of_best=best, of_average=average)
    assert held(list(faster("x", ratios))) == expected


@pytest.mark.parametrize(
    ("p50", "messages", "expected"),
    [(0.4, 0, [True, True]), (1.0, 0, [False, True]), (0.4, 1, [True, False])],
)
def test_answers_at_home_are_quick_and_ask_nobody(p50: float, messages: int, expected: list[bool]) -> None:
    counted = Counted(requests=10, pieces=3, idle_pieces=3, messages=messages)
    local = Local(ours={"reading": summary(p50, 2.0)}, counted={"reading": counted}, etcd={}, conditions=CALM)
    assert held(list(at_home(local))) == expected


def test_messages_of_peers_are_told_from_requests_of_clients() -> None:
    metrics = (
        "# TYPE epoxy_requests_total counter\n"
        'epoxy_requests_total{request_type="http_put_key",result="ok"} 200.0\n'
        'epoxy_requests_total{request_type="resp_get",result="ok"} 7.0\n'
        'epoxy_requests_total{request_type="accept",result="accept_ok"} 3.0\n'
        'epoxy_requests_total{request_type="commit",result="commit_ok"} 2.0\n'
        "epoxy_fast_path_total 9.0\n"
    )
    assert handled_for_peers(metrics) == 5


def test_slow_writes_are_read_from_the_metrics() -> None:
    metrics = "# TYPE epoxy_slow_path_total counter\nepoxy_slow_path_total 3.0\nepoxy_fast_path_total 9.0\n"
    assert slow_writes(metrics) == 3


def test_a_table_has_a_head_a_rule_and_rows() -> None:
    assert table(("a", "b"), [("1", "2")]) == "| a | b |\n| --- | --- |\n| 1 | 2 |\n"


def test_a_floor_table_shows_the_distance() -> None:
    assert "| a | 70.0 | 72.5 | +2.5 | 79.0 | +9.0 | 100 |" in floor_table({"a": summary(72.5, 79.0)}, {"a": 70.0})


def test_a_missed_promise_stands_out() -> None:
    kept = Verdict(claim="x", wanted="1", found="1", held=True)
    missed = Verdict(claim="y", wanted="1", found="2", held=False)
    assert promises([kept, missed]).splitlines()[2:] == ["| x | 1 | 1 | yes |", "| y | 1 | 2 | **no** |"]


def test_only_what_stands_between_the_marks_is_renewed() -> None:
    page = f"before\n{BEGIN}old\n{END}after\n"
    assert replaced(page, "new") == f"before\n{BEGIN}\nnew\n{END}after\n"
    assert replaced(replaced(page, "new"), "new") == replaced(page, "new")


@pytest.mark.parametrize("page", ["", BEGIN, END])
def test_a_page_without_marks_is_left_alone(page: str) -> None:
    with pytest.raises(ValueError, match="no place"):
        replaced(page, "new")


def test_stolen_time_is_the_eighth_figure_and_waiting_for_the_disk_is_idle() -> None:
    found = cpu_times("cpu  10 20 30 400 50 6 7 80 900 1000\ncpu0 1 2 3 4 5 6 7 8 9 10\n")
    assert found == CpuTimes(total=603, idle=450, stolen=80)


def test_ticks_of_a_process_include_those_of_children_that_have_ended() -> None:
    found = process_times("7 (a (b) c) S 1 2 3 4 5 6 7 8 9 10 100 20 3 4 20 0 1")
    assert found == ProcessTimes(pid=7, parent=1, ticks=127)


def test_what_is_neither_ours_nor_idle_is_noise() -> None:
    before, after = CpuTimes(1000, 500, 0, 300), CpuTimes(1200, 560, 20, 380)
    found = shares(before, after)
    assert (found.busy, found.others, found.stolen) == (0.6, 0.2, 0.1)
    assert found.noise == pytest.approx(0.3)


def quietest(noises: list[float], patience_s: float = 1e9, failing: tuple[int, ...] = ()) -> tuple[int, int]:
    """Which of the runs is kept, and how many were repeated."""
    quiet = Scripted(noises, patience_s)

    async def run() -> int:
        return quiet.runs

    return asyncio.run(quiet(run, lambda number: number in failing)), quiet.repeated


class Scripted(Quiet):
    def __init__(self, noises: list[float], patience_s: float) -> None:
        super().__init__(patience_s)
        self.runs = -1
        self._noises = noises

    async def _once(self, run: Callable[[], Awaitable[T]]) -> tuple[T, float, float]:
        self.runs += 1
        return await run(), self._noises[self.runs], 10.0


def test_what_was_disturbed_is_repeated_until_it_is_quiet_or_patience_ends() -> None:
    assert quietest([0.05]) == (0, 0)
    assert quietest([0.5, 0.4, 0.05]) == (2, 2)
    assert quietest([0.5, 0.3, 0.4, 0.6], patience_s=30.0) == (1, 3)


def test_a_failure_is_kept_however_noisy() -> None:
    assert quietest([0.5, 0.05], failing=(0,)) == (0, 0)
    assert quietest([0.5, 0.9, 0.05], failing=(1,)) == (1, 1)


@pytest.mark.parametrize(("value", "words"), [(0.0, "0.0%"), (0.004, "0.4%"), (0.21, "21%")])
def test_small_shares_keep_a_digit(value: float, words: str) -> None:
    assert share(value) == words
