"""What may be left out of a failing plan of single keys, in which order."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import count

from msgspec.structs import replace

from epoxy_sim.keys.plan import ClientPlan, Fault, FaultKind, Plan, Step, Weather
from epoxy_sim.search import Search, Shrunk, fewer
from epoxy_sim.simulation import Report

LIMIT_EVENTS = 1_500_000
"""At some 50,000 events a second: half a minute."""

LAST_SEEDS = 60
"""Network seeds tried at the very end, when a run takes a millisecond."""

SLACK, SLACK_EVENTS = 1.5, 10
"""How much longer than the shortest a run may be if its plan is simpler: a round or two."""

STILL = Weather(jitter=0.0)
ONLY_COMMITS_LOST = replace(STILL, commit_loss=1.0)
ROUND_US = (1_000_000_000, 1_000_000, 100_000, 10_000, 1_000)
"""A time is replaced by the next round one below it, roundest first. No plan lasts a thousand seconds: that is zero."""

Change = Callable[[Plan], Plan]


class PlanSearch(Search[Plan]):
    limit_events = LIMIT_EVENTS
    network_seeds = 20
    """Most failures that survive a reduction at all survive it within ten."""

    _fewest_events: int

    def shrunk(self) -> Shrunk[Plan]:
        self._fewest_events = self.run(self.best).events
        return super().shrunk()

    def reduce(self) -> None:
        """What leaves out most comes first."""
        self.fewer("clients", at_least=1)
        self.fewer("faults")
        self.fewer("changes")
        self.fewer_steps()
        self.fewer_replicas()
        self.adopt(calmer(self.best))
        self.less_luck()
        self.adopt([keys_from_0, values_from_1])
        for halve in (all_halved, end_halved):
            while self.attempt(halve(self.best)):
                pass
        for unit_us in ROUND_US:
            self.adopt(rounder(self.best, unit_us))

    def is_as_good(self, report: Report[Plan]) -> bool:
        """A smaller plan may fail for another reason much later, which would be a longer trace."""
        self._fewest_events = min(self._fewest_events, report.events)
        return report.events <= SLACK * self._fewest_events + SLACK_EVENTS

    def finish(self) -> None:
        """Of the network seeds under which it fails, the one with the shortest trace."""
        failing: list[tuple[int, int, int, Plan]] = []
        for seed in (self.best.seed, *range(LAST_SEEDS)):
            plan = replace(self.best, seed=seed)
            report = self.play(plan)
            if self.is_same(report):
                failing.append((report.events, report.messages, len(failing), plan))
        self.best = min(failing)[-1]

    def fewer_steps(self) -> None:
        clients = self.best.clients
        steps = tuple((c, s) for c, client in enumerate(clients) for s in range(len(client.steps)))
        fewer(steps, lambda kept: bool(kept) and self.change(clients=keep_steps(clients, set(kept))))

    def fewer_replicas(self) -> None:
        plan = self.best
        fewer(tuple(range(1, plan.n + 1)), lambda kept: bool(kept) and self.attempt(with_replicas(plan, kept)))

    def less_luck(self) -> None:
        """What is left of the weather may be one lost message that matters, which a smaller plan would have to lose
        again. A replica that is cut off all the time may explain the failure as well."""
        plan = self.best
        for machine in range(1, plan.n + 1):
            if plan.weather not in (STILL, ONLY_COMMITS_LOST) and self.attempt(cut_off(plan, machine)):
                return


def keep_steps(clients: Sequence[ClientPlan], kept: set[tuple[int, int]]) -> tuple[ClientPlan, ...]:
    left = (
        replace(client, steps=tuple(step for s, step in enumerate(client.steps) if (c, s) in kept))
        for c, client in enumerate(clients)
    )
    return tuple(client for client in left if client.steps)


def with_replicas(plan: Plan, kept: Sequence[int]) -> Plan:
    """These alone, renamed so that ids count from 1. Clients of the others move to the first."""
    renamed = {old: new for new, old in enumerate(kept, start=1)}
    clients = (replace(client, home=renamed.get(client.home, 1)) for client in plan.clients)
    faults = (replace(fault, machines=those_of(fault.machines, renamed)) for fault in plan.faults)
    changes = (replace(c, home=renamed.get(c.home, 1), members=those_of(c.members, renamed)) for c in plan.changes)
    return replace(
        plan,
        founders=those_of(plan.founders, renamed) or (1,) if plan.founders is not None else None,
        changes=tuple(change for change in changes if change.members),
        n=len(kept),
        skew=tuple(plan.skew[i - 1] for i in kept),
        places=tuple(plan.places[i - 1] for i in kept),
        clients=tuple(clients),
        faults=tuple(fault for fault in faults if fault.machines),
    )


def those_of(members: Sequence[int], renamed: Mapping[int, int]) -> tuple[int, ...]:
    return tuple(renamed[i] for i in members if i in renamed)


def calmer(plan: Plan) -> Iterator[Change]:
    """Clocks that run alike, no bytes on the wire or on disks, each part of the weather to zero, and the plainest
    faults."""
    yield lambda best: replace(best, skew=(1.0,) * best.n)
    yield lambda best: replace(best, encoded=False)
    yield lambda best: replace(best, embedded=False)
    for part in Weather.__struct_fields__:
        yield partial(still, part)
    yield no_commit_arrives
    for i in range(len(plan.faults)):
        yield partial(plainest, i)


def still(part: str, plan: Plan) -> Plan:
    return replace(plan, weather=replace(plan.weather, **{part: getattr(STILL, part)}))


def no_commit_arrives(plan: Plan) -> Plan:
    """If some must be lost, losing all is simpler."""
    return replace(plan, weather=replace(plan.weather, commit_loss=1.0)) if plan.weather.commit_loss else plan


def plainest(fault: int, plan: Plan) -> Plan:
    return with_fault(plan, fault, replace(plan.faults[fault], keep=0.0, count=1))


def cut_off(plan: Plan, machine: int) -> Plan:
    weather = ONLY_COMMITS_LOST if plan.weather.commit_loss else STILL
    fault = Fault(at_us=0, kind=FaultKind.PARTITION, machines=(machine,))
    return replace(plan, weather=weather, faults=(fault, *plan.faults))


def keys_from_0(plan: Plan) -> Plan:
    keys = {key: i for i, key in enumerate(plan.keys())}
    return with_steps(plan, lambda _, step: replace(step, key=keys[step.key]))


def values_from_1(plan: Plan) -> Plan:
    return with_steps(plan, lambda number, step: replace(step, value=number))


def with_steps(plan: Plan, change: Callable[[int, Step], Step]) -> Plan:
    """Every step changed, knowing its number in the whole plan, from 1."""
    numbers = count(1)
    clients = (
        replace(client, steps=tuple(change(next(numbers), step) for step in client.steps)) for client in plan.clients
    )
    return replace(plan, clients=tuple(clients))


def all_halved(plan: Plan) -> Plan:
    faults = tuple(replace(fault, at_us=fault.at_us // 2) for fault in plan.faults)
    changes = tuple(replace(change, at_us=change.at_us // 2) for change in plan.changes)
    halved = replace(plan, faults=faults, changes=changes)
    return end_halved(with_steps(halved, lambda _, step: replace(step, at_us=step.at_us // 2)))


def end_halved(plan: Plan) -> Plan:
    return ending(plan, plan.faults_end_us // 2)


def ending(plan: Plan, at_us: int) -> Plan:
    """Never before the last fault: a fault after the end would look like a violation."""
    return replace(plan, faults_end_us=max([at_us, *(fault.at_us for fault in plan.faults)]))


def rounder(plan: Plan, unit_us: int) -> Iterator[Change]:
    """Times that are easy to read: zero, or the roundest number that still fails."""
    yield lambda best: ending(best, best.faults_end_us // unit_us * unit_us)
    for i in range(plan.n):
        yield partial(place_rounded, unit_us, i)
    for i in range(len(plan.faults)):
        yield partial(fault_rounded, unit_us, i)
    for number in range(1, 1 + sum(len(client.steps) for client in plan.clients)):
        yield partial(step_rounded, unit_us, number)


def place_rounded(unit_us: int, machine: int, plan: Plan) -> Plan:
    place_ms = plan.places[machine] * 1000 // unit_us * unit_us / 1000
    return replace(plan, places=(*plan.places[:machine], place_ms, *plan.places[machine + 1 :]))


def fault_rounded(unit_us: int, fault: int, plan: Plan) -> Plan:
    rounded = replace(plan.faults[fault], at_us=plan.faults[fault].at_us // unit_us * unit_us)
    return with_fault(plan, fault, rounded)


def step_rounded(unit_us: int, which: int, plan: Plan) -> Plan:
    def rounded(number: int, step: Step) -> Step:
        return replace(step, at_us=step.at_us // unit_us * unit_us) if number == which else step

    return with_steps(plan, rounded)


def with_fault(plan: Plan, i: int, fault: Fault) -> Plan:
    return replace(plan, faults=(*plan.faults[:i], fault, *plan.faults[i + 1 :]))
