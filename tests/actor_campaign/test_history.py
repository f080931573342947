"""The judge of campaigns, given a right history and one with each fault."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from tests.actor_campaign.history import KEPT_KEYS, Attempt, Line, Told, judge


def line(change: str, fence: int = 1, process: str = "w1") -> Line:
    return Line(change=change, fence=fence, process=process)


def told(length: int, last: str, fence: int = 1, process: str = "w1") -> Told:
    return Told(length=length, last=last, fence=fence, process=process)


def asked(began_s: float, change: str, answer: Told | None, *, definite: bool = False) -> Attempt:
    ended_s = began_s + 0.5
    return Attempt(actor="a", change=change, began_s=began_s, ended_s=ended_s, told=answer, definite=definite)


LOG = [line("x"), line("y"), line("z", 2, "w2")]
RIGHT = [
    asked(1, "x", told(1, "x")),
    asked(2, "", told(1, "x")),
    asked(3, "y", None),
    asked(4, "y", told(2, "y")),
    asked(5, "z", None, definite=True),
    asked(6, "z", None),
    asked(7, "", told(3, "z", 2, "w2")),
    asked(8, "q", None, definite=True),
]


def rules(attempts: Sequence[Attempt], log: Sequence[Line]) -> set[str]:
    return {finding.rule for finding in judge(attempts, {"a": log}).findings}


def test_a_right_history_is_right() -> None:
    verdict = judge(RIGHT, {"a": LOG})
    assert verdict.findings == ()
    assert (verdict.acknowledged, verdict.reads, verdict.unknown, verdict.forgotten) == (2, 2, 1, 0)


@pytest.mark.parametrize(
    ("log", "rule"),
    [
        ([line("y"), line("z", 2, "w2")], "lost"),
        ([], "lost"),
        ([*LOG, line("y", 2, "w2")], "doubled"),
        ([LOG[1], LOG[0], LOG[2]], "misplaced"),
        ([*LOG, line("q", 2, "w2")], "invented"),
        ([*LOG, line("never asked", 2, "w2")], "invented"),
        ([LOG[0], line("y", 3, "w3"), LOG[2]], "fence falls"),
        ([LOG[0], line("y", 1, "w2"), LOG[2]], "two writers"),
    ],
    ids=["lost", "all lost", "doubled", "reordered", "a definite failure", "invented", "fence falls", "two writers"],
)
def test_a_log_that_is_not_what_was_acknowledged_is_found(log: list[Line], rule: str) -> None:
    assert rule in rules(RIGHT, log)


@pytest.mark.parametrize(
    ("attempt", "rule"),
    [
        (asked(9, "", told(2, "y")), "goes back"),
        (asked(9, "", told(3, "y", 2, "w2")), "misplaced"),
        (asked(9, "", told(4, "w", 2, "w2")), "misplaced"),
        (asked(9, "y", told(3, "z", 2, "w2")), "misplaced"),
        (asked(9, "", told(3, "z", 2, "w1")), "two writers"),
    ],
    ids=["an old state", "another last line", "a longer log", "an answer of another change", "a zombie's answer"],
)
def test_an_answer_that_cannot_be_is_found(attempt: Attempt, rule: str) -> None:
    assert rule in rules([*RIGHT, attempt], LOG)


def test_a_kept_answer_is_as_old_as_its_change() -> None:
    """Asked again after others, it still tells of the log as it was then."""
    assert rules([*RIGHT, asked(9, "y", told(2, "y"))], LOG) == set()


def test_answers_to_requests_at_the_same_time_come_in_any_order() -> None:
    late = replace(asked(6.5, "", told(2, "y")), ended_s=9.0)
    assert rules([*RIGHT, late], LOG) == set()


def test_a_change_that_comes_again_after_its_key_was_forgotten_is_counted_alone() -> None:
    changes = [f"c{i}" for i in range(KEPT_KEYS + 1)]
    log = [*map(line, changes), line("c0")]
    attempts = [asked(i, change, None) for i, change in enumerate(changes)]
    verdict = judge(attempts, {"a": log})
    assert (verdict.forgotten, verdict.findings) == (1, ())
    assert rules(attempts, [*log[:-1], line("c1")]) == {"doubled"}
