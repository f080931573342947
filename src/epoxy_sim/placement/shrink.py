"""What may be left out of a failing run of actors, in which order."""

from msgspec.structs import replace

from epoxy_sim.keys.plan import Weather
from epoxy_sim.placement.plan import PlacementPlan
from epoxy_sim.search import Search, fewer


class PlacementPlanSearch(Search[PlacementPlan]):
    limit_events = 500_000
    """Half a minute."""
    network_seeds = 0
    """Every candidate keeps its seed."""

    def with_seed(self, plan: PlacementPlan, seed: int) -> PlacementPlan:  # noqa: ARG002
        return plan

    def reduce(self) -> None:
        self.fewer("envoy_faults")
        fewer(self.best.sites.faults, lambda faults: self._change_sites(faults=faults))
        self.fewer("steps")
        self._change_sites(weather=Weather())
        self._change_sites(skew=(1.0,) * self.best.sites.n)
        self._change_sites(embedded=False)
        self.change(rates=(1.0,) * len(self.best.envoys))
        self.change(slots=0)
        self.change(places=(1, 1))

    def _change_sites(self, **fields: object) -> bool:
        return self.change(sites=replace(self.best.sites, **fields))
