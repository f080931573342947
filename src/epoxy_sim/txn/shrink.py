"""From a failing run to a small one that breaks the same rule: what may be left out, in which order."""

from msgspec.structs import replace

from epoxy_sim.keys.plan import Weather
from epoxy_sim.search import Listener, Search, Shrunk, fewer
from epoxy_sim.txn.plan import AnyPlan, TxnClientPlan, TxnPlan, WalkPlan, in_world
from epoxy_sim.txn.simulation import TxnReport, run

LIMIT_EVENTS = 1_000_000
"""Simulated events a search may cost: half a minute."""

NETWORK_SEEDS = 10
WALKS = 300
"""Walks tried for a shorter one: each takes milliseconds."""

STILL = Weather(jitter=0.0)


def shrink(
    plan: AnyPlan, rule: str, *, limit_events: int = LIMIT_EVENTS, listener: Listener[AnyPlan] | None = None
) -> Shrunk[TxnReport]:
    """`plan` must break `rule`. Call it with the same fault planted, if there is one."""
    if isinstance(plan, WalkPlan):
        return WalkSearch(plan, rule, limit_events, listener).shrunk()
    return TxnPlanSearch(plan, rule, limit_events, listener).shrunk()


class WalkSearch(Search[WalkPlan, TxnReport]):
    """The shortest of some walks."""

    network_seeds = WALKS

    def run(self, plan: WalkPlan, *, tracing: bool = False) -> TxnReport:
        return run(plan, tracing=tracing)

    def reduce(self) -> None:
        for steps in (self.best.steps // 2, self.best.steps * 3 // 4, self.best.steps - 5):
            self.attempt(replace(self.best, steps=max(1, steps)))


class TxnPlanSearch(Search[TxnPlan, TxnReport]):
    network_seeds = NETWORK_SEEDS

    def run(self, plan: TxnPlan, *, tracing: bool = False) -> TxnReport:
        return run(plan, tracing=tracing)

    def reduce(self) -> None:
        fewer(self.best.world.faults, lambda faults: self.attempt(in_world(self.best, faults=faults)))
        fewer(self.best.clients, lambda clients: bool(clients) and self.attempt(replace(self.best, clients=clients)))
        for i in range(len(self.best.clients)):
            self._fewer_steps(i)
        self.attempt(in_world(self.best, weather=STILL))
        self.attempt(in_world(self.best, weather=replace(self.best.world.weather, duplicate=0.0, long_delay=0.0)))
        self.attempt(in_world(self.best, skew=(1.0,) * self.best.n, encoded=False))
        fewer(self.best.changes, lambda changes: self.attempt(replace(self.best, changes=changes)))
        while self.best.n > 1 and not self.best.changes and self.attempt(without_last(self.best)):
            pass

    def _fewer_steps(self, i: int) -> None:
        if i < len(self.best.clients):
            fewer(
                self.best.clients[i].steps, lambda steps: bool(steps) and self.attempt(with_steps(self.best, i, steps))
            )


def with_steps(plan: TxnPlan, i: int, steps: tuple[object, ...]) -> TxnPlan:
    client: TxnClientPlan = replace(plan.clients[i], steps=steps)
    return replace(plan, clients=(*plan.clients[:i], client, *plan.clients[i + 1 :]))


def without_last(plan: TxnPlan) -> TxnPlan:
    """The last replica goes, and faults that struck it alone; its clients go to the first."""
    n = plan.n - 1
    faults = [replace(f, machines=tuple(i for i in f.machines if i <= n)) for f in plan.world.faults]
    clients = tuple(replace(client, home=client.home if client.home <= n else 1) for client in plan.clients)
    changed = in_world(
        plan,
        n=n,
        founders=tuple(i for i in plan.founders if i <= n) or (1,),
        skew=plan.world.skew[:n],
        places=plan.world.places[:n],
        faults=tuple(fault for fault in faults if fault.machines),
    )
    return replace(changed, clients=clients)
