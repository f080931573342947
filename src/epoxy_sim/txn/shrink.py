"""What may be left out of a failing run of transactions, in which order."""

from msgspec.structs import replace

from epoxy_sim.keys.plan import Weather
from epoxy_sim.search import Search, fewer
from epoxy_sim.txn.plan import AnyPlan, TxnPlan, WalkPlan

LIMIT_EVENTS = 1_000_000
"""Half a minute."""

STILL = Weather(jitter=0.0)


class WalkSearch(Search[AnyPlan]):
    """The shortest of some walks."""

    best: WalkPlan
    limit_events = LIMIT_EVENTS
    network_seeds = 300
    """Each walk takes milliseconds."""

    def reduce(self) -> None:
        for steps in (self.best.steps // 2, self.best.steps * 3 // 4, self.best.steps - 5):
            self.change(steps=max(1, steps))


class TxnPlanSearch(Search[AnyPlan]):
    best: TxnPlan
    limit_events = LIMIT_EVENTS
    network_seeds = 10

    def reduce(self) -> None:
        self.fewer("faults")
        self.fewer("clients", at_least=1)
        for i in range(len(self.best.clients)):
            self._fewer_steps(i)
        self.change(weather=STILL)
        self.change(weather=replace(self.best.weather, duplicate=0.0, long_delay=0.0))
        self.change(skew=(1.0,) * self.best.n, encoded=False)
        self.change(embedded=False)
        self.fewer("changes")
        while self.best.n > 1 and not self.best.changes and self.attempt(without_last(self.best)):
            pass

    def _fewer_steps(self, i: int) -> None:
        if i < len(self.best.clients):
            fewer(
                self.best.clients[i].steps, lambda steps: bool(steps) and self.attempt(with_steps(self.best, i, steps))
            )


def with_steps(plan: TxnPlan, i: int, steps: tuple[object, ...]) -> TxnPlan:
    client = replace(plan.clients[i], steps=steps)
    return replace(plan, clients=(*plan.clients[:i], client, *plan.clients[i + 1 :]))


def without_last(plan: TxnPlan) -> TxnPlan:
    """Without the last replica, and without faults that struck it alone; its clients go to the first."""
    n = plan.n - 1
    faults = [replace(f, machines=tuple(i for i in f.machines if i <= n)) for f in plan.faults]
    return replace(
        plan,
        n=n,
        founders=tuple(i for i in plan.first_members if i <= n) or (1,),
        skew=plan.skew[:n],
        places=plan.places[:n],
        faults=tuple(fault for fault in faults if fault.machines),
        clients=tuple(replace(client, home=client.home if client.home <= n else 1) for client in plan.clients),
    )
