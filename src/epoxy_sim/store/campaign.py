"""Campaigns of the store alone."""

from collections.abc import Iterator

from epoxy_sim.campaign import CampaignSetup, Tally, counts
from epoxy_sim.search import Search
from epoxy_sim.simulation import Report
from epoxy_sim.store.generate import generate
from epoxy_sim.store.mutants import MUTANTS
from epoxy_sim.store.plan import StorePlan
from epoxy_sim.store.simulation import StoreSimulation


class StorePlanSearch(Search[StorePlan]):
    limit_events = 200_000
    network_seeds = 10
    """Of the disk: what a power cut keeps."""

    def reduce(self) -> None:
        self.fewer("steps")


class StoreSetup(CampaignSetup[StorePlan], frozen=True, kw_only=True):
    name = "store"
    mutants = MUTANTS
    limit_seeds = 3_000
    """A minute on one core. A fault that needs longer is one that the simulator does not find."""

    def plan(self, seed: int) -> StorePlan:
        return generate(seed)

    def run(self, plan: StorePlan, *, tracing: bool = False) -> Report[StorePlan]:
        return StoreSimulation.run(plan, tracing=tracing)

    def search(self, plan: StorePlan) -> type[Search[StorePlan]]:  # noqa: ARG002
        return StorePlanSearch

    def describe(self, plan: StorePlan) -> Iterator[str]:
        yield f"segments of {plan.log_bytes} bytes; what a power cut keeps: seed {plan.seed}"
        for step in plan.steps:
            yield step.words

    def is_embedded(self, plan: StorePlan) -> bool:  # noqa: ARG002
        return True

    def facts(self, report: Report[StorePlan]) -> tuple[object, ...]:
        return *super().facts(report), sorted(report.verdicts.items())

    def rows(self, tally: Tally, seconds: float) -> Iterator[tuple[str, str]]:
        yield "virtual time", tally.virtual_time(seconds)
        yield "commits", f"{tally.operations:,}"
        yield "faults", counts(tally.faults)
        yield "disks judged", counts(tally.verdicts)
