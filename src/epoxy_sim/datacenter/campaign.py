"""Campaigns of a datacenter whose nodes share a database."""

from collections.abc import Iterator

from epoxy.model.quorum import QuorumPolicy
from epoxy_sim import history
from epoxy_sim.campaign import CampaignSetup, Tally, counts
from epoxy_sim.datacenter.generate import generate
from epoxy_sim.datacenter.mutants import MUTANTS
from epoxy_sim.datacenter.plan import DatacenterPlan
from epoxy_sim.datacenter.shrink import DatacenterPlanSearch
from epoxy_sim.datacenter.simulation import run
from epoxy_sim.datacenter.trace_format import describe
from epoxy_sim.simulation import Report

KEYS = ("Linearizable", "NotLinearizable", "Undecided")
"""Of what is counted, the verdicts on keys."""


class DatacenterSetup(CampaignSetup[DatacenterPlan], frozen=True, kw_only=True):
    name = "datacenter"
    mutants = MUTANTS
    limit_seeds = 3_000
    """Two minutes on one core. A fault that needs longer is one that the simulator does not find."""

    policy: QuorumPolicy | None = None

    def asked(self) -> dict[str, object]:
        return {"n": self.n, "policy": self.policy and self.policy.value, "mutant": self.mutant}

    def plan(self, seed: int) -> DatacenterPlan:
        return generate(seed, n=self.n, policy=self.policy)

    def run(self, plan: DatacenterPlan, *, tracing: bool = False) -> Report[DatacenterPlan]:
        return run(plan, tracing=tracing)

    def search(self, plan: DatacenterPlan) -> type[DatacenterPlanSearch]:  # noqa: ARG002
        return DatacenterPlanSearch

    def describe(self, plan: DatacenterPlan) -> Iterator[str]:
        return describe(plan)

    def encoded(self, report: Report[DatacenterPlan]) -> bytes:
        return history.encode_lines(report.history) + super().encoded(report)

    def more(self, report: Report[DatacenterPlan]) -> dict[str, object]:
        return {"history": report.history}

    def rows(self, tally: Tally, seconds: float) -> Iterator[tuple[str, str]]:
        judged = tally.verdicts
        yield "virtual time", tally.virtual_time(seconds)
        yield "statements", f"{judged.get('statements', 0):,}; {tally.messages:,} messages"
        yield "operations", f"{tally.operations:,}"
        yield "sessions", f"{judged.get('sessions', 0):,}, of which {judged.get('fenced', 0):,} found themselves fenced"
        yield "shards", f"{judged.get('shards moved', 0):,} changes of owner"
        yield "batches undone", f"{judged.get('batches lost', 0):,}, by crashes of the database"
        yield "changelog", f"{judged.get('changelog rows', 0):,} rows"
        yield "faults", counts(tally.faults)
        yield "keys judged", counts({name: judged[name] for name in KEYS if name in judged})
