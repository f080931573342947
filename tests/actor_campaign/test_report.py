"""What a campaign reports: its figures, and whether all is as it should be."""

import pytest
from msgspec.structs import replace

from tests.actor_campaign.__main__ import SHOWN, Found, parser, text
from tests.actor_campaign.figures import REGION_LIMIT_S, WORKER_LIMIT_S, Away
from tests.actor_campaign.history import Finding, Verdict

AWAY = Away(worker_s=(2.1, WORKER_LIMIT_S), region_s=(6.0, REGION_LIMIT_S), drained_requests=900, drain_failures=())
VERDICT = Verdict(acknowledged=10_000, reads=2_500, unknown=0, forgotten=0, findings=())
RIGHT = Found(
    seed=7,
    seconds=301.2,
    faults={"kill a worker": 3, "kill a region past its lease": 2},
    verdict=VERDICT,
    given_up=0,
    differing=(),
    complaints=(),
    away=AWAY,
)
LOST = Finding(rule="lost", actor="3", words="1.2 is not there")


def test_figures_are_printed() -> None:
    assert RIGHT.is_right
    told = text(RIGHT)
    assert told.startswith("10000 changes acknowledged, 0 lost; 2500 reads; 0 of unknown outcome; 301 s, seed 7\n")
    assert "3 times kill a worker, 2 times kill a region past its lease" in told
    assert "0 of 900 requests failed" in told
    assert "WRONG" not in told
    assert "MISSED" not in told


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (replace(RIGHT, verdict=replace(VERDICT, findings=(LOST,))), "WRONG: lost: actor 3: 1.2 is not there"),
        (replace(RIGHT, given_up=2), "WRONG: 2 changes were never answered"),
        (replace(RIGHT, differing=("5",)), "WRONG: two regions tell different logs of actor 5"),
        (replace(RIGHT, complaints=("w-1 was drained, and did not end",)), "WRONG: w-1 was drained, and did not end"),
        (replace(RIGHT, away=replace(AWAY, worker_s=(4.3,))), "MISSED: away 4.3 s after its worker was killed"),
        (replace(RIGHT, away=replace(AWAY, region_s=(10.2,))), "MISSED: away 10.2 s after its region was killed"),
        (replace(RIGHT, away=replace(AWAY, drain_failures=("x",))), "MISSED: a request failed while it drained: x"),
    ],
    ids=["lost", "given up", "differing", "complaint", "worker", "region", "drain"],
)
def test_what_is_not_as_it_should_be_is_printed(found: Found, words: str) -> None:
    assert not found.is_right
    assert words in text(found).splitlines()


def test_of_very_many_findings_the_first_are_printed() -> None:
    found = replace(RIGHT, verdict=replace(VERDICT, findings=(LOST,) * (SHOWN + 5)))
    assert text(found).count("WRONG: lost") == SHOWN
    assert "WRONG: and 5 more" in text(found)


def test_options_have_the_size_of_the_acceptance_run() -> None:
    options = parser().parse_args([])
    assert (options.changes, options.planted, options.only) == (10_000, None, None)
