"""From a failing run of actors to a small one that breaks the same rule: what may be left out, in which order."""

from msgspec.structs import replace

from epoxy_sim.keys.plan import Weather
from epoxy_sim.placement.plan import PlacementPlan
from epoxy_sim.placement.simulation import PlacementReport, run
from epoxy_sim.search import Listener, Search, Shrunk, fewer

LIMIT_EVENTS = 500_000
"""Simulated events a search may cost: half a minute."""

NETWORK_SEEDS = 3


def shrink(
    plan: PlacementPlan, rule: str, *, limit_events: int = LIMIT_EVENTS, listener: Listener[PlacementPlan] | None = None
) -> Shrunk[PlacementReport]:
    """`plan` must break `rule`. Call it with the same fault planted, if there is one."""
    return PlacementPlanSearch(plan, rule, limit_events, listener).shrunk()


class PlacementPlanSearch(Search[PlacementPlan, PlacementReport]):
    network_seeds = NETWORK_SEEDS

    def run(self, plan: PlacementPlan, *, tracing: bool = False) -> PlacementReport:
        return run(plan, tracing=tracing)

    def attempt(self, candidate: PlacementPlan) -> bool:
        """The seed is that of the sites, so only the plan itself is tried."""
        if candidate == self.best or not self._breaks(candidate):
            return False
        self.best = candidate
        if self._listener is not None:
            self._listener(self.runs, self.best)
        return True

    def reduce(self) -> None:
        fewer(self.best.envoy_faults, lambda faults: self.attempt(replace(self.best, envoy_faults=faults)))
        fewer(self.best.sites.faults, lambda faults: self._with_sites(faults=faults))
        fewer(self.best.steps, lambda steps: self.attempt(replace(self.best, steps=steps)))
        self._with_sites(weather=Weather())
        self._with_sites(skew=(1.0,) * self.best.sites.n)
        self.attempt(replace(self.best, rates=(1.0,) * len(self.best.envoys)))
        self.attempt(replace(self.best, slots=0))
        self.attempt(replace(self.best, places=(1, 1)))

    def _with_sites(self, **changes: object) -> bool:
        return self.attempt(replace(self.best, sites=replace(self.best.sites, **changes)))
