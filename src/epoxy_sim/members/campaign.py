"""Campaigns on single keys, with the same members throughout (per-key, mutable), with changing ones
(membership), with many clients on few keys (hot), and with disks that rot meanwhile (rot)."""

from collections.abc import Iterator

from msgspec.structs import replace

from epoxy.model.quorum import QuorumPolicy
from epoxy_sim import history
from epoxy_sim.campaign import CampaignSetup, Tally, counts
from epoxy_sim.keys import generate as keys_generate
from epoxy_sim.keys.mutants import AS_DESCRIBED
from epoxy_sim.keys.plan import FaultKind, Plan, has_embedded_store
from epoxy_sim.keys.shrink import PlanSearch
from epoxy_sim.keys.trace_format import describe
from epoxy_sim.members.generate import generate
from epoxy_sim.members.mutants import MEMBERSHIP, MUTANTS, ROT
from epoxy_sim.members.plans.hot_changes import has_changes, hot_changes
from epoxy_sim.members.plans.rot import rot
from epoxy_sim.members.simulation import run
from epoxy_sim.simulation import Report

INCIDENTS = ("lost", "duplicated", "delayed")
"""Counted beside the faults, shown beside the messages."""

ENDINGS = [kind.value for kind in (FaultKind.RESTART, FaultKind.HEAL, FaultKind.RESUME, FaultKind.FAST_DISK)]
"""The ends of faults, which a summary leaves out."""


class Setup(CampaignSetup[Plan], frozen=True, kw_only=True):
    mutants = MUTANTS
    limit_seeds = 5_000
    """A minute. A fault that needs longer than that is one that the simulator does not find."""

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
        if self.workload == MEMBERSHIP:
            return generate(seed, self.policy)
        if self.workload == ROT:
            return replace(rot(seed, self.policy), embedded=has_embedded_store(seed))
        if self.workload == keys_generate.HOT and self.n is None and has_changes(seed):
            return replace(hot_changes(seed, self.policy), embedded=has_embedded_store(seed))
        return keys_generate.generate(seed, self.workload, n=self.n, policy=self.policy)

    def run(self, plan: Plan, *, tracing: bool = False) -> Report[Plan]:
        return run(plan, tracing=tracing)

    def search(self, plan: Plan) -> type[PlanSearch]:  # noqa: ARG002
        return PlanSearch

    def describe(self, plan: Plan) -> Iterator[str]:
        return describe(plan)

    def is_embedded(self, plan: Plan) -> bool:
        return plan.embedded

    def faults(self, report: Report[Plan]) -> dict[str, int]:
        return {**report.faults, "clock-skew": sum(rate != 1.0 for rate in report.plan.skew)}

    def encoded(self, report: Report[Plan]) -> bytes:
        """Two runs with the same digest gave their clients the same answers in the same order, over as many events."""
        return history.encode_lines(report.history) + super().encoded(report)

    def more(self, report: Report[Plan]) -> dict[str, object]:
        return {"history": report.history}

    def rows(self, tally: Tally, seconds: float) -> Iterator[tuple[str, str]]:
        yield "virtual time", tally.virtual_time(seconds)
        incidents = {name: tally.faults[name] for name in INCIDENTS if name in tally.faults}
        yield "messages", f"{tally.messages:,} ({counts(incidents)})"
        yield "operations", f"{tally.operations:,}"
        share = f" (fast share {tally.fast_share:.1%})" if tally.fast_share is not None else ""
        yield "committed writes", f"{counts(tally.paths)}{share}"
        yield "folds", counts(tally.folds)
        faults = {kind: times for kind, times in tally.faults.items() if kind not in (*INCIDENTS, *ENDINGS)}
        yield "faults", counts(faults)
        yield "embedded store", f"in {tally.embedded:,} of {tally.runs:,} runs"
        yield "keys judged", counts(tally.verdicts)
