"""Visit every reachable state of a small world, breadth first, and say whether the protocol's promises hold in all.

`exhaustive_world` says what can happen and why a state is so small; this module makes it fast. A state is one integer:
the number of a Talk above, and below it one column number for each replica. Production code is asked once for each
question; afterwards a step is a table look-up and an addition.
"""

import time
from collections.abc import Iterable

from msgspec import Struct

from epoxy.model.messages import Reply
from epoxy_sim.keys.exhaustive_trace import Label, describe
from epoxy_sim.keys.exhaustive_world import Broken, Column, Message, Ok, Outcome, Rules, SmallWorld, Talk

__all__ = ["BrokenPromise", "Exploration", "SmallWorld", "explore"]

COLUMN_BITS = 16
COLUMN_MASK = (1 << COLUMN_BITS) - 1
"""The largest world of the tests has a few thousand columns; one that outgrows this is refused by `Tables`."""

NO_CONSENT = 0

LIMIT_STATES = 5_000_000
"""Below 2 GB: a state takes 120 bytes, and its share of the tables up to 200 more where few replicas say much."""


class BrokenPromise(Struct, frozen=True, kw_only=True):
    """A promise that does not hold, and a shortest way there."""

    what: str
    trace: list[str]

    def __str__(self) -> str:
        return "\n".join([*(f"{number:3}. {line}" for number, line in enumerate(self.trace, 1)), f"  => {self.what}"])


class Exploration(Struct, frozen=True, kw_only=True):
    """`complete`: all reachable states were visited, and none is a violation. `depth`: steps to the farthest state.
    Everything but the time is a function of the world alone."""

    states: int
    transitions: int
    depth: int
    seconds: float
    complete: bool
    violation: BrokenPromise | None = None

    def __str__(self) -> str:
        verdict = "complete" if self.complete else "violated" if self.violation else "cut off"
        counts = f"{self.states:,} states, {self.transitions:,} transitions, depth {self.depth}"
        return f"{verdict}: {counts}, {self.seconds:.1f} s"


Step = tuple[int, Label]


class TalkPlan:
    """What can happen in one talk, filled in as columns are met."""

    def __init__(self, talk: Talk, rules: Rules) -> None:
        self.talk = talk
        self.menus = rules.menus(talk)
        self.moves: list[dict[int, list[Step]]] = [{} for _ in self.menus]
        self.active = [(f, rules.need(flow)) for f, flow in enumerate(talk.flows) if not flow.done]
        self.asides: list[dict[int, list[Step]]] = [{} for _ in talk.flows]
        self.spontaneous: list[dict[int, list[Step]]] = [{} for _ in talk.flows]
        self.successes: list[dict[tuple[int, ...], list[Step]]] = [{} for _ in talk.flows]


class Tables:
    """Numbers for talks and columns, and the steps between states by number."""

    def __init__(self, world: SmallWorld) -> None:
        self.rules = world.rules()
        self.seats = world.seats
        self.shifts = [COLUMN_BITS * seat for seat in range(world.n)]
        self.top = COLUMN_BITS * world.n
        self.low_mask = (1 << self.top) - 1
        self.crowd = COLUMN_BITS * len(world.homes)
        self.crowd_shifts = self.shifts[: world.n - len(world.homes)]
        self.sorting: dict[int, int] = {}
        self.talks: dict[Talk, int] = {}
        self.plans: list[TalkPlan] = []
        self.columns: dict[Column, int] = {}
        self.by_number: list[Column] = []
        self.oks: dict[Ok | None, int] = {None: NO_CONSENT}
        self.consent: list[list[int]] = [[] for _ in world.homes]
        self.dropped: list[list[int]] = [[] for _ in world.homes]
        self.delivered: dict[tuple[Message, int | None, int], tuple[int, Reply]] = {}

    def first(self) -> int:
        talk, column = self.rules.first()
        return (self.talk_number(talk) << self.top) + pack([self.column_number(column)] * len(self.seats))

    def talk_number(self, talk: Talk) -> int:
        number = self.talks.setdefault(talk, len(self.plans))
        if number == len(self.plans):
            self.plans.append(TalkPlan(talk, self.rules))
        return number

    def column_number(self, column: Column) -> int:
        """Beside its number, a column has for each proposer: which consent it gives, and which column it becomes when
        that consent is dropped."""
        known = self.columns.get(column)
        if known is not None:
            return known
        number = self.columns[column] = len(self.by_number)
        assert number <= COLUMN_MASK, "a world too large for its columns"
        self.by_number.append(column)
        for f, ok in enumerate(column.oks):
            self.consent[f].append(self.oks.setdefault(ok, len(self.oks)))
            self.dropped[f].append(number)
        for f, ok in enumerate(column.oks):
            if ok is not None:
                self.dropped[f][number] = self.column_number(column.consenting(f, None))
        return number

    def canonical(self, state: int) -> int:
        """The same state with the bystanders' columns in order."""
        if len(self.crowd_shifts) < 2:
            return state
        crowd = (state & self.low_mask) >> self.crowd
        delta = self.sorting.get(crowd)
        if delta is None:
            columns = sorted((crowd >> shift) & COLUMN_MASK for shift in self.crowd_shifts)
            delta = self.sorting[crowd] = (pack(columns) - crowd) << self.crowd
        return state + delta

    def steps(self, state: int) -> list[Step]:
        """The states one step away, each with its label. Raises Broken if a step breaks a promise."""
        plan = self.plans[state >> self.top]
        columns = [(state >> shift) & COLUMN_MASK for shift in self.shifts]
        found: list[Step] = []
        for seat, column in enumerate(columns):
            moves = plan.moves[seat].get(column)
            if moves is None:
                moves = plan.moves[seat][column] = self.moves(plan, seat, column)
            for delta, label in moves:
                found.append((state + delta, label))
        for f, need in plan.active:
            asides = plan.asides[f].get(columns[f])
            if asides is None:
                asides = plan.asides[f][columns[f]] = self.asides(plan, f, columns[f])
            for delta, label in asides:
                found.append((state + delta, label))
            home = self.dropped[f][columns[f]]
            outcomes = plan.spontaneous[f].get(home)
            if outcomes is None:
                outcomes = plan.spontaneous[f][home] = self.spontaneous(plan, f, home)
            consent = self.consent[f]
            answers = [consent[column] for column in columns]
            if len(answers) - answers.count(NO_CONSENT) >= need:
                outcomes = outcomes + self.successes(plan, f, home, answers)
            if outcomes:
                dropped = self.dropped[f]
                rest = pack([dropped[column] for column in columns])
                for delta, label in outcomes:
                    found.append((rest + delta, label))
        return found

    def moves(self, plan: TalkPlan, seat: int, column: int) -> list[Step]:
        """Deliveries that change something."""
        found: list[Step] = []
        replica_id = self.seats[seat]
        for message, waiting in plan.menus[seat]:
            question = (message, waiting, column)
            answer = self.delivered.get(question)
            if answer is None:
                after, reply = self.rules.deliver(replica_id, self.by_number[column], message, waiting)
                answer = self.delivered[question] = (self.column_number(after) - column, reply)
            delta, reply = answer
            if delta:
                found.append((delta << self.shifts[seat], (replica_id, message, reply)))
        return found

    def asides(self, plan: TalkPlan, f: int, column: int) -> list[Step]:
        here = self.talks[plan.talk]
        outcomes = self.rules.asides(plan.talk, f, self.by_number[column])
        return [((self.talk_number(talk) - here) << self.top, label) for talk, label in outcomes]

    def spontaneous(self, plan: TalkPlan, f: int, home: int) -> list[Step]:
        return self.numbered(f, home, self.rules.spontaneous(plan.talk, f, self.by_number[home]))

    def successes(self, plan: TalkPlan, f: int, home: int, answers: list[int]) -> list[Step]:
        question = (home, *answers)
        known = plan.successes[f].get(question)
        if known is None:
            names = list(self.oks)
            oks = {i: names[ok] for i, ok in zip(self.seats, answers, strict=True)}
            outcomes = self.rules.succeed(plan.talk, f, self.by_number[home], oks)
            known = plan.successes[f][question] = self.numbered(f, home, outcomes)
        return known

    def numbered(self, f: int, home: int, outcomes: Iterable[Outcome]) -> list[Step]:
        """As what to add to a state without talk and without the consents to proposer f."""
        found: dict[int, Label] = {}
        for talk, column, label in outcomes:
            delta = (self.talk_number(talk) << self.top) + ((self.column_number(column) - home) << self.shifts[f])
            found.setdefault(delta, label)
        return list(found.items())


def pack(columns: list[int]) -> int:
    packed = 0
    for column in reversed(columns):
        packed = packed << COLUMN_BITS | column
    return packed


def explore(world: SmallWorld, limit_states: int = LIMIT_STATES) -> Exploration:
    """Level by level, each one step farther. So the first violation met is a nearest one, and the way there can be
    found again from the levels: no state remembers where it came from."""
    started = time.perf_counter()
    tables = Tables(world)
    levels = [[tables.first()]]
    seen = set(levels[0])
    transitions = 0
    violation = None
    try:
        while levels[-1] and len(seen) < limit_states:
            transitions += advance(tables, levels, seen)
    except Broken as broken:
        violation = retrace(tables, levels, broken)
    return Exploration(
        states=len(seen),
        transitions=transitions,
        depth=len(levels) - 1 if levels[-1] else len(levels) - 2,
        seconds=time.perf_counter() - started,
        complete=not levels[-1],
        violation=violation,
    )


def advance(tables: Tables, levels: list[list[int]], seen: set[int]) -> int:
    """Add one level; returns the steps taken."""
    level: list[int] = []
    taken = 0
    for state in levels[-1]:
        steps = tables.steps(state)
        taken += len(steps)
        for after, _ in steps:
            after = tables.canonical(after)
            if after not in seen:
                seen.add(after)
                level.append(after)
    levels.append(level)
    return taken


def retrace(tables: Tables, levels: list[list[int]], broken: Broken) -> BrokenPromise:
    """The state that broke, backwards through the levels to the first, then forwards again in words."""
    path = [next(state for state in levels[-1] if breaks(tables, state))]
    for level in reversed(levels[:-1]):
        path.append(next(state for state in level if leads_to(tables, state, path[-1])))
    return BrokenPromise(what=broken.what, trace=tell(tables, path[::-1]))


def breaks(tables: Tables, state: int) -> bool:
    try:
        tables.steps(state)
    except Broken:
        return True
    return False


def leads_to(tables: Tables, state: int, target: int) -> bool:
    return any(tables.canonical(after) == target for after, _ in tables.steps(state))


def tell(tables: Tables, path: list[int]) -> list[str]:
    """Sorting the bystanders renames them at every step; the trace must not, so it is walked without sorting."""
    told = []
    state = path[0]
    for target in path[1:]:
        state, label = next(step for step in tables.steps(state) if tables.canonical(step[0]) == target)
        told.append(describe(label))
    try:
        tables.steps(state)
    except Broken as broken:
        told.append(describe(broken.label))
    return told
