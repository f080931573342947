"""What a campaign plays when it plays placement."""

from epoxy_sim import protocols
from epoxy_sim.campaign import Tally
from epoxy_sim.placement.generate import generate
from epoxy_sim.placement.mutants import MUTANTS
from epoxy_sim.placement.plan import PlacementPlan
from epoxy_sim.placement.simulation import PlacementReport, run


class PlacementSetup(protocols.CampaignSetup[PlacementPlan, PlacementReport], frozen=True, kw_only=True):
    name = "placement"
    mutants = MUTANTS
    limit_seeds = 2_000
    """Two minutes on one core. A fault that needs longer is one that the simulator does not find."""

    def plan(self, seed: int) -> PlacementPlan:
        return generate(seed, n=self.n)

    def run(self, plan: PlacementPlan, *, tracing: bool = False) -> PlacementReport:
        return run(plan, tracing=tracing)

    def tally(self, report: PlacementReport) -> Tally:
        return protocols.tally_of(report, operations=sum(report.answers.values()), paths=report.answers)

    def facts(self, report: PlacementReport) -> tuple[object, ...]:
        return tuple(sorted(counts.items()) for counts in (report.answers, report.faults))
