"""The search for a smaller plan that breaks the same rule, whatever it is that plans are made of.

Delta debugging (Zeller and Hildebrandt, 2002): leave something out, play it again, keep what still fails. A reduced
plan meets its network at other moments, so each candidate is tried with a few network seeds. All of it is
deterministic: the same failure shrinks to the same story everywhere.
"""

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from epoxy_sim.keys.simulation import Failure


class SeededPlan(Protocol):
    @property
    def seed(self) -> int: ...


class Outcome(Protocol):
    @property
    def failure(self) -> Failure | None: ...
    @property
    def events(self) -> int: ...


P = TypeVar("P", bound=SeededPlan)
R = TypeVar("R", bound=Outcome)
T = TypeVar("T")

Listener = Callable[[int, P], None]
"""Is told how many runs it took so far, and the best plan."""


class OutOfPatience(Exception):
    """The limit of the search is reached."""


class Shrunk(Struct, Generic[R], frozen=True, kw_only=True):
    """What the smallest failing plan found does, with its trace, and how many runs that took."""

    report: R
    runs: int
    complete: bool
    """Whether nothing more could be left out, or the search ran into its limit."""


class Search(Generic[P, R]):
    """Whoever extends it says how plans are played and what may be left out. `limit_events`: simulated events it may
    cost; in events, not in seconds, so that a slow machine finds the same plan."""

    network_seeds: int

    def __init__(self, plan: P, rule: str, limit_events: int, listener: Listener[P] | None = None) -> None:
        self.best = plan
        self.runs = 0
        self._rule = rule
        self._events_left = limit_events
        self._listener = listener

    def run(self, plan: P, *, tracing: bool = False) -> R:
        raise NotImplementedError

    def reduce(self) -> None:
        """Try everything that could make `best` smaller, once."""
        raise NotImplementedError

    def is_as_good(self, report: R) -> bool:  # noqa: ARG002
        """Whether a plan that still fails is worth having."""
        return True

    def finish(self) -> None:
        """What is left to be done when nothing can be left out any more."""

    def shrunk(self) -> Shrunk[R]:
        complete = True
        try:
            self._to_the_end()
        except OutOfPatience:
            complete = False
        return Shrunk(report=self.run(self.best, tracing=True), runs=self.runs, complete=complete)

    def _to_the_end(self) -> None:
        """Each reduction may make room for another, so all are tried again until none helps."""
        before = None
        while before != self.best:
            before = self.best
            self.reduce()
        self.finish()

    def attempt(self, candidate: P) -> bool:
        """Does it fail in the same way, with this network seed or another? Then it is the best."""
        if with_seed(candidate, self.best.seed) == self.best:
            return False
        for seed in (self.best.seed, *range(self.network_seeds)):
            candidate = with_seed(candidate, seed)
            if self._breaks(candidate):
                self.best = candidate
                if self._listener is not None:
                    self._listener(self.runs, self.best)
                return True
        return False

    def _breaks(self, plan: P) -> bool:
        if self._events_left <= 0:
            raise OutOfPatience
        report = self.play(plan)
        return self.is_same(report) and self.is_as_good(report)

    def play(self, plan: P) -> R:
        report = self.run(plan)
        self.runs += 1
        self._events_left -= report.events
        return report

    def is_same(self, report: R) -> bool:
        return report.failure is not None and report.failure.rule == self._rule


def with_seed(plan: P, seed: int) -> P:
    """Plans are structs; a protocol cannot say so."""
    changed: P = replace(plan, seed=seed)  # type: ignore[type-var]
    return changed


def fewer(items: tuple[T, ...], attempt: Callable[[tuple[T, ...]], bool]) -> None:
    """Leave out half of the items, a quarter, ... one at a time."""
    size = max(1, len(items) // 2)
    while items:
        at = 0
        while at < len(items):
            rest = items[:at] + items[at + size :]
            if attempt(rest):
                items = rest
            else:
                at += size
        if size == 1:
            return
        size //= 2
