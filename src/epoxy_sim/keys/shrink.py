"""From a failing plan to a small one that breaks the same rule: what may be left out, in which order."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import count

from msgspec.structs import replace

from epoxy_sim.keys.plan import ClientPlan, Fault, FaultKind, Plan, Step, Weather
from epoxy_sim.keys.simulation import Report, run
from epoxy_sim.search import Listener, Search, Shrunk, fewer

LIMIT_EVENTS = 1_500_000
"""Simulated events a search may cost, at some 50,000 events a second: half a minute. Counted in events, not in seconds,
so that a slow machine finds the same plan."""

NETWORK_SEEDS = 20
"""Network seeds tried for a candidate. Most failures that survive a reduction at all survive it within ten."""

STORIES = 60
"""Network seeds tried at the very end, when a run takes a millisecond."""

SLACK, SLACK_EVENTS = 1.5, 10
"""How much longer than the shortest one a story may be if its plan is simpler: a round or two."""

STILL = Weather(jitter=0.0)
ONLY_COMMITS_LOST = replace(STILL, commit_loss=1.0)
ROUND_US = (1_000_000_000, 1_000_000, 100_000, 10_000, 1_000)
"""A time is replaced by the next round one below it, roundest first. No plan lasts a thousand seconds: that is zero."""

Attempt = Callable[[Plan], bool]
Change = Callable[[Plan], Plan]


def shrink(
    plan: Plan, rule: str, *, limit_events: int = LIMIT_EVENTS, listener: Listener[Plan] | None = None
) -> Shrunk[Report]:
    """`plan` must break `rule`. Call it with the same fault planted, if there is one."""
    return PlanSearch(plan, rule, limit_events, listener).shrunk()


class PlanSearch(Search[Plan, Report]):
    network_seeds = NETWORK_SEEDS

    def __init__(self, plan: Plan, rule: str, limit_events: int, listener: Listener[Plan] | None) -> None:
        super().__init__(plan, rule, limit_events, listener)
        self._fewest_events = run(plan).events

    def run(self, plan: Plan, *, tracing: bool = False) -> Report:
        return run(plan, tracing=tracing)

    def reduce(self) -> None:
        for each in REDUCTIONS:
            each(self.best, self.attempt)

    def is_as_good(self, report: Report) -> bool:
        """A plan without this or that may fail for another reason much later. That would be a worse story."""
        self._fewest_events = min(self._fewest_events, report.events)
        return report.events <= SLACK * self._fewest_events + SLACK_EVENTS

    def finish(self) -> None:
        """Of the network seeds under which it fails, the one with the shortest story."""
        told: list[tuple[int, int, int, Plan]] = []
        for seed in (self.best.seed, *range(STORIES)):
            plan = replace(self.best, seed=seed)
            report = self.play(plan)
            if self.is_same(report):
                told.append((report.events, report.messages, len(told), plan))
        self.best = min(told)[-1]


def fewer_clients(plan: Plan, attempt: Attempt) -> None:
    fewer(plan.clients, lambda clients: bool(clients) and attempt(replace(plan, clients=clients)))


def fewer_faults(plan: Plan, attempt: Attempt) -> None:
    fewer(plan.faults, lambda faults: attempt(replace(plan, faults=faults)))


def fewer_wishes(plan: Plan, attempt: Attempt) -> None:
    fewer(plan.wishes, lambda wishes: attempt(replace(plan, wishes=wishes)))


def fewer_steps(plan: Plan, attempt: Attempt) -> None:
    steps = tuple((c, s) for c, client in enumerate(plan.clients) for s in range(len(client.steps)))
    fewer(steps, lambda kept: bool(kept) and attempt(replace(plan, clients=keep_steps(plan.clients, set(kept)))))


def keep_steps(clients: Sequence[ClientPlan], kept: set[tuple[int, int]]) -> tuple[ClientPlan, ...]:
    left = (
        replace(client, steps=tuple(step for s, step in enumerate(client.steps) if (c, s) in kept))
        for c, client in enumerate(clients)
    )
    return tuple(client for client in left if client.steps)


def fewer_replicas(plan: Plan, attempt: Attempt) -> None:
    everybody = tuple(range(1, plan.n + 1))
    fewer(everybody, lambda kept: bool(kept) and attempt(with_replicas(plan, kept)))


def with_replicas(plan: Plan, kept: Sequence[int]) -> Plan:
    """These alone, renamed so that ids count from 1. Clients of those that go move to the first."""
    renamed = {old: new for new, old in enumerate(kept, start=1)}
    clients = (replace(client, home=renamed.get(client.home, 1)) for client in plan.clients)
    faults = (replace(f, machines=tuple(renamed[i] for i in f.machines if i in renamed)) for f in plan.faults)
    wishes = (replace(w, home=renamed.get(w.home, 1), members=those_of(w.members, renamed)) for w in plan.wishes)
    return replace(
        plan,
        founders=those_of(plan.founders, renamed) or (1,) if plan.founders is not None else None,
        wishes=tuple(wish for wish in wishes if wish.members),
        n=len(kept),
        skew=tuple(plan.skew[i - 1] for i in kept),
        places=tuple(plan.places[i - 1] for i in kept),
        clients=tuple(clients),
        faults=tuple(fault for fault in faults if fault.machines),
    )


def those_of(members: Sequence[int], renamed: Mapping[int, int]) -> tuple[int, ...]:
    return tuple(renamed[i] for i in members if i in renamed)


def calmer(plan: Plan, attempt: Attempt) -> None:
    """One clock for all, no bytes on the wire, and one dial of the weather after the other to zero."""
    changes: list[Change] = [one_clock, as_values]
    changes += [partial(still, dial) for dial in Weather.__struct_fields__]
    changes.append(no_commit_arrives)
    changes += [partial(plainest, i) for i in range(len(plan.faults))]
    adopt(plan, attempt, changes)


def adopt(plan: Plan, attempt: Attempt, changes: Iterable[Change]) -> Plan:
    """One change after the other, each on top of those that worked."""
    for change in changes:
        candidate = change(plan)
        if attempt(candidate):
            plan = candidate
    return plan


def one_clock(plan: Plan) -> Plan:
    return replace(plan, skew=(1.0,) * plan.n)


def as_values(plan: Plan) -> Plan:
    return replace(plan, encoded=False)


def still(dial: str, plan: Plan) -> Plan:
    return replace(plan, weather=replace(plan.weather, **{dial: getattr(STILL, dial)}))


def no_commit_arrives(plan: Plan) -> Plan:
    """If some must be lost, all is simpler: it leaves nothing to luck."""
    return replace(plan, weather=replace(plan.weather, commit_loss=1.0)) if plan.weather.commit_loss else plan


def plainest(fault: int, plan: Plan) -> Plan:
    return with_fault(plan, fault, replace(plan.faults[fault], keep=0.0, count=1))


def less_luck(plan: Plan, attempt: Attempt) -> None:
    """What is left of the weather is one accident that matters, and a smaller plan would have to meet it again. Perhaps
    a replica that is cut off all the time explains it as well."""
    for machine in range(1, plan.n + 1):
        if plan.weather not in (STILL, ONLY_COMMITS_LOST) and attempt(cut_off(plan, machine)):
            return


def cut_off(plan: Plan, machine: int) -> Plan:
    weather = ONLY_COMMITS_LOST if plan.weather.commit_loss else STILL
    fault = Fault(at_us=0, kind=FaultKind.PARTITION, machines=(machine,))
    return replace(plan, weather=weather, faults=(fault, *plan.faults))


def simpler(plan: Plan, attempt: Attempt) -> None:
    """Keys from 0, and values that count up from 1."""
    adopt(plan, attempt, [keys_from_0, values_from_1])


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


def shorter(plan: Plan, attempt: Attempt) -> None:
    """All times halved, the end of the faults alone halved: as often as it helps."""
    for halve in (all_halved, end_halved):
        while attempt(halve(plan)):
            plan = halve(plan)


def all_halved(plan: Plan) -> Plan:
    faults = tuple(replace(fault, at_us=fault.at_us // 2) for fault in plan.faults)
    wishes = tuple(replace(wish, at_us=wish.at_us // 2) for wish in plan.wishes)
    return end_halved(
        with_steps(replace(plan, faults=faults, wishes=wishes), lambda _, step: replace(step, at_us=step.at_us // 2))
    )


def end_halved(plan: Plan) -> Plan:
    return ending(plan, plan.faults_end_us // 2)


def ending(plan: Plan, at_us: int) -> Plan:
    """Never before the last fault: one that strikes after the end would be taken for a broken promise."""
    return replace(plan, faults_end_us=max([at_us, *(fault.at_us for fault in plan.faults)]))


def rounder(plan: Plan, attempt: Attempt) -> None:
    """Times a person can read: zero, or the roundest number that still fails."""
    steps = range(1, 1 + sum(len(client.steps) for client in plan.clients))
    for unit in ROUND_US:
        changes: list[Change] = [partial(end_rounded, unit)]
        changes += [partial(place_rounded, unit, i) for i in range(plan.n)]
        changes += [partial(fault_rounded, unit, i) for i in range(len(plan.faults))]
        changes += [partial(step_rounded, unit, number) for number in steps]
        plan = adopt(plan, attempt, changes)


def end_rounded(unit_us: int, plan: Plan) -> Plan:
    return ending(plan, plan.faults_end_us // unit_us * unit_us)


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


REDUCTIONS = (
    fewer_clients,
    fewer_faults,
    fewer_wishes,
    fewer_steps,
    fewer_replicas,
    calmer,
    less_luck,
    simpler,
    shorter,
    rounder,
)
"""What leaves out most comes first."""
