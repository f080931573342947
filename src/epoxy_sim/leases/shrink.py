"""What may be left out of a failing plan of leases, in which order."""

from msgspec.structs import replace

from epoxy_sim.keys.plan import Weather
from epoxy_sim.leases.plan import LeaseClientPlan, LeasePlan
from epoxy_sim.search import Search, fewer

LIMIT_EVENTS = 1_500_000
"""Half a minute."""

STILL = Weather(jitter=0.0)


class LeasePlanSearch(Search[LeasePlan]):
    limit_events = LIMIT_EVENTS
    network_seeds = 10

    def reduce(self) -> None:
        self.fewer("clients", at_least=1)
        self.fewer("faults")
        self.fewer("clock_steps")
        for i in range(len(self.best.clients)):
            self._simpler_client(i)
        self.change(weather=STILL)
        for part in Weather.__struct_fields__:
            self.change(weather=replace(self.best.weather, **{part: getattr(STILL, part)}))
        self.change(encoded=False)
        self.change(embedded=False)
        self.change(suspends=False)
        self.change(skew=(1.0,) * self.best.n)
        while self.best.n > 1 and self.attempt(without_last(self.best)):
            pass

    def _simpler_client(self, i: int) -> None:
        if i >= len(self.best.clients):
            return
        fewer(self._client(i).steps, lambda kept: bool(kept) and self._with_client(i, steps=kept))
        fewer(self._client(i).pauses, lambda kept: self._with_client(i, pauses=kept))
        for s in range(len(self._client(i).steps)):
            for simpler in ({"renewals": 0}, {"at_us": 0}, {"tries": 1}):
                steps = list(self._client(i).steps)
                steps[s] = replace(steps[s], **simpler)
                self._with_client(i, steps=tuple(steps))
        self._with_client(i, rate=1.0)

    def _client(self, i: int) -> LeaseClientPlan:
        return self.best.clients[i]

    def _with_client(self, i: int, **fields: object) -> bool:
        clients = list(self.best.clients)
        clients[i] = replace(clients[i], **fields)
        return self.change(clients=tuple(clients))


def without_last(plan: LeasePlan) -> LeasePlan:
    """Without the last replica, and without faults that struck it alone; its clients go to the first."""
    n = plan.n - 1
    faults = [replace(fault, machines=tuple(i for i in fault.machines if i <= n)) for fault in plan.faults]
    return replace(
        plan,
        n=n,
        skew=plan.skew[:n],
        places=plan.places[:n],
        faults=tuple(fault for fault in faults if fault.machines),
        clock_steps=tuple(step for step in plan.clock_steps if step.machine <= n),
        clients=tuple(replace(client, home=client.home if client.home <= n else 1) for client in plan.clients),
    )
