"""From a failing election to a small one that breaks the same rule: what may be left out, in which order."""

from collections.abc import Callable, Iterator

from msgspec.structs import replace

from epoxy_sim.elect.plan import ElectFault, ElectPlan, ElectWeather, Kind
from epoxy_sim.elect.simulation import ElectReport, run
from epoxy_sim.search import Listener, Search, Shrunk, fewer

LIMIT_EVENTS = 1_000_000
"""Simulated events a search may cost: half a minute. In events, so that a slow machine finds the same plan."""

NETWORK_SEEDS = 5
"""Tried for each candidate: a smaller plan meets its network at other moments."""

UNITS_MS = (1_000, 500, 100, 10)

STILL = ElectWeather(delay_us=500, jitter=0.0)


def shrink(
    plan: ElectPlan, rule: str, *, limit_events: int = LIMIT_EVENTS, listener: Listener[ElectPlan] | None = None
) -> Shrunk[ElectReport]:
    """`plan` must break `rule`. Call it with the same fault planted, if there is one."""
    return ElectPlanSearch(plan, rule, limit_events, listener).shrunk()


class ElectPlanSearch(Search[ElectPlan, ElectReport]):
    network_seeds = NETWORK_SEEDS

    def run(self, plan: ElectPlan, *, tracing: bool = False) -> ElectReport:
        return run(plan, tracing=tracing)

    def reduce(self) -> None:
        fewer(self.best.faults, lambda faults: self.attempt(replace(self.best, faults=faults)))
        fewer(self.best.rolls, lambda rolls: self.attempt(replace(self.best, rolls=rolls)))
        self._fewer_nodes()
        for candidate in simpler(self.best):
            self.attempt(candidate(self.best))
        for unit_ms in UNITS_MS:
            self.attempt(rounded(self.best, unit_ms))

    def _fewer_nodes(self) -> None:
        while self.best.n > 1 and not self.best.rolls and self.attempt(without_last(self.best)):
            pass


def without_last(plan: ElectPlan) -> ElectPlan:
    """The last node goes. Faults that struck it alone go with it."""
    n = plan.n - 1
    left = (replace(fault, target=tuple(i for i in fault.target if i <= n)) for fault in plan.faults)
    return replace(
        plan,
        n=n,
        priorities=plan.priorities[:n],
        skew=plan.skew[:n],
        min_replicas=min(plan.min_replicas, max(0, n - 1)),
        odd=plan.odd if n >= 5 else 0,
        faults=tuple(fault for fault in left if fault.target),
    )


Change = Callable[[ElectPlan], ElectPlan]


def simpler(plan: ElectPlan) -> Iterator[Change]:
    """Everything that is not the usual, made usual."""
    yield lambda best: replace(best, weather=STILL)
    yield lambda best: replace(best, skew=(1.0,) * len(best.skew))
    yield lambda best: replace(best, priorities=(100,) * len(best.priorities))
    yield lambda best: replace(best, stranger=False)
    yield lambda best: replace(best, babble_ms=0)
    yield lambda best: replace(best, odd=0)
    yield lambda best: replace(best, encoded=False)
    yield lambda best: replace(best, begun=False)
    yield lambda best: replace(best, min_replicas=0)
    yield lambda best: replace(best, sync_ms=1)
    for i in range(len(plan.faults)):
        yield lambda best, i=i: with_fault(best, i, one_target(best.faults[i]))  # type: ignore[misc]


def one_target(fault: ElectFault) -> ElectFault:
    return replace(fault, target=fault.target[:1])


def with_fault(plan: ElectPlan, i: int, fault: ElectFault) -> ElectPlan:
    if i >= len(plan.faults) or plan.faults[i].kind in (Kind.APART, Kind.SILENT):
        return plan
    return replace(plan, faults=(*plan.faults[:i], fault, *plan.faults[i + 1 :]))


def rounded(plan: ElectPlan, unit_ms: int) -> ElectPlan:
    """Times a person can read."""
    faults = tuple(
        replace(f, at_ms=max(unit_ms, f.at_ms // unit_ms * unit_ms), for_ms=-(-f.for_ms // unit_ms) * unit_ms)
        for f in plan.faults
    )
    return replace(plan, faults=faults, faults_end_ms=-(-plan.faults_end_ms // unit_ms) * unit_ms)
