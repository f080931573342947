"""Campaigns of leases."""

from collections.abc import Iterator

from epoxy.model.quorum import QuorumPolicy
from epoxy_sim import history
from epoxy_sim.campaign import CampaignSetup, Tally, counts
from epoxy_sim.leases.generate import generate
from epoxy_sim.leases.mutants import MUTANTS
from epoxy_sim.leases.plan import LeasePlan
from epoxy_sim.leases.shrink import LeasePlanSearch
from epoxy_sim.leases.simulation import run
from epoxy_sim.leases.trace_format import describe
from epoxy_sim.simulation import Report

KEYS = ("Linearizable", "NotLinearizable", "Undecided")
"""Of what is counted, the verdicts on keys."""


class LeaseSetup(CampaignSetup[LeasePlan], frozen=True, kw_only=True):
    name = "leases"
    mutants = MUTANTS
    limit_seeds = 2_000
    """Three minutes on one core. A fault that needs longer is one that the simulator does not find."""

    policy: QuorumPolicy | None = None

    def asked(self) -> dict[str, object]:
        return {"n": self.n, "policy": self.policy and self.policy.value, "mutant": self.mutant}

    def plan(self, seed: int) -> LeasePlan:
        return generate(seed, n=self.n, policy=self.policy)

    def run(self, plan: LeasePlan, *, tracing: bool = False) -> Report[LeasePlan]:
        return run(plan, tracing=tracing)

    def search(self, plan: LeasePlan) -> type[LeasePlanSearch]:  # noqa: ARG002
        return LeasePlanSearch

    def describe(self, plan: LeasePlan) -> Iterator[str]:
        return describe(plan)

    def is_embedded(self, plan: LeasePlan) -> bool:
        return plan.embedded

    def encoded(self, report: Report[LeasePlan]) -> bytes:
        return history.encode_lines(report.history) + super().encoded(report)

    def more(self, report: Report[LeasePlan]) -> dict[str, object]:
        return {"history": report.history}

    def rows(self, tally: Tally, seconds: float) -> Iterator[tuple[str, str]]:
        yield "virtual time", tally.virtual_time(seconds)
        yield "messages", f"{tally.messages:,}"
        yield "operations", f"{tally.operations:,}"
        judged = tally.verdicts
        yield "holders", f"{judged.get('holders', 0):,}; {judged.get('fenced', 0):,} late uses refused by their token"
        yield "ends", f"{judged.get('ends', 0):,} values ended"
        yield "faults", counts(tally.faults)
        yield "embedded store", f"in {tally.embedded:,} of {tally.runs:,} runs"
        yield "keys judged", counts({name: judged[name] for name in KEYS if name in judged})
