"""What may be left out of a failing run of elections, in which order."""

from collections.abc import Callable, Iterator

from msgspec.structs import replace

from epoxy_sim.elect.plan import ElectFault, ElectPlan, ElectWeather, Kind
from epoxy_sim.search import Search

UNITS_MS = (1_000, 500, 100, 10)

STILL = ElectWeather(delay_us=500, jitter=0.0)


class ElectPlanSearch(Search[ElectPlan]):
    limit_events = 1_000_000
    """Half a minute."""
    network_seeds = 5

    def reduce(self) -> None:
        self.fewer("faults")
        self.fewer("rolls")
        while self.best.n > 1 and not self.best.rolls and self.attempt(without_last(self.best)):
            pass
        self.adopt(simpler(self.best))
        for unit_ms in UNITS_MS:
            self.attempt(rounded(self.best, unit_ms))


def without_last(plan: ElectPlan) -> ElectPlan:
    """Without the last node, and without faults that struck it alone."""
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
    """Everything unusual about a plan, one at a time, made usual."""
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
    """Times that are easy to read."""
    faults = tuple(
        replace(f, at_ms=max(unit_ms, f.at_ms // unit_ms * unit_ms), for_ms=-(-f.for_ms // unit_ms) * unit_ms)
        for f in plan.faults
    )
    return replace(plan, faults=faults, faults_end_ms=-(-plan.faults_end_ms // unit_ms) * unit_ms)
