"""A soak goes on where it ended, and says so when it cannot."""

import json
from pathlib import Path

import pytest

from epoxy_sim import soak
from epoxy_sim.campaign import FailedRun
from epoxy_sim.members.mutants import MUTANTS
from epoxy_sim.patching import planted
from epoxy_sim.soak import CHUNK, LANES, BadSummary, Soak, SoakSummary, lane_name, load, save


def soak_for(path: Path, chunks: int) -> SoakSummary:
    """A soak that is interrupted after so many chunks."""
    left = chunks

    def interrupt(_: SoakSummary) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise KeyboardInterrupt

    return Soak(path, jobs=1, minutes=None, listener=interrupt).run()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "summary.json"


@pytest.fixture(autouse=True)
def few_small_lanes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(soak, "LANES", [lane for lane in LANES if lane.n == 1])


def test_lanes_cover_every_workload_size_and_policy() -> None:
    assert len(LANES) == 3 * 9 * 2 + 2 + 2, "three workloads, nine sizes, both policies; and changing members, twice"
    assert len({lane_name(lane) for lane in LANES}) == len(LANES)


def test_lanes_take_turns(path: Path) -> None:
    summary = soak_for(path, 8)
    assert sorted(summary.next_seeds.values()) == [CHUNK] * 4 + [2 * CHUNK] * 2
    assert summary.tally.runs == 8 * CHUNK
    assert summary.held


def test_a_soak_resumes_with_new_seeds(path: Path) -> None:
    first = soak_for(path, 3)
    assert load(path) == first
    second = soak_for(path, 2)
    assert second.tally.runs == 5 * CHUNK == sum(second.next_seeds.values())
    assert second.real_seconds > first.real_seconds
    assert load(path) == second


def test_the_lane_farthest_behind_comes_first(path: Path) -> None:
    soak_for(path, 3)
    assert sorted(soak_for(path, 1).next_seeds.values()) == [CHUNK] * 4


def test_minutes_end_a_soak(path: Path) -> None:
    summary = Soak(path, jobs=1, minutes=1e-9, listener=lambda _: None).run()
    assert load(path) == summary


def test_failures_are_kept_up_to_a_limit(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(soak, "LANES", [lane for lane in LANES if lane.n == 3 and lane.workload == "per-key"])
    monkeypatch.setattr(soak, "MAX_FAILURES", 3)
    with planted(MUTANTS, "two-fast-votes"):
        summary = soak_for(path, 2)
    assert not summary.held
    assert summary.tally.failures > 3
    assert len(summary.failed) == 3
    assert summary.failed[0].replay.startswith("epoxy sim per-key --replay 0 --n 3 --policy ")
    later = soak_for(path, 1)
    assert later.failed == summary.failed, "what was found once is not forgotten"
    assert not later.held


def test_a_summary_of_another_format_is_refused(path: Path) -> None:
    path.write_text(json.dumps({"format": 2, "whatever": True}))
    with pytest.raises(BadSummary, match="format 2, this version writes 1"):
        load(path)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"format": 1, "tally": 3}'])
def test_something_else_is_refused(path: Path, text: str) -> None:
    path.write_text(text)
    with pytest.raises(BadSummary, match="no soak summary"):
        load(path)
    assert path.read_text() == text


def test_saving_leaves_one_whole_file(path: Path) -> None:
    summary = SoakSummary(failed=[FailedRun(seed=1, rule="r", detail="d", replay="x")], next_seeds={"a": 3})
    path.write_text("old")
    save(summary, path)
    assert load(path) == summary
    assert [found.name for found in path.parent.iterdir()] == [path.name]


def test_a_place_that_cannot_be_written_is_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(BadSummary, match="cannot be written"):
        soak_for(tmp_path / "missing" / "summary.json", 1)
