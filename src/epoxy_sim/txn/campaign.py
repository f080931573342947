"""What a campaign plays when it plays transactions."""

from epoxy_sim import protocols
from epoxy_sim.campaign import Tally
from epoxy_sim.txn.generate import generate
from epoxy_sim.txn.mutants import MUTANTS
from epoxy_sim.txn.plan import AnyPlan
from epoxy_sim.txn.simulation import TxnReport, run


class TxnSetup(protocols.CampaignSetup[AnyPlan, TxnReport], frozen=True, kw_only=True):
    name = "ordered"
    mutants = MUTANTS
    limit_seeds = 3_000
    """Three minutes on one core. A fault that needs longer is one that the simulator does not find."""

    def plan(self, seed: int) -> AnyPlan:
        return generate(seed, n=self.n)

    def run(self, plan: AnyPlan, *, tracing: bool = False) -> TxnReport:
        return run(plan, tracing=tracing)

    def tally(self, report: TxnReport) -> Tally:
        return protocols.tally_of(report, operations=report.operations, paths=report.paths, verdicts=report.verdicts)

    def facts(self, report: TxnReport) -> tuple[object, ...]:
        return tuple(sorted(counts.items()) for counts in (report.paths, report.faults, report.verdicts))
