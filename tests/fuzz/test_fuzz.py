"""Every fuzzer's run in CI, and the harness itself."""

import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

from tests.fuzz.hand_loop import NeverAtRest, hand_loop
from tests.fuzz.harness import BYTE_MUTATIONS, MAX_INPUT_BYTES, PROBE_EVERY, Finding, cut, fuzz, mutate
from tests.fuzz.planted import CI_INPUTS
from tests.fuzz.targets import TARGETS

ROOT = Path(__file__).resolve().parents[2]
LEAST_SHARE = 0.01
"""Of the inputs, for every outcome that is listed: a fuzzer whose inputs all end alike reaches nothing."""


@pytest.mark.parametrize("name", TARGETS)
def test_nothing_is_found(name: str) -> None:
    with TARGETS[name]() as target:
        verdicts = fuzz(target, CI_INPUTS, seed=15)
    assert verdicts.total() == CI_INPUTS
    assert len(verdicts) >= 3, verdicts
    common = [word for word, count in verdicts.items() if count >= LEAST_SHARE * CI_INPUTS]
    assert len(common) >= 3, verdicts


class Letters:
    """Finds an `!`, and counts what it is given."""

    name = "letters"
    tokens: Sequence[bytes] = (b"!",)

    def __init__(self) -> None:
        self.probes = 0
        self.inputs: list[bytes] = []

    def conversation(self, dice: Random) -> list[bytes]:
        return [b"a" * dice.randint(1, 9), b"b", b"c12"]

    def judge(self, pieces: Sequence[bytes], dice: Random) -> str:
        del dice
        data = b"".join(pieces)
        if data.endswith(b"!!"):
            raise Finding("two of them")
        self.inputs.append(data)
        return "long" if len(data) > 20 else "short"

    def probe(self) -> None:
        self.probes += 1


def test_a_run_is_a_function_of_its_seed_and_ends_with_a_finding() -> None:
    first, again, other = Letters(), Letters(), Letters()
    assert fuzz(first, 120, seed=1) == fuzz(again, 120, seed=1)
    fuzz(other, 120, seed=2)
    assert first.inputs == again.inputs
    assert first.inputs != other.inputs
    assert first.probes == 120 // PROBE_EVERY + 1
    with pytest.raises(Finding, match=r"letters, input \d+ of seed 3: two of them"):
        fuzz(Letters(), 100_000, seed=3)


def test_mutations_change_something_and_cuts_lose_nothing() -> None:
    dice = Random(3)
    for mutation in BYTE_MUTATIONS:
        assert any(mutation(dice, b"length 40 of it", [b"token"]) != b"length 40 of it" for _ in range(20)), mutation
    target = Letters()
    seen = Counter(mutate(dice, target) for _ in range(500))
    assert len(seen) > 300
    assert max(map(len, seen)) <= MAX_INPUT_BYTES
    for _ in range(500):
        data = dice.randbytes(dice.randrange(700))
        assert b"".join(cut(dice, data)) == data


def test_the_loop_passes_time_when_told_and_notices_what_never_rests() -> None:
    told: list[float] = []
    with hand_loop() as loop:
        loop.call_later(5, lambda: told.append(loop.time()))
        loop.call_later(2, lambda: loop.call_later(2, lambda: told.append(loop.time())))
        loop.wait(3)
        assert told == []
        loop.wait(3)
        assert told == [1004.0, 1005.0]
        loop.call_soon(lambda: 1 // 0)
        loop.settle()
        assert isinstance(loop.unheard[0]["exception"], ZeroDivisionError)

        def again() -> None:
            loop.call_soon(again)

        again()
        with pytest.raises(NeverAtRest):
            loop.settle()


def test_the_command_reports_and_exits() -> None:
    command = [sys.executable, "-m", "tests.fuzz", "resp", "--inputs", "300", "--seed", "5"]
    run = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert run.returncode == 0, run.stderr
    assert "replay: python -m tests.fuzz resp --inputs 300 --seed 5" in run.stdout
    assert "resp: 300 inputs" in run.stdout
