"""What a campaign plays when it plays elections."""

from epoxy_sim import protocols
from epoxy_sim.campaign import Tally
from epoxy_sim.elect.generate import generate
from epoxy_sim.elect.mutants import AS_DESCRIBED, MUTANTS
from epoxy_sim.elect.plan import ElectPlan
from epoxy_sim.elect.simulation import ElectReport, run


class ElectSetup(protocols.CampaignSetup[ElectPlan, ElectReport], frozen=True, kw_only=True):
    name = "elect"
    mutants = MUTANTS
    limit_seeds = 3_000
    """Three minutes on one core. A fault that needs longer is one that the simulator does not find."""

    @property
    def protocol(self) -> str:
        return AS_DESCRIBED if self.mutant == AS_DESCRIBED else self.name

    def plan(self, seed: int) -> ElectPlan:
        return generate(seed, n=self.n)

    def run(self, plan: ElectPlan, *, tracing: bool = False) -> ElectReport:
        return run(plan, tracing=tracing)

    def tally(self, report: ElectReport) -> Tally:
        return protocols.tally_of(
            report,
            operations=report.writes,
            paths={"acknowledged": report.acknowledged},
            faults={**report.faults, "clock-drift": sum(rate != 1.0 for rate in report.plan.skew)},
            verdicts={"elections": report.elections, "openings": report.openings},
        )

    def facts(self, report: ElectReport) -> tuple[object, ...]:
        return (report.acknowledged, report.elections, sorted(report.faults.items()))
