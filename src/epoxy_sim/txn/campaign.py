"""Campaigns of transactions."""

from collections.abc import Iterator

from epoxy_sim.campaign import CampaignSetup, Tally, counts
from epoxy_sim.search import Search
from epoxy_sim.simulation import Report
from epoxy_sim.txn.batch_mutants import MUTANTS
from epoxy_sim.txn.generate import generate
from epoxy_sim.txn.plan import AnyPlan, TxnPlan, WalkPlan
from epoxy_sim.txn.shrink import TxnPlanSearch, WalkSearch
from epoxy_sim.txn.simulation import run
from epoxy_sim.txn.trace_format import describe


class TxnSetup(CampaignSetup[AnyPlan], frozen=True, kw_only=True):
    name = "ordered"
    mutants = MUTANTS
    limit_seeds = 3_000
    """Three minutes on one core. A fault that needs longer is one that the simulator does not find."""

    def plan(self, seed: int) -> AnyPlan:
        return generate(seed, n=self.n)

    def run(self, plan: AnyPlan, *, tracing: bool = False) -> Report[AnyPlan]:
        return run(plan, tracing=tracing)

    def search(self, plan: AnyPlan) -> type[Search[AnyPlan]]:
        return WalkSearch if isinstance(plan, WalkPlan) else TxnPlanSearch

    def describe(self, plan: AnyPlan) -> Iterator[str]:
        return describe(plan)

    def is_embedded(self, plan: AnyPlan) -> bool:
        return isinstance(plan, TxnPlan) and plan.embedded

    def facts(self, report: Report[AnyPlan]) -> tuple[object, ...]:
        return *super().facts(report), sorted(report.verdicts.items())

    def rows(self, tally: Tally, seconds: float) -> Iterator[tuple[str, str]]:  # noqa: ARG002
        """Without virtual time: half of the runs have none."""
        yield "messages", f"{tally.messages:,}"
        answered = tally.verdicts.get("answered", 0)
        yield "transactions", f"{tally.operations:,} asked for, {answered:,} answered in virtual time"
        decided, nothing = tally.verdicts.get("decided", 0), tally.verdicts.get("nothing", 0)
        yield "instances", f"{decided:,} decided, {nothing:,} to be nothing"
        if tally.fast_share is not None:
            yield "fast", f"{tally.fast_share:.0%} of those decided by their coordinators"
        yield "faults", counts(tally.faults)
        yield "embedded store", f"in {tally.embedded:,} of {tally.runs:,} runs"
