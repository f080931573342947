"""Campaigns of actors and their placement."""

from collections.abc import Iterator

from epoxy_sim.campaign import CampaignSetup, Tally, counts
from epoxy_sim.placement.generate import generate
from epoxy_sim.placement.plan import PlacementPlan
from epoxy_sim.placement.shrink import PlacementPlanSearch
from epoxy_sim.placement.simulation import run
from epoxy_sim.placement.state_mutants import MUTANTS
from epoxy_sim.placement.trace_format import condense, describe
from epoxy_sim.simulation import Report


class PlacementSetup(CampaignSetup[PlacementPlan], frozen=True, kw_only=True):
    name = "placement"
    mutants = MUTANTS
    limit_seeds = 2_000
    """Two minutes on one core. A fault that needs longer is one that the simulator does not find."""

    def plan(self, seed: int) -> PlacementPlan:
        return generate(seed, n=self.n)

    def run(self, plan: PlacementPlan, *, tracing: bool = False) -> Report[PlacementPlan]:
        return run(plan, tracing=tracing)

    def search(self, plan: PlacementPlan) -> type[PlacementPlanSearch]:  # noqa: ARG002
        return PlacementPlanSearch

    def describe(self, plan: PlacementPlan) -> Iterator[str]:
        return describe(plan)

    def is_embedded(self, plan: PlacementPlan) -> bool:
        return plan.sites.embedded

    def condense(self, trace: list[str]) -> list[str]:
        return condense(trace)

    def rows(self, tally: Tally, seconds: float) -> Iterator[tuple[str, str]]:
        yield "virtual time", tally.virtual_time(seconds)
        yield "messages", f"{tally.messages:,}"
        yield "answers", counts(tally.paths)
        yield "judged", counts(tally.verdicts)
        yield "faults", counts(tally.faults)
        yield "embedded store", f"in {tally.embedded:,} of {tally.runs:,} runs"
