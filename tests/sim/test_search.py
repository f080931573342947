"""Shrinking, with plans that take no simulation: the same failure becomes the same small plan."""

from msgspec import Struct
from msgspec.structs import replace

from epoxy_sim.search import Search, fewer
from epoxy_sim.simulation import Failure, Report


class NumbersPlan(Struct, frozen=True, kw_only=True):
    seed: int
    numbers: tuple[int, ...]
    loud: bool = True

    @property
    def size(self) -> int:
        return len(self.numbers)


def run(plan: NumbersPlan, *, tracing: bool = False) -> Report[NumbersPlan]:
    """3 and 17 together break a rule, in a loud plan with any network, in a quiet one only with network seed 2."""
    failure = None
    if {3, 17} <= set(plan.numbers) and (plan.loud or plan.seed == 2):
        failure = Failure(rule="both", detail="")
    elif 5 in plan.numbers:
        failure = Failure(rule="five", detail="")
    trace = ["told"] if tracing else None
    return Report(
        plan=plan,
        failure=failure,
        virtual_us=0,
        events=10,
        messages=0,
        operations=0,
        paths={},
        faults={},
        trace=trace,
    )


class NumbersSearch(Search[NumbersPlan]):
    limit_events = 100_000
    network_seeds = 4

    def reduce(self) -> None:
        self.fewer("numbers", at_least=1)
        self.adopt([lambda best: replace(best, loud=False)])


PLAN = NumbersPlan(seed=9, numbers=tuple(range(20)))


def test_what_is_not_needed_goes_and_another_network_seed_may_help() -> None:
    shrunk = NumbersSearch(PLAN, "both", run).shrunk()
    assert shrunk.complete
    assert shrunk.report.plan == NumbersPlan(seed=2, numbers=(3, 17), loud=False)
    assert shrunk.report.trace == ["told"]
    assert shrunk.runs > 10


def test_another_rule_is_another_failure() -> None:
    assert NumbersSearch(PLAN, "five", run).shrunk().report.plan.numbers == (5,)


def test_the_limit_ends_a_search() -> None:
    shrunk = NumbersSearch(PLAN, "both", run, limit_events=50).shrunk()
    assert not shrunk.complete
    assert shrunk.runs == 5
    assert {3, 17} <= set(shrunk.report.plan.numbers)


def test_a_listener_hears_of_every_better_plan() -> None:
    sizes: list[int] = []
    NumbersSearch(PLAN, "both", run, listener=lambda _, best: sizes.append(best.size)).shrunk()
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] == 2


def test_fewer_keeps_nothing_if_nothing_matters() -> None:
    kept: list[tuple[int, ...]] = []

    def accept(items: tuple[int, ...]) -> bool:
        kept.append(items)
        return True

    fewer((1, 2, 3, 4), accept)
    assert kept[-1] == ()


def test_fewer_finds_the_two_that_matter() -> None:
    kept = tuple(range(20))

    def attempt(items: tuple[int, ...]) -> bool:
        nonlocal kept
        if {3, 17} <= set(items):
            kept = items
            return True
        return False

    fewer(kept, attempt)
    assert kept == (3, 17)
