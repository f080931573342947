"""`epoxy sim ordered` as its users see it."""

import json

import pytest

from epoxy.cli.main import run
from epoxy_sim.txn.batch_mutants import MUTANTS
from tests.cli.status import status_of


def test_transactions_hold(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(["sim", "ordered", "--seeds", "0..6", "--jobs", "1"]) == 0
    told = capsys.readouterr().out
    assert told.startswith("ordered, seeds 0..6: held\n")
    for label in ("runs", "messages", "transactions", "instances", "fast", "faults", "digest"):
        assert f"\n  {label} " in told, label


@pytest.mark.pure("plants faults")
def test_a_planted_fault_is_shown_with_how_to_see_it_again(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(["sim", "ordered", "--mutant", "unequal-is-fast", "--jobs", "1", "--no-shrink"]) == 1
    told = capsys.readouterr().out
    assert "with unequal-is-fast planted" in told
    replay = told.splitlines()[-1].split()
    assert replay[:3] == ["epoxy", "sim", "ordered"]
    assert status_of(replay[1:]) == 1
    assert "=> " in capsys.readouterr().out


def test_one_seed_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(["sim", "ordered", "--replay", "3", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["held"]
    assert told["trace"]


@pytest.mark.pure("plants faults")
def test_mutants_are_listed_and_caught(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(["sim", "ordered-mutants"]) == 0
    told = capsys.readouterr().out
    assert all(name in told for name in MUTANTS)
    assert status_of(["sim", "ordered-mutants", "--check", "--markdown", "--jobs", "1", "seq-ties"]) == 0
    assert "| seq-ties |" in capsys.readouterr().out
    assert run(["sim", "ordered-mutants", "nonsense"]) != 0
