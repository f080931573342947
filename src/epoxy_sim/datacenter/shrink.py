"""What may be left out of a failing plan of a datacenter, in which order."""

from msgspec.structs import replace

from epoxy_sim.datacenter.plan import DatabaseWeather, DatacenterPlan
from epoxy_sim.search import Search, fewer

LIMIT_EVENTS = 1_500_000
"""Half a minute."""


class DatacenterPlanSearch(Search[DatacenterPlan]):
    limit_events = LIMIT_EVENTS
    network_seeds = 10

    def reduce(self) -> None:
        self.fewer("clients", at_least=1)
        self.fewer("faults")
        for i in range(len(self.best.clients)):
            fewer(self.best.clients[i], lambda kept, i=i: self._with_steps(i, kept))  # type: ignore[misc]
        self.change(loss=0.0)
        self.change(weather=DatabaseWeather())
        for part in DatabaseWeather.__struct_fields__:
            self.change(weather=replace(self.best.weather, **{part: 0.0}))
        self.change(rates=(1.0,) * self.best.nodes)
        while self.best.nodes > 1 and self.attempt(without_last(self.best)):
            pass

    def _with_steps(self, i: int, steps: tuple[object, ...]) -> bool:
        clients = list(self.best.clients)
        return bool(steps) and self.change(clients=(*clients[:i], steps, *clients[i + 1 :]))


def without_last(plan: DatacenterPlan) -> DatacenterPlan:
    """Without the last node, and without the faults that struck it; its clients go to the first, and those of other
    datacenters stay there."""
    nodes = plan.nodes - 1

    def place(before: int) -> int:
        return 1 if before == plan.nodes else before - (before > plan.nodes)

    return replace(
        plan,
        nodes=nodes,
        first_nodes=min(plan.first_nodes, nodes),
        rates=plan.rates[:nodes],
        faults=tuple(fault for fault in plan.faults if fault.node <= nodes),
        clients=tuple(tuple(replace(step, place=place(step.place)) for step in steps) for steps in plan.clients),
    )
