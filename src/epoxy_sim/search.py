"""Shrinking: the search for a smaller plan that breaks the same rule, for plans of any protocol.

Delta debugging (Zeller and Hildebrandt, 2002): leave something out, play it again, keep what still fails. A reduced
plan meets its network at other moments, so each candidate is tried with a few network seeds. All of it is
deterministic: the same failure shrinks to the same plan everywhere.
"""

from collections.abc import Callable, Iterable
from typing import Generic, Protocol, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from epoxy_sim.simulation import P, Report

T = TypeVar("T")

ShrinkListener = Callable[[int, P], None]
"""Called with the number of runs so far and the best plan."""


class PlanRunner(Protocol[P]):
    def __call__(self, plan: P, *, tracing: bool = False) -> Report[P]: ...


class SearchLimitReached(Exception):
    """The search has simulated as many events as it may."""


class Shrunk(Struct, Generic[P], frozen=True, kw_only=True):
    """The report of the smallest failing plan found, with its trace, and the number of runs tried. `complete`: nothing
    more could be left out; otherwise the search reached its limit."""

    report: Report[P]
    runs: int
    complete: bool


class Search(Generic[P]):
    """A subclass says what may be left out. `limit_events`: simulated events a search may cost; in events, not in
    seconds, so that a slow machine finds the same plan. `network_seeds`: tried for each candidate."""

    limit_events: int
    network_seeds: int

    def __init__(
        self,
        plan: P,
        rule: str,
        run: PlanRunner[P],
        *,
        limit_events: int | None = None,
        listener: ShrinkListener[P] | None = None,
    ) -> None:
        self.best = plan
        self.runs = 0
        self.run = run
        self._rule = rule
        self._events_left = self.limit_events if limit_events is None else limit_events
        self._listener = listener

    def reduce(self) -> None:
        """Try everything that could make `best` smaller, once."""
        raise NotImplementedError

    def is_as_good(self, report: Report[P]) -> bool:  # noqa: ARG002
        """Whether a smaller plan that still fails is worth having."""
        return True

    def with_seed(self, plan: P, seed: int) -> P:
        return changed(plan, seed=seed)

    def finish(self) -> None:
        """Called when nothing can be left out any more."""

    def shrunk(self) -> Shrunk[P]:
        complete = True
        try:
            self._to_the_end()
        except SearchLimitReached:
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
        """Whether it fails in the same way, with this network seed or another. Then it is the best."""
        if self.with_seed(candidate, self.best.seed) == self.best:
            return False
        for seed in (self.best.seed, *range(self.network_seeds)):
            candidate = self.with_seed(candidate, seed)
            if self._breaks(candidate):
                self.best = candidate
                if self._listener is not None:
                    self._listener(self.runs, self.best)
                return True
        return False

    def change(self, **fields: object) -> bool:
        """Try the best plan with these fields changed."""
        return self.attempt(changed(self.best, **fields))

    def fewer(self, field: str, *, at_least: int = 0) -> None:
        """Leave out as many elements of a field as possible."""
        fewer(getattr(self.best, field), lambda kept: len(kept) >= at_least and self.change(**{field: kept}))

    def adopt(self, changes: Iterable[Callable[[P], P]]) -> None:
        """One change after the other, each on top of those that worked."""
        for change in changes:
            self.attempt(change(self.best))

    def _breaks(self, plan: P) -> bool:
        if self._events_left <= 0:
            raise SearchLimitReached
        report = self.play(plan)
        return self.is_same(report) and self.is_as_good(report)

    def play(self, plan: P) -> Report[P]:
        report = self.run(plan)
        self.runs += 1
        self._events_left -= report.events
        return report

    def is_same(self, report: Report[P]) -> bool:
        return report.failure is not None and report.failure.rule == self._rule


def changed(plan: P, **fields: object) -> P:
    """Plans are structs, which a protocol cannot express."""
    made: P = replace(plan, **fields)  # type: ignore[type-var]
    return made


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
