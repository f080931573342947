"""Options of the simulator: ranges of seeds, mutants and policies, checked before anything starts."""

import click
import pytest

from epoxy.cli.sim import parameters
from epoxy.cli.sim.parameters import MutantName, Policy, SeedRange
from epoxy.model.quorum import QuorumPolicy


@pytest.mark.parametrize(("text", "seeds"), [("3..7", range(3, 7)), ("5", range(5, 6)), ("0..1", range(1))])
def test_ranges_of_seeds(text: str, seeds: range) -> None:
    assert SeedRange().convert(text, None, None) == seeds
    assert SeedRange().convert(seeds, None, None) == seeds


@pytest.mark.parametrize(("text", "told"), [("7..7", "is empty"), ("a", "is no range"), ("1..", "is no range")])
def test_no_ranges_of_seeds(text: str, told: str) -> None:
    with pytest.raises(click.BadParameter, match=told):
        SeedRange().convert(text, None, None)


def test_policies_by_name() -> None:
    assert Policy().convert("fast-paxos", None, None) is QuorumPolicy.FAST_PAXOS
    with pytest.raises(click.UsageError, match="unknown quorum policy 'fast'"):
        Policy().convert("fast", None, None)


def test_no_fault_is_planted_in_compiled_code(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(click.UsageError, match="unknown mutant 'x'"):
        MutantName({}).convert("x")
    monkeypatch.setattr(parameters, "__compiled__", True)
    with pytest.raises(click.ClickException, match="set EPOXY_PURE=1"):
        parameters.check_plantable()
