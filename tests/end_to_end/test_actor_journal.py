"""The judge of journals, given what it should find and what it should not."""

from pathlib import Path

import pytest

from tests.end_to_end.actor_journal import Journal, Step, overlaps, read

ALONE = [("a", 1, 10), ("a", 1, 10), ("a", 2, 11), ("b", 1, 10)]


def steps(*runs: tuple[str, int, int]) -> list[Step]:
    return [
        Step(at_s=i, pid=pid, actor="room/x", actor_id=actor, generation=generation, what="turn")
        for i, (actor, generation, pid) in enumerate(runs)
    ]


def test_one_run_after_the_other_is_right() -> None:
    assert overlaps(steps(*ALONE)) == []


@pytest.mark.parametrize(
    "more",
    [("a", 2, 11), ("a", 1, 10)],
    ids=["beside the next actor of the name", "beside the next generation"],
)
def test_a_step_after_the_next_run_has_begun_is_found(more: tuple[str, int, int]) -> None:
    assert len(overlaps(steps(*ALONE, more))) == 1


def test_a_generation_that_goes_back_is_found() -> None:
    assert len(overlaps(steps(("a", 2, 10), ("a", 1, 11)))) == 1


def test_a_process_that_stood_still_has_one_step_more() -> None:
    assert overlaps(steps(*ALONE, ("a", 2, 11)), stood_still=[11]) == []
    assert len(overlaps(steps(*ALONE, ("a", 2, 11), ("a", 2, 11)), stood_still=[11])) == 1


def test_a_journal_is_read_in_the_order_of_time(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    assert read(path) == []
    first, second = Journal(path), Journal(path)
    try:
        first.note(actor="room/x", actor_id="a", generation=1, what="begin")
        second.note(actor="room/x", actor_id="a", generation=2, what="begin")
        first.note(actor="room/x", actor_id="a", generation=1, what="end")
    finally:
        first.close()
        second.close()
    noted = read(path)
    assert [(step.generation, step.what) for step in noted] == [(1, "begin"), (2, "begin"), (1, "end")]
    assert len(overlaps(noted)) == 1
