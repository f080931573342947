"""`epoxy sim elect` as its users see it."""

import json

import pytest

from epoxy.cli.main import run
from epoxy_sim.elect.mutants import MUTANTS
from tests.cli.status import status_of


def test_elections_hold(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(["sim", "elect", "--seeds", "0..4", "--jobs", "1"]) == 0
    told = capsys.readouterr().out
    assert told.startswith("elect, seeds 0..4: held\n")
    for label in ("runs", "virtual time", "messages", "writes", "primaries", "faults", "digest"):
        assert f"\n  {label} " in told, label


@pytest.mark.pure("plants faults")
def test_the_original_rules_break_with_a_short_trace(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(["sim", "elect-as-described", "--n", "3", "--jobs", "1"]) == 1
    told = capsys.readouterr().out
    assert "elect-as-described, n = 3" in told
    assert "=> two unfenced primaries" in told
    replay = told.splitlines()[-1].split()
    assert replay[:3] == ["epoxy", "sim", "elect-as-described"]
    assert status_of(replay[1:]) == 1
    assert "VIOLATED" in capsys.readouterr().out


@pytest.mark.pure("plants faults")
def test_a_planted_fault_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["sim", "elect", "--mutant", "5-no-lease", "--jobs", "1", "--json"]
    assert status_of(words) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["shrunk"]["failure"]["rule"] == told["failed"][0]["rule"] == "two unfenced primaries"
    assert told["failed"][0]["replay"].endswith("--mutant 5-no-lease")
    assert told["shrunk"]["plan_in_words"]


def test_a_replay_in_words_and_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(["sim", "elect", "--replay", "3", "--n", "3"]) == 0
    told = capsys.readouterr().out
    assert "all faults end" in told
    assert told.endswith("elect, n = 3, seed 3: held\n")
    assert status_of(["sim", "elect", "--replay", "3", "--n", "3", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["held"] is True


@pytest.mark.pure("plants faults")
def test_the_list_of_planted_faults(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(["sim", "elect-mutants", "--json"]) == 0
    assert [each["mutant"] for each in json.loads(capsys.readouterr().out)] == list(MUTANTS)
    assert status_of(["sim", "elect-mutants", "--check", "8-anyone-may-speak", "--markdown", "--jobs", "1"]) == 0
    told = capsys.readouterr().out
    assert "| 8-anyone-may-speak | no secret is asked for | an epoch without an election |" in told


@pytest.mark.parametrize("words", ["elect --mutant nobody", "elect-mutants nobody"])
def test_a_mutant_that_does_not_exist(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sim", *words.split()]) == 2
    assert "nobody" in capsys.readouterr().err
