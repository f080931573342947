"""The front door: help everywhere, and mistakes in one line."""

import pytest

from epoxy import __compiled__, __version__
from epoxy.cli.main import run
from epoxy_sim.members.mutants import MUTANTS

COMMANDS = ("per-key", "mutable", "as-described", "exhaustive", "soak", "mutants")
CLIENT = ("reserve", "put", "delete", "get", "watch", "status", "doctor", "inspect", "bench")


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"epoxy {__version__} ({'compiled' if __compiled__ else 'interpreted'})\n"


@pytest.mark.parametrize("words", [[], ["sim"], *(["sim", c] for c in COMMANDS), *([c] for c in CLIENT)])
@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_everywhere(words: list[str], flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*words, flag]) == 0
    told = capsys.readouterr().out
    assert told.startswith(f"Usage: {' '.join(['epoxy', *words])}")
    assert f"epoxy {words[0] if words else 'reserve'}" in told.partition("\n")[2], "help without an example"


@pytest.mark.parametrize("words", [[], ["sim"]])
def test_a_bare_group_shows_its_help(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(words) == 2
    assert "Usage: epoxy" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("smi", "unknown command 'smi'. Did you mean sim? There are: "),
        ("sim per-ky", "unknown protocol 'per-ky'. Did you mean per-key?"),
        ("sim paxos", "unknown protocol 'paxos'. There are: exhaustive, exhaustive-folds, exhaustive-members, per-key"),
        ("sim per-key --seeds 5..5", "'5..5' is empty"),
        ("sim per-key --seeds 9..5", "'9..5' is empty"),
        ("sim per-key --seeds -3", "'-3' is no range of seeds. Write A..B"),
        ("sim per-key --seeds 3..", "'3..' is no range of seeds"),
        ("sim per-key --seeds ..3", "'..3' is no range of seeds"),
        ("sim per-key --seeds 1...3", "'1...3' is no range of seeds"),
        ("sim per-key --seeds x", "'x' is no range of seeds"),
        ("sim per-key --n 10", "10 is not in the range 1<=x<=9"),
        ("sim per-key --n 0", "0 is not in the range 1<=x<=9"),
        ("sim per-key --jobs 0", "0 is not in the range"),
        ("sim per-key --minutes 0", "0.0 is not in the range x>0"),
        ("sim per-key --policy optimum", "unknown quorum policy 'optimum'. Did you mean optimal?"),
        ("sim per-key --mutant no-behnd", "unknown mutant 'no-behnd'. Did you mean no-behind?"),
        ("sim per-key --replay -1", "-1 is not in the range"),
        ("sim mutants no-such", "unknown mutant 'no-such'."),
        ("sim exhaustive --n 2 --proposers 3", "3 proposers do not fit on 2 replicas"),
        ("sim as-described --mutant no-behind", "No such option"),
        ("actor get \udcff k", "is not UTF-8"),
        ("actor create room \udcff", "is not UTF-8"),
        ("envoy list --pool \udcff", "is not UTF-8"),
    ],
)
def test_a_mistake_is_one_line_and_status_2(words: str, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(words.split()) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert told in err
    assert err.startswith("epoxy: ")
    assert err.count("\n") == 1


def test_an_unknown_mutant_is_answered_with_all_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    run(["sim", "per-key", "--mutant", "x"])
    assert capsys.readouterr().err.endswith(f"There are: {', '.join(MUTANTS)}\n")
