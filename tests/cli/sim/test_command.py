"""`epoxy sim` as its users see it: status, words, JSON."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from epoxy.cli.main import run
from epoxy.cli.progress import ProgressBar
from epoxy_sim.members.mutants import MUTANTS
from tests.cli.status import status_of

FAULTY = ["sim", "per-key", "--mutant", "two-fast-votes", "--jobs", "1"]


def document(words: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, Any]:
    status = status_of([*words, "--json"])
    return status, json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("protocol", ["per-key", "mutable"])
def test_the_protocol_holds(protocol: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(["sim", protocol, "--seeds", "0..6", "--jobs", "1"]) == 0
    told = capsys.readouterr().out
    assert told.startswith(f"{protocol}, seeds 0..6: held\n")
    for label in ("runs", "virtual time", "messages", "operations", "committed writes", "faults", "keys judged"):
        assert f"\n  {label} " in told, label


def test_words_and_json_say_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["sim", "mutable", "--seeds", "3..8", "--jobs", "1", "--n", "3", "--policy", "optimal"]
    status, told = document(words, capsys)
    assert (status, told["held"], told["first_seed"], told["runs"]) == (0, True, 3, 5)
    assert (told["protocol"], told["n"], told["policy"], told["mutant"]) == ("mutable", 3, "optimal", None)
    assert status_of(words) == 0
    text = capsys.readouterr().out
    assert f"{told['messages']:,}" in text
    assert told["digest"] in text
    assert f"fast share {told['fast_share']:.1%}" in text


def test_one_number_is_one_seed(capsys: pytest.CaptureFixture[str]) -> None:
    _, told = document(["sim", "per-key", "--seeds", "17", "--jobs", "1"], capsys)
    assert (told["first_seed"], told["runs"]) == (17, 1)


@pytest.mark.pure("plants faults")
def test_a_violation_is_told_with_a_short_trace_and_a_replay(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(FAULTY) == 1
    told = capsys.readouterr().out
    assert "VIOLATED" in told
    assert "breaks the rule: second vote" in told
    assert "A smallest plan that breaks the same rule" in told
    assert "asks A" in told
    replay = told.splitlines()[-1].split()
    assert replay[:4] == ["epoxy", "sim", "per-key", "--replay"]
    assert status_of(replay[1:]) == 1
    assert "=> second vote" in capsys.readouterr().out


@pytest.mark.pure("plants faults")
def test_a_violation_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    status, told = document(FAULTY, capsys)
    assert (status, told["held"], told["failures"]) == (1, False, 1)
    failed, shrunk = told["failed"][0], told["shrunk"]
    assert shrunk["failure"]["rule"] == failed["rule"] == "second vote"
    assert failed["replay"] == f"epoxy sim per-key --replay {failed['seed']} --mutant two-fast-votes"
    assert shrunk["trace"]
    assert shrunk["plan"]["n"] <= 3


@pytest.mark.pure("plants faults")
def test_without_shrinking(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of([*FAULTY, "--no-shrink"]) == 1
    told = capsys.readouterr().out
    assert "smallest plan" not in told
    assert "epoxy sim per-key --replay" in told


def test_a_replay_shows_everything(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(["sim", "mutable", "--replay", "4", "--n", "3"]) == 0
    told = capsys.readouterr().out
    assert "3 replicas on a line (A at" in told
    assert "all faults end" in told
    assert told.endswith("mutable, n = 3, seed 4: held\n")


@pytest.mark.pure("plants faults")
def test_a_replay_may_be_shrunk(capsys: pytest.CaptureFixture[str]) -> None:
    status, told = document(["sim", "per-key", "--replay", "0", "--mutant", "two-fast-votes", "--shrink"], capsys)
    assert status == 1
    assert len(told["shrunk"]["trace"]) < len(told["trace"])


def test_an_interrupt_tells_what_is_known(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: ProgressBar, done: int, __: str) -> None:
        if done >= 8:
            raise KeyboardInterrupt

    monkeypatch.setattr(ProgressBar, "tell", interrupt)
    assert status_of(["sim", "per-key", "--seeds", "0..1000", "--jobs", "1"]) == 130
    assert "interrupted, 16 runs from seed 0: held" in capsys.readouterr().out


def played_elsewhere(words: list[str], hash_seed: str) -> str:
    """In a process of its own, whose sets and dicts of strings are laid out differently."""
    done = subprocess.run(
        [sys.executable, "-m", "epoxy", *words],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("words", ["sim mutable --replay 5 --json", "sim per-key --replay 7 --json"])
def test_a_run_is_a_function_of_its_seed_alone(words: str) -> None:
    """Trace, history and digest to the last byte."""
    told = {played_elsewhere(words.split(), hash_seed) for hash_seed in ("0", "1", "4711")}
    assert len(told) == 1


def test_the_number_of_processes_changes_nothing() -> None:
    def numbers(jobs: int) -> dict[str, Any]:
        told: dict[str, Any] = json.loads(
            played_elsewhere(["sim", "mutable", "--seeds", "0..12", "--json", "--jobs", str(jobs)], str(jobs))
        )
        return {name: told[name] for name in told if name not in ("real_seconds", "virtual_hours_per_real_minute")}

    assert numbers(1) == numbers(2) == numbers(3)


def test_every_state(capsys: pytest.CaptureFixture[str]) -> None:
    status, told = document(["sim", "exhaustive", "--proposers", "2", "--recoveries", "1"], capsys)
    assert (status, told["held"], told["exploration"]["complete"]) == (0, True, True)
    assert status_of(["sim", "exhaustive", "--proposers", "2", "--recoveries", "1"]) == 0
    assert f"{told['exploration']['states']:,}" in capsys.readouterr().out


def test_every_state_with_folds(capsys: pytest.CaptureFixture[str]) -> None:
    status, told = document(["sim", "exhaustive-folds", "--world", "2"], capsys)
    assert (status, told["held"], told["exploration"]["states"]) == (0, True, 1_235)
    assert status_of(["sim", "exhaustive-folds", "--world", "2"]) == 0
    assert "1,235" in capsys.readouterr().out


@pytest.mark.pure("plants faults")
def test_every_state_until_one_is_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(["sim", "exhaustive", "--mutant", "no-commit-guard"]) == 1
    told = capsys.readouterr().out
    assert "VIOLATED" in told
    assert "=> two values decided" in told


def test_the_list_of_mutants(capsys: pytest.CaptureFixture[str]) -> None:
    status, told = document(["sim", "mutants"], capsys)
    assert status == 0
    assert [each["mutant"] for each in told] == list(MUTANTS)
    assert status_of(["sim", "mutants", "--markdown"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "| mutant | what it breaks | workload |"
    assert len(lines) == len(MUTANTS) + 2


@pytest.mark.pure("plants faults")
def test_a_mutant_is_caught(capsys: pytest.CaptureFixture[str]) -> None:
    status, told = document(["sim", "mutants", "--check", "two-fast-votes", "--jobs", "1"], capsys)
    assert status == 0
    assert [(each["mutant"], each["rule"]) for each in told] == [("two-fast-votes", "second vote")]


def test_a_soak_keeps_its_summary(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "soak.json"
    words = ["sim", "soak", "--minutes", "0.001", "--summary", str(path), "--jobs", "1"]
    status, told = document(words, capsys)
    assert (status, told["held"]) == (0, True)
    assert told["runs"] == json.loads(path.read_text())["tally"]["runs"] > 0
    assert status_of(words) == 0
    assert "soak: held" in capsys.readouterr().out
    path.write_text('{"format": 99}')
    assert run(words) == 2
    assert "format 99" in capsys.readouterr().err
