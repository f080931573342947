"""What a campaign plays when it plays reads and writes of single keys, with the same members or with changing ones."""

from epoxy.model.quorum import QuorumPolicy
from epoxy_sim import history, protocols
from epoxy_sim.campaign import Tally
from epoxy_sim.keys.generate import generate
from epoxy_sim.keys.mutants import MUTANTS
from epoxy_sim.keys.plan import Plan
from epoxy_sim.keys.simulation import Report, run

AS_DESCRIBED = "as-described"
"""The mutant that replaces a whole protocol; on the command line it is a protocol of its own."""


class Setup(protocols.CampaignSetup[Plan, Report], frozen=True, kw_only=True):
    mutants = MUTANTS

    workload: str
    policy: QuorumPolicy | None = None

    @property
    def protocol(self) -> str:
        return AS_DESCRIBED if self.mutant == AS_DESCRIBED else self.workload

    @property
    def title(self) -> str:
        title = super().title
        return title if self.policy is None else f"{title}, {self.policy.value} quorums"

    def asked(self) -> dict[str, object]:
        return {"n": self.n, "policy": self.policy and self.policy.value, "mutant": self.mutant}

    def plan(self, seed: int) -> Plan:
        return generate(seed, self.workload, n=self.n, policy=self.policy)

    def run(self, plan: Plan, *, tracing: bool = False) -> Report:
        return run(plan, tracing=tracing)

    def tally(self, report: Report) -> Tally:
        return protocols.tally_of(
            report,
            operations=report.operations,
            paths=report.paths,
            faults={**report.faults, "clock-skew": sum(rate != 1.0 for rate in report.plan.skew)},
            verdicts=report.verdicts,
        )

    def facts(self, report: Report) -> tuple[object, ...]:
        return (sorted(report.paths.items()), sorted(report.faults.items()))

    def encoded(self, report: Report) -> bytes:
        """Two runs with the same digest told their clients the same things in the same order, over as many events."""
        return history.encode_lines(report.history) + super().encoded(report)
