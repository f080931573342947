"""Mutation testing: every planted fault is run until a checker catches it."""

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from epoxy_sim.campaign import Campaign, CampaignSetup


class FaultCatch(Struct, frozen=True, kw_only=True):
    """How a planted fault was caught. No rule: it survived. `tried`: runs of the simulator until then."""

    mutant: str
    breaks: str
    tried: int
    seed: int | None = None
    rule: str | None = None
    replay: str | None = None


def chase(setup: CampaignSetup[Any], *, jobs: int = 1, limit_seeds: int | None = None) -> FaultCatch:
    """The first seed at which the mutant of this setup is caught."""
    assert setup.mutant is not None
    mutant = setup.mutants[setup.mutant]
    end = mutant.since + (setup.limit_seeds if limit_seeds is None else limit_seeds)
    summary = Campaign(setup, mutant.since, end, jobs=jobs).run()
    if summary.interrupted:
        raise KeyboardInterrupt
    catch = FaultCatch(mutant=mutant.name, breaks=mutant.breaks, tried=summary.tally.runs)
    if not summary.failed:
        return catch
    first = summary.failed[0]
    return replace(catch, seed=first.seed, rule=first.rule, replay=first.replay)
