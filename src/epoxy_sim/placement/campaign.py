"""What a campaign plays when it plays placement."""

from epoxy_sim import protocols
from epoxy_sim.campaign import Tally
from epoxy_sim.placement.generate import generate
from epoxy_sim.placement.mutants import MUTANTS
from epoxy_sim.placement.plan import Plan
from epoxy_sim.placement.simulation import Report, run


class Setup(protocols.Setup[Plan, Report], frozen=True, kw_only=True):
    name = "placement"
    mutants = MUTANTS
    limit_seeds = 2_000
    """Two minutes on one core. A fault that needs longer is one that the simulator does not find."""

    def plan(self, seed: int) -> Plan:
        return generate(seed, n=self.n)

    def run(self, plan: Plan, *, tracing: bool = False) -> Report:
        return run(plan, tracing=tracing)

    def tally(self, report: Report) -> Tally:
        return protocols.tally_of(report, operations=sum(report.answers.values()), paths=report.answers)

    def facts(self, report: Report) -> tuple[object, ...]:
        return tuple(sorted(counts.items()) for counts in (report.answers, report.faults))
