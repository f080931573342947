"""Campaigns of elections."""

from collections.abc import Iterator

from epoxy_sim.campaign import CampaignSetup, Tally, counts
from epoxy_sim.elect.generate import generate
from epoxy_sim.elect.mutants import AS_DESCRIBED, MUTANTS
from epoxy_sim.elect.plan import ElectPlan
from epoxy_sim.elect.shrink import ElectPlanSearch
from epoxy_sim.elect.simulation import run
from epoxy_sim.elect.trace_format import condense, describe
from epoxy_sim.simulation import Report


class ElectSetup(CampaignSetup[ElectPlan], frozen=True, kw_only=True):
    name = "elect"
    mutants = MUTANTS
    limit_seeds = 3_000
    """Three minutes on one core. A fault that needs longer is one that the simulator does not find."""

    @property
    def protocol(self) -> str:
        return AS_DESCRIBED if self.mutant == AS_DESCRIBED else self.name

    def plan(self, seed: int) -> ElectPlan:
        return generate(seed, n=self.n)

    def run(self, plan: ElectPlan, *, tracing: bool = False) -> Report[ElectPlan]:
        return run(plan, tracing=tracing)

    def search(self, plan: ElectPlan) -> type[ElectPlanSearch]:  # noqa: ARG002
        return ElectPlanSearch

    def describe(self, plan: ElectPlan) -> Iterator[str]:
        return describe(plan)

    def condense(self, trace: list[str]) -> list[str]:
        return condense(trace)

    def faults(self, report: Report[ElectPlan]) -> dict[str, int]:
        return {**report.faults, "clock-drift": sum(rate != 1.0 for rate in report.plan.skew)}

    def facts(self, report: Report[ElectPlan]) -> tuple[object, ...]:
        return report.paths["acknowledged"], report.verdicts["elections"], sorted(report.faults.items())

    def rows(self, tally: Tally, seconds: float) -> Iterator[tuple[str, str]]:
        yield "virtual time", tally.virtual_time(seconds)
        yield "messages", f"{tally.messages:,}"
        yield "writes", f"{tally.operations:,} tried, {tally.paths.get('acknowledged', 0):,} acknowledged"
        elected, opened = tally.verdicts.get("elections", 0), tally.verdicts.get("openings", 0)
        yield "primaries", f"{elected:,} elected, {opened:,} opened"
        yield "faults", counts(tally.faults)
